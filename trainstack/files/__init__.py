"""Files on this machine: reads of untrusted files, changes of a project's files, and temporary files.

Read project.py before you edit.
"""
