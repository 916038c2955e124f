"""The forecast of an environment: a simulation of its queues with declared or measured durations.

Read simulation.py before you edit.
"""
