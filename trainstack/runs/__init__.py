"""Training runs: names, identity, records and the launch decision."""
