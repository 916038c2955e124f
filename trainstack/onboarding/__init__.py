"""New teams, and objects that were created by hand."""
