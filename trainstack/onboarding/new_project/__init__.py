"""A project in a repository of its own: `trainstack init` and `trainstack init --upgrade`.

Read `files.py` before you edit.
"""
