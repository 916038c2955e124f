"""Kubernetes objects in YAML files as workloads and entries of an environment, without loss of a field. Pure.

The steps: `documents` reads objects, `server_fields` drops what the cluster has set, `conversion` assigns each object a
place in the project, `comparison` shows that the rendered objects have every field of the files. Read
`conversion.py` before you edit.
"""
