"""The reference systems that the local cluster can simulate, as their users find them.

One folder each: `site.yaml` defines the node, registry and operators, `objects.yaml` contains Kubernetes objects.
"""
