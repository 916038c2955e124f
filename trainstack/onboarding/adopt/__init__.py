"""What others made by hand, as settings that say exactly the same. Pure: from live objects to entries of a file."""
