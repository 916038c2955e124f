"""The handwritten-digits training program: runs in a container, imports nothing of the stack."""
