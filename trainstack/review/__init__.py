"""What a change means: an environment's preview, or the difference of its files, as one comment of a pull request."""
