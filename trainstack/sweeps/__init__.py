"""Launches and status of a sweep's trials."""
