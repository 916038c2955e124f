"""Kubernetes Secrets, whose values only the engine can decrypt."""

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any

import pulumi

from trainstack.components.objects import Object, resource_names
from trainstack.settings.sections.secrets import Secret
from trainstack.stack_objects.stack_objects import StackObjects


class Secrets(pulumi.ComponentResource):
    names: pulumi.Output[list[str]]
    """The Secrets, as `<namespace>/<name>`."""

    def __init__(
        self,
        name: str,
        stack_objects: StackObjects,
        values: pulumi.Output[Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare the Secrets. Their values are encrypted in state and previews, and absent from logs and outputs.

        `values` is the decrypted section, a secret output.
        """
        super().__init__("trainstack:platform:Secrets", name, {}, opts)
        secret_options = pulumi.ResourceOptions(parent=self, additional_secret_outputs=["data", "stringData"])
        for secret, manifest in zip(
            stack_objects.settings.secrets.secrets, stack_objects.secrets.manifests, strict=True
        ):
            data = {key: values.apply(partial(_encoded_value, secret, key)) for key in secret.values}
            Object({**manifest, "data": data}, secret_options)
        self.names = resource_names(stack_objects.secrets, "Secret")
        self.register_outputs({"names": self.names})


def _encoded_value(declared_secret: Secret, key: str, section: Mapping[str, Any]) -> str:
    """Return a value in base64. Raises RunError if the engine's configuration does not have the file's value."""
    for secret in section.get("secrets", ()):
        is_declared = (secret.get("name"), secret.get("namespace")) == (declared_secret.name, declared_secret.namespace)
        if is_declared and key in secret["values"]:
            return base64.b64encode(str(secret["values"][key]).encode()).decode()
    raise pulumi.RunError(
        f"trainstack:secrets: the engine's configuration has no {key} for "
        f"{declared_secret.namespace}/{declared_secret.name}, but the stack's file has it: do not set "
        "this section with `--config` or `--config-file`"
    )
