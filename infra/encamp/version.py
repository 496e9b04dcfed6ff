"""The version of encamp, which the wheel's build reads too."""

__version__ = "0.1.0"
