"""The settings of an environment: the only place where values are validated.

Read model.py before you edit.
"""
