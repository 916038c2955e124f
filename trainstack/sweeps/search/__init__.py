"""The search itself: which sets a space has, what trials made of them, and which sets to try next."""
