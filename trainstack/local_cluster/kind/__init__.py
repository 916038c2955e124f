"""The local cluster as a kind cluster, in containers of docker, podman or nerdctl.

Read `cluster.py` before you edit.
"""
