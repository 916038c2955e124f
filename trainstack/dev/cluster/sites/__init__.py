"""The reference systems that the local cluster can stand in for: what is given there, to those who train on it.

A folder each: `site.yaml` says what its node, registry and operators are, `objects.yaml` holds Kubernetes objects.
"""
