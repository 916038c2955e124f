"""Reads of a cluster or a registry, the only ones."""
