"""Rules that check an environment's files, alone or against a live cluster.

Read `rule.py` before you edit: it defines what a rule, a check and a violation are.
"""
