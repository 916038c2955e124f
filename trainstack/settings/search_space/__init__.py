"""The search space of a sweep and its parameter sets. Read space.py before you edit."""
