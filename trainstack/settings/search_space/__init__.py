"""The search space of a sweep and its parameter sets."""
