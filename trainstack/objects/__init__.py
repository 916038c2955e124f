"""Labels, identity and owner of an object. Read labels.py before you edit."""
