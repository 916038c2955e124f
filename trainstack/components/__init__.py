"""Pulumi ComponentResources."""
