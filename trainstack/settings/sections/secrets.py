"""Section `trainstack:secrets`: credentials of registries, repositories and object stores, which the engine encrypts.

No settings ever hold a value: the files have what the engine encrypted, and the engine alone makes the data of a
Kubernetes Secret of it.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from trainstack.settings.base import DnsLabel, DnsName, Section
from trainstack.settings.values.kubernetes import SecretKey

IN_PLAIN = "secret_in_plain"
"""The type of pydantic's error for a value that is not encrypted. The message holds nothing of the value."""
_KEYS = {
    "kubernetes.io/basic-auth": {"username", "password"},
    "kubernetes.io/dockerconfigjson": {".dockerconfigjson"},
    "kubernetes.io/ssh-auth": {"ssh-privatekey"},
    "Opaque": set[str](),
}
"""What a Secret of each type must hold. Source: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types"""


class Encrypted(Section):
    """A value as `pulumi config set --secret` writes it."""

    secure: str = Field(min_length=1)
    """What the engine encrypted; it alone reads it."""


def _encrypted(value: Any) -> Any:
    given = isinstance(value, dict) and value.keys() == {"secure"} and isinstance(value["secure"], str)
    if given or isinstance(value, Encrypted):
        return value
    raise PydanticCustomError(IN_PLAIN, "a secret stands in plain text")


class SecretValue(Section):
    """A value by where it stands, in the namespace of whoever uses it."""

    secret: DnsName
    key: SecretKey


class Secret(Section):
    """A Kubernetes Secret that the stack makes, of values that the engine decrypts."""

    name: DnsName
    namespace: DnsLabel
    type: Literal["Opaque", "kubernetes.io/basic-auth", "kubernetes.io/dockerconfigjson", "kubernetes.io/ssh-auth"] = (
        "Opaque"
    )
    """`dockerconfigjson` is for `imagePullSecrets`, `basic-auth` and `ssh-auth` for a run's `code`, `Opaque` for the
    rest."""
    values: dict[SecretKey, Annotated[Encrypted, BeforeValidator(_encrypted)]] = Field(default_factory=dict)
    """By key. Set with `pulumi config set --secret --path`, never by hand: a value in plain text is refused."""

    @model_validator(mode="after")
    def _complete(self) -> "Secret":
        if not self.values:
            raise ValueError("the Secret holds nothing: set its values with `pulumi config set --secret --path`")
        if missing := sorted(_KEYS[self.type] - self.values.keys()):
            raise ValueError(
                f"a Secret of type {self.type} lacks {', '.join(missing)}: set it with `pulumi config set --secret "
                "--path`"
            )
        return self


class Secrets(Section):
    """The Secrets of an environment."""

    secrets: tuple[Secret, ...] = ()
