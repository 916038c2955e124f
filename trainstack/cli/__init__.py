"""The command `trainstack`, one module for each subcommand."""
