"""The state of a run, read from its objects. Read run_view.py before you edit."""
