"""Faults of people, machines and other programs; `make faults` runs all of them."""
