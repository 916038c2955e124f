"""The local cluster: a real control plane and a real kubelet in namespaces of their own, in one state folder."""
