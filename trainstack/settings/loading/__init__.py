"""The loader of an environment's files: YAML with positions, merged by one rule. Read load.py before you edit."""
