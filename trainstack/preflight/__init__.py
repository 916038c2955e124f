"""Rules over files and over a live cluster."""
