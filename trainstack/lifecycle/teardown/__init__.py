"""The plan of a stack's teardown: deleted and retained objects, and refusals. Pure; docs/decisions/0011."""
