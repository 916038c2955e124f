"""Settings with exactly the values of objects that were created by hand: from live objects to a file's entries. Pure.

Read `plan.py` before you edit.
"""
