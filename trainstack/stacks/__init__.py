"""The Pulumi program: it decides about a change, and declares the platform, the training layer, or both.

Read `plan_change.py` before you edit, and `assemble.py` for the order of resources.
"""
