"""The models of the sections of an environment's file. Read workloads.py before you edit."""
