"""Manifests of runs, one module for each kind. Read kind.py before you edit."""
