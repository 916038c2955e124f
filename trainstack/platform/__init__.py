"""Manifests of the platform: namespaces, networks, storage, queues, Secrets."""
