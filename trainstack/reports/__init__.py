"""Figures of runs and sweeps: read from records and logs, compared, and drawn as charts and pages.

Read runs.py before you edit: it builds the figures of a run. Read charts.py before you edit a chart.
"""
