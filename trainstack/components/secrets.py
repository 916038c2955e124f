"""Kubernetes Secrets, of values that only the engine has seen before."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi

from trainstack.components.objects import Object
from trainstack.declared.component import Component
from trainstack.settings.sections.secrets import Secret
from trainstack.settings.sections.secrets import Secrets as SecretsSettings


@dataclass(frozen=True, kw_only=True)
class SecretsArgs:
    """What `Secrets` declares."""

    secrets: SecretsSettings
    objects: Component
    """The Secrets without their values, in the same order."""
    values: pulumi.Output[Any]
    """The section as the engine decrypts it: a secret output, and so is what is made of it."""


class Secrets(pulumi.ComponentResource):
    """The Secrets of an environment."""

    names: pulumi.Output[list[str]]
    """The Secrets, as `<namespace>/<name>`."""

    def __init__(self, name: str, args: SecretsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare them. State and previews hold what the engine encrypted; logs and outputs nothing."""
        super().__init__("trainstack:platform:Secrets", name, {}, opts)
        hidden = pulumi.ResourceOptions(parent=self, additional_secret_outputs=["data", "stringData"])
        for each, manifest in zip(args.secrets.secrets, args.objects.manifests, strict=True):
            data: dict[str, pulumi.Output[str]] = {
                key: args.values.apply(partial(_data, each, key)) for key in each.values
            }
            Object({**manifest, "data": data}, hidden)
        self.names = pulumi.Output.from_input([f"{each.namespace}/{each.name}" for each in args.secrets.secrets])
        self.register_outputs({"names": self.names})


def _data(declared: Secret, key: str, section: Mapping[str, Any]) -> str:
    """One value as Kubernetes stores it. Raises RunError where the engine was given another section than the file's."""
    for each in section.get("secrets", ()):
        if (each.get("name"), each.get("namespace")) == (declared.name, declared.namespace) and key in each["values"]:
            return base64.b64encode(str(each["values"][key]).encode()).decode()
    raise pulumi.RunError(
        f"trainstack:secrets: the engine's configuration has no {key} for {declared.namespace}/{declared.name}, which "
        "the stack's file has: leave `--config` and `--config-file` out for this section"
    )
