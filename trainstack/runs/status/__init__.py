"""The state of a run, read from its objects."""
