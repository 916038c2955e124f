"""The two stacks, composed of components."""
