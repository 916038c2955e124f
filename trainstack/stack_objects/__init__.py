"""The objects of an environment, each built once, by component and in the order of creation.

Read declared.py before you edit.
"""
