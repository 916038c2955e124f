"""Images of runs: references, tags and build contexts."""
