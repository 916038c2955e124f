"""Roles of the people and programs that use an environment. Read rights.py before you edit."""
