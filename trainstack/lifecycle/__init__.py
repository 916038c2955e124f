"""Teardown, recovery, drift and evictions of a stack.

Read `teardown/plan.py` before you edit the teardown, and `recovery/diagnosis.py` before you edit recovery.
"""
