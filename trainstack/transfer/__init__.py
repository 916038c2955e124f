"""Transfers of files to and from volumes. Read loader.py before you edit."""
