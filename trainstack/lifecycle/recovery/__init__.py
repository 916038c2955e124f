"""Recovery from an interrupted operation or a lost state.

Read `diagnosis.py` before you edit.
"""
