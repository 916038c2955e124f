"""The training program for handwritten digits. It runs in a container and imports no module of Trainstack."""
