"""Recovery from an interrupted or lost state."""
