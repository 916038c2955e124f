"""Files to and from volumes."""
