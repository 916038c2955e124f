"""Files on this machine: reading those of untrusted authors, changing those of a project, and temporary ones."""
