"""The preflight rules, a file for each group."""
