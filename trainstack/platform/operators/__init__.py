"""Releases of the operators and their configuration."""
