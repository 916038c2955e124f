"""The validated fields of a kubeconfig's context, cluster and user that Trainstack uses."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trainstack.live import kubeconfig
from trainstack.live.errors import PermanentError, missing_kubeconfig_error, unusable_kubeconfig_error

Model = TypeVar("Model", bound="_KubeconfigEntry")


class _KubeconfigEntry(BaseModel):
    """An entry of the kubeconfig. Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        """Drop nulls, which kubectl writes for fields that are not set."""
        return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value


class KubeconfigCluster(_KubeconfigEntry):
    """A cluster of the kubeconfig."""

    server: str = Field(min_length=1)
    authority: str = Field("", alias="certificate-authority")
    authority_data: str = Field("", alias="certificate-authority-data")
    insecure: bool = Field(default=False, alias="insecure-skip-tls-verify")
    tls_server_name: str = Field("", alias="tls-server-name")
    proxy_url: str = Field("", alias="proxy-url")


class Variable(_KubeconfigEntry):
    """An environment variable of a plugin."""

    name: str
    value: str = ""


class Plugin(_KubeconfigEntry):
    """A user's `exec`: a program that prints a credential."""

    api_version: str = Field(alias="apiVersion")
    command: str
    args: list[str] = []
    env: list[Variable] = []
    install_hint: str = Field("", alias="installHint")
    provides_cluster_info: bool = Field(default=False, alias="provideClusterInfo")
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = Field("IfAvailable", alias="interactiveMode")


class AuthProvider(_KubeconfigEntry):
    """A login method that is built into clients. Only OpenID Connect is still supported."""

    name: str
    config: dict[str, str] = {}


class KubeconfigUser(_KubeconfigEntry):
    """A user of the kubeconfig."""

    token: str = ""
    token_file: str = Field("", alias="tokenFile")
    certificate: str = Field("", alias="client-certificate")
    certificate_data: str = Field("", alias="client-certificate-data")
    key: str = Field("", alias="client-key")
    key_data: str = Field("", alias="client-key-data")
    username: str = ""
    password: str = ""
    plugin: Plugin | None = Field(None, alias="exec")
    auth_provider: AuthProvider | None = Field(None, alias="auth-provider")


@dataclass(frozen=True)
class Access:
    """A context's cluster and user."""

    context: str | None
    """The context in the settings; None: the kubeconfig's current one."""
    name: str
    """The context's name in the kubeconfig."""
    cluster: KubeconfigCluster
    user: KubeconfigUser
    cluster_entry: Mapping[str, Any]
    """The cluster's raw entry, for plugins and kr8s."""

    @property
    def description(self) -> str:
        """Return `context NAME, SERVER (FILE)`, for messages."""
        return f"context {self.name}, {self.cluster.server} ({kubeconfig.display_path()})"

    def unusable_error(self, reason: str) -> PermanentError:
        """Return the error of a kubeconfig that cannot be used for this `reason`."""
        return unusable_kubeconfig_error(self.context, reason)

    def read_authority(self) -> str:
        """Return the CA's certificate in PEM, or "" without one. Raises PermanentError."""
        return self.read_pem("certificate-authority", self.cluster.authority, self.cluster.authority_data)

    def read_pem(self, field: str, file: str, data: str) -> str:
        """Return a certificate or a key in PEM from its data, or else from its file. Raises PermanentError."""
        # Comments between certificates may have any encoding. Latin-1 maps each byte to one character.
        if not data:
            return self.read_text_file(field, file, encoding="latin-1") if file else ""
        if "-----" in data:
            return data
        try:
            return base64.b64decode("".join(data.split()), validate=True).decode("latin-1")
        except ValueError:
            raise self.unusable_error(f"{field}-data is not base64") from None

    def read_text_file(self, field: str, file: str, encoding: str = "utf-8") -> str:
        """Return the content of a file that the kubeconfig names. Raises PermanentError."""
        try:
            if not Path(file).is_file() and Path(file).exists():
                # A read of a FIFO or a terminal would block.
                raise self.unusable_error(f"{field}: {file} is not a file")
            return Path(file).read_text(encoding=encoding)
        except OSError as error:
            raise self.unusable_error(f"{field}: {file}: {error.strerror or error}") from error
        except UnicodeError:
            raise self.unusable_error(f"{field}: {file} is not a text") from None


def read_access(context: str | None) -> Access:
    """Return the access of a context, by default the current one. Raises PermanentError for an invalid kubeconfig."""
    if not kubeconfig.exists():
        raise missing_kubeconfig_error()
    try:
        config = kubeconfig.select_context(context)
    except kubeconfig.READ_ERRORS as error:
        raise unusable_kubeconfig_error(context, str(error)) from error
    name = str(config["current-context"])
    context_entry: Mapping[str, Any] = config["contexts"][0]["context"]
    if not context_entry.get("cluster"):
        raise unusable_kubeconfig_error(context, f"context {name} has no cluster")
    cluster = _find_entry(config, "cluster", context_entry["cluster"], context)
    # Without a user, requests have no credentials.
    user = _find_entry(config, "user", context_entry["user"], context) if context_entry.get("user") else {}
    return Access(
        context=context,
        name=name,
        cluster=_validate_entry(KubeconfigCluster, cluster, f"cluster {context_entry['cluster']}", context),
        user=_validate_entry(KubeconfigUser, user, f"user {context_entry.get('user')}", context),
        cluster_entry=cluster,
    )


def _find_entry(config: Mapping[str, Any], kind: str, name: object, context: str | None) -> dict[str, Any]:
    if not config[f"{kind}s"]:
        raise unusable_kubeconfig_error(context, f"it has no {kind} {name}")
    entry: dict[str, Any] = config[f"{kind}s"][0][kind]
    return entry


def _validate_entry(model: type[Model], entry: Mapping[str, Any], subject: str, context: str | None) -> Model:
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        # The message does not contain the values, which may be secrets.
        first_error = error.errors(include_input=False, include_url=False)[0]
        field_path = ".".join(str(step) for step in first_error["loc"])
        raise unusable_kubeconfig_error(context, f"{subject}: {field_path}: {first_error['msg']}") from None
