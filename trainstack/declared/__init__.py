"""Everything that an environment declares: each object once, with its component, in the order of creation."""
