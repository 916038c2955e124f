"""Rules that compare an environment with its cluster, one module per topic.

Read `live_context.py` of the parent package before you edit.
"""
