"""Manifests of the platform's objects: namespaces, networks, storage, queues, operators, roles, Secrets.

Read queues.py before you edit.
"""
