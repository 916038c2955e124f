"""Training infrastructure as code: the library and the command."""
