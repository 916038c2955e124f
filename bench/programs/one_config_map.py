"""A Pulumi program with one object: the cost of the engine, the language host and the provider."""

from pulumi_kubernetes import core

core.v1.ConfigMap("one", metadata={"name": "trainstack-bench", "namespace": "default"}, data={"key": "value"})
