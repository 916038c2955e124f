"""The search: the sets of a space, the results of their trials, and the next sets. Read results.py before you edit."""
