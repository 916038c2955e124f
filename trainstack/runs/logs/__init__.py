"""Lines of a training log, and what is read from them."""
