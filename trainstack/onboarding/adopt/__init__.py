"""Manually created objects as settings with exactly the same values. Pure: from live objects to entries of a file."""
