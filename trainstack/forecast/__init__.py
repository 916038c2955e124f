"""What would happen in which order: a simulation of the queues, with declared or measured durations."""
