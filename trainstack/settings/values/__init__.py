"""Types of single values: quantities, names, paths. Read kubernetes.py before you edit."""
