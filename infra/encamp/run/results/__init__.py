"""The traces of an ended job: its receipt, the notices about its end, and the rules by which a receipt is believed."""
