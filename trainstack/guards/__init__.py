"""Refusals: other owners, other clusters, volumes with data, field managers."""
