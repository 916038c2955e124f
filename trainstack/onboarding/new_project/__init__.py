"""A project in a repository of its own: `trainstack init` and `trainstack init --upgrade`."""
