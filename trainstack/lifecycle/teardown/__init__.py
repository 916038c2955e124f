"""The plan of a stack's teardown: deleted and retained objects, and refusals (docs/decisions/0011). Pure.

Read `plan.py` before you edit.
"""
