"""Types of single values: quantities, names, paths."""
