"""Training logs: their lines, figures and progress. Read training_log.py before you edit."""
