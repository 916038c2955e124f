"""Roles of the people and programs that use an environment."""
