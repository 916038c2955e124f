"""The rules that hold an environment against a cluster, a file for each group."""
