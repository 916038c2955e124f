"""A workload's `code`: the commit of a git repository that is checked out into its pods."""

import re
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from trainstack.settings.base import Section
from trainstack.settings.values.credential_text import address_has_credential
from trainstack.settings.values.kubernetes import DnsName, MountPath, quote

_HOST = r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)"
_USER = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?"
_PATH = r"(?P<path>[A-Za-z0-9._~/%+@,=-]+)"
_FORMS = (
    re.compile(rf"https://{_HOST}(?::[0-9]+)?/{_PATH}"),
    re.compile(rf"ssh://{_USER}{_HOST}(?::[0-9]+)?/{_PATH}"),
    re.compile(rf"{_USER}{_HOST}:(?!//){_PATH}"),
)
_MAX_CHARACTERS = 2_000
"""Characters of an address: the regular expressions take quadratic time."""
_COMMIT = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
_ABBREVIATED = rf"^(?!{_COMMIT[1:]})[0-9A-Fa-f]{{4,64}}$"
_REF_NAME = (
    r"^(?![-./]|@$)(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|$)|[./]$))"  # forbidden prefixes, substrings and suffixes
    r"[^\x00-\x20\x7f~^:?*\[\\]{1,255}$"
)
"""Source: https://git-scm.com/docs/git-check-ref-format; `git branch` also rejects names that begin with `-`."""

Commit = Annotated[str, Field(pattern=_COMMIT)]
"""A full commit hash, in 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits."""


class Code(Section):
    """A git checkout. Each pod has its own, which the program may write to."""

    git: str
    """`https://host/path`, `ssh://user@host/path` or `user@host:path`, without a password."""
    revision: Annotated[str, Field(json_schema_extra={"pattern": _REF_NAME, "not": {"pattern": _ABBREVIATED}})]
    """A commit, in 40 (SHA-1) or 64 (SHA-256) hexadecimal digits, which is part of the run's identity. Or a branch or
    tag: `trainstack pin` writes its commit to `pins/<environment>.yaml`, which replaces it when the file is loaded."""
    mount_path: MountPath
    """The folder of the checkout; usually the `workingDir` too."""
    secret: DnsName | None = None
    """A Secret in the run's namespace with `ssh-privatekey` and `known_hosts`, or `username` and `password`; for https
    also `ca.crt` if no public authority signed the server's certificate. None: the repository is public."""

    @field_validator("git")
    @classmethod
    def _check_address(cls, text: str) -> str:
        # The messages never repeat the address: it may contain a password.
        if len(text) > _MAX_CHARACTERS:
            raise ValueError(f"has {len(text)} characters; write an address of at most {_MAX_CHARACTERS}")
        if address_has_credential(text):
            raise ValueError(
                "contains a credential, which would appear in manifests, logs and records; remove it from the address, "
                "and set `secret` to a Secret of the cluster that contains it"
            )
        if not any(form.fullmatch(text) for form in _FORMS):
            raise ValueError(
                "is not an https or ssh address of a repository; write https://host/path, ssh://user@host/path or "
                "user@host:path"
            )
        return text

    @field_validator("revision")
    @classmethod
    def _check_revision(cls, text: str) -> str:
        if re.fullmatch(_ABBREVIATED, text):
            raise ValueError(f"{text} is an abbreviated commit; write what `git rev-parse {text}` prints in a clone")
        if not re.fullmatch(_REF_NAME, text) or not text.isprintable():
            raise ValueError(
                f"{quote(text)} is neither a commit nor a valid name of a branch or tag; write a full commit, or a "
                "name that `git check-ref-format --branch` accepts"
            )
        return text

    @model_validator(mode="after")
    def _check_ssh_secret(self) -> "Code":
        if not self.is_https and self.secret is None:
            raise ValueError(
                "ssh needs a private key and the server's host key: set `secret` to a Secret with both, created "
                "with `kubectl create secret generic <name> --type=kubernetes.io/ssh-auth "
                "--from-file=ssh-privatekey=<file> --from-file=known_hosts=<file>`"
            )
        return self

    @property
    def pin_key(self) -> str | None:
        """The key in `pins/<environment>.yaml`, `<git> <revision>`; None if the revision is a commit."""
        return None if re.fullmatch(_COMMIT, self.revision) else f"{self.git} {self.revision}"

    @property
    def is_https(self) -> bool:
        return self.git.startswith("https://")

    @property
    def repository(self) -> str:
        """`host/path`: the repository's identity, whatever the protocol, user and port."""
        match = next(match for form in _FORMS if (match := form.fullmatch(self.git)))
        return f"{match['host'].lower()}/{match['path'].strip('/').removesuffix('.git')}"
