"""Manifests of runs, one module for each kind."""
