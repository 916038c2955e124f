"""Images of runs: references, tags and build contexts. Read images.py before you edit."""
