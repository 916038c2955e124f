"""One module for each command, or for commands that share options. `trainstack/cli/app.py` maps commands to them."""
