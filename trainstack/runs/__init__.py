"""Training runs: names, identity, records and the launch decision. Read launches.py before you edit."""
