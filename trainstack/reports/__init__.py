"""What runs did: read from records and logs, compared, and shown as pictures and pages."""
