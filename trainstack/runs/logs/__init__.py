"""Training logs: their lines, figures and progress."""
