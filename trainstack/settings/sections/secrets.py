"""Section `trainstack:secrets`: credentials of registries, repositories and object stores, which the engine encrypts.

Settings never contain a decrypted value: the files have ciphertext, which the engine decrypts into a Kubernetes Secret.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from trainstack.settings.base import Section
from trainstack.settings.values.kubernetes import DnsLabel, DnsName, EnvName, SecretKey

PLAIN_TEXT_ERROR = "secret_in_plain"
"""The type of pydantic's error for an unencrypted value. The message does not contain the value."""
_REQUIRED_KEYS = {
    "kubernetes.io/basic-auth": {"username", "password"},
    "kubernetes.io/dockerconfigjson": {".dockerconfigjson"},
    "kubernetes.io/ssh-auth": {"ssh-privatekey"},
    "Opaque": set[str](),
}
"""The required keys of each type of Secret. Source: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types"""


class Encrypted(Section):
    """A value that `pulumi config set --secret` encrypted."""

    secure: str = Field(min_length=1)
    """The engine's ciphertext."""


def _check_encrypted(value: Any) -> Any:
    is_encrypted = isinstance(value, dict) and value.keys() == {"secure"} and isinstance(value["secure"], str)
    if is_encrypted or isinstance(value, Encrypted):
        return value
    raise PydanticCustomError(PLAIN_TEXT_ERROR, "the secret is in plain text")


class SecretValue(Section):
    """A reference to a key of a Secret in the same namespace."""

    secret: DnsName
    key: SecretKey


class EnvSource(Section):
    """A Secret or a ConfigMap of the same namespace whose keys become variables."""

    secret: DnsName | None = None
    config_map: DnsName | None = None
    prefix: EnvName | None = None
    """Precedes each key."""

    @model_validator(mode="after")
    def _check_source(self) -> "EnvSource":
        if (self.secret is None) == (self.config_map is None):
            raise ValueError("an entry of envFrom needs one source: set either secret or configMap")
        return self


class Secret(Section):
    """A Kubernetes Secret that the stack creates from values that the engine decrypts."""

    name: DnsName
    namespace: DnsLabel
    type: Literal["Opaque", "kubernetes.io/basic-auth", "kubernetes.io/dockerconfigjson", "kubernetes.io/ssh-auth"] = (
        "Opaque"
    )
    """`dockerconfigjson` for `imagePullSecrets`, `basic-auth` and `ssh-auth` for a run's `code`, else `Opaque`."""
    values: dict[SecretKey, Annotated[Encrypted, BeforeValidator(_check_encrypted)]] = Field(default_factory=dict)
    """By key. Set them with `pulumi config set --secret --path`: values in plain text are refused."""

    @model_validator(mode="after")
    def _check_keys(self) -> "Secret":
        if not self.values:
            raise ValueError("the Secret has no values: set them with `pulumi config set --secret --path`")
        if missing := sorted(_REQUIRED_KEYS[self.type] - self.values.keys()):
            raise ValueError(
                f"a Secret of type {self.type} lacks {', '.join(missing)}: set it with `pulumi config set --secret "
                "--path`"
            )
        return self


class Secrets(Section):
    """The Secrets of an environment."""

    secrets: tuple[Secret, ...] = ()
