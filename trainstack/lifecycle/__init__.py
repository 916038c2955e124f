"""Teardown and recovery of a stack."""
