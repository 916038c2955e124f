"""The reference systems that the local cluster can simulate, in the state in which their users receive them.

Each has a folder: `site.yaml` defines the node, images and operators; `objects.yaml` contains Kubernetes objects.
Read `install.py` before you edit.
"""
