"""The command `trainstack`. `app.py` lists the module of each subcommand."""
