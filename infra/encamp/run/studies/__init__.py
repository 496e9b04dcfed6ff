"""A study: trials begun, watched and ended until it is done, wherever they run."""
