"""Figures of runs and sweeps: read from records and logs, compared, and drawn as charts and pages."""
