"""What a pull request changes: an environment's preview, or the difference of its files, as one comment."""
