"""A plain Pulumi program: objects of a file, each by the generated class of its kind.

The benchmark runs it as `__main__.py` of a project whose folder has `objects.json`.
"""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.yaml.v2 import ConfigGroup

Body = dict[str, Any]


def snake(name: str) -> str:
    return re.sub("(?<=[a-z])([A-Z])", r"_\1", name).lower()


def declare(body: Body, depends_on: list[pulumi.Resource]) -> pulumi.Resource:
    """Declare an object by its kind's class, or as a custom resource if the SDK has none."""
    metadata = body["metadata"]
    name = "/".join((body["kind"], metadata.get("namespace", ""), metadata["name"]))
    options = pulumi.ResourceOptions(depends_on=depends_on)
    group, _, version = body["apiVersion"].rpartition("/")
    package = (group or "core").removesuffix(".k8s.io").partition(".")[0]
    try:
        module = importlib.import_module(f"pulumi_kubernetes.{package}.{version}")
        resource = getattr(module, body["kind"])
    except (ImportError, AttributeError):
        if body.keys() - {"apiVersion", "kind", "metadata", "spec"}:
            # The class for custom resources has no other fields.
            return ConfigGroup(name, objs=[body], opts=options)
        return CustomResource(
            name,
            api_version=body["apiVersion"],
            kind=body["kind"],
            metadata=metadata,
            spec=body.get("spec"),
            opts=options,
        )
    fields = {snake(key): value for key, value in body.items() if key not in ("apiVersion", "kind")}
    declared: pulumi.Resource = resource(name, opts=options, **fields)
    return declared


def main() -> None:
    objects: list[Body] = json.loads(Path("objects.json").read_text())
    first = [body for body in objects if body["kind"] in ("Namespace", "CustomResourceDefinition")]
    defined = {body["spec"]["group"] for body in first if body["kind"] == "CustomResourceDefinition"}
    builtin = [body for body in objects if body not in first and body["apiVersion"].partition("/")[0] not in defined]
    custom = [body for body in objects if body not in first and body not in builtin]
    gates: list[pulumi.Resource] = []
    for stage in (first, builtin, custom):
        gates = [declare(body, gates) for body in stage] or gates


main()
