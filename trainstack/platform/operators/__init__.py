"""Releases of the operators and their configuration. Read install.py before you edit."""
