"""Launches and status of a sweep's trials. Read decision.py before you edit."""
