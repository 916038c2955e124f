"""Labels, identity and owner of an object."""
