"""The sections of an environment's file, one module for each."""
