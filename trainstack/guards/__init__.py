"""Refusals: other owners, other clusters, deletions, volumes with data, field managers."""
