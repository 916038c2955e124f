"""What people, machines and others' programs do wrong: `make faults` runs all of it."""
