"""The run wrapper: one file that a ConfigMap takes into the pods of managed workloads."""
