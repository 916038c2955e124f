"""The local cluster: a control plane and a kubelet in namespaces of their own, with one state folder.

Read `cluster.py` before you edit.
"""
