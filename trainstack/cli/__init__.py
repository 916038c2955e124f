"""The command `trainstack`. `app.py` lists the module of each subcommand."""

import os

from trainstack.cli.output.terminal_size import set_usable_size

# Before the libraries that print are imported: they read the size once.
set_usable_size(os.environ)
