"""The admission simulator, in Kueue's own terms."""
