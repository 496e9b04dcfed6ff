"""What people type: one file a verb, each with a click ``command``."""
