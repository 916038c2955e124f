"""The end of a stack: what goes, in which order, what stays, and who is in the way. Pure; docs/decisions/0011."""
