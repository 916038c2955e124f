"""What commands print: tables, progress, JSON, errors, and what happens if a standard stream is closed."""
