"""Refusals of changes: other clusters, other owners, deletions, volumes with data, fields of other managers.

Read states.py before you edit.
"""
