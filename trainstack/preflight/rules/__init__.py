"""Rules over the files of an environment, one module per topic.

Read `rule_context.py` of the parent package before you edit.
"""
