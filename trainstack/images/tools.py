"""buildah, podman and docker: build and push images, each with its own credentials."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainstack.errors import TrainstackError
from trainstack.files.temporary import temporary_folder
from trainstack.printable import clean
from trainstack.runs.images.references import registry_host

_DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")
"""docker's message about the digest of a pushed image."""
_UNKNOWN_IMAGE = re.compile(r"no such (image|object)|image not known|not found", re.IGNORECASE)
_REFUSED = re.compile(r"unauthorized|authentication required|authorization failed|access denied|no basic auth|denied:")
_UNREACHABLE = re.compile(r"\bdial tcp\b|no such host|i/o timeout|TLS handshake timeout")
_NO_NETAVARK = re.compile(r'could not find "netavark"')
_UNTRUSTED = re.compile(r"x509: certificate signed by unknown authority|failed to verify certificate")


class ImageToolError(TrainstackError):
    """A tool is missing or failed. The message gives the command and the remedy."""


@dataclass(frozen=True)
class ImageTool:
    """A program that builds and pushes images. Its methods raise ImageToolError."""

    name: Literal["buildah", "podman", "docker"]

    def build(self, reference: str, context: Path, build_args: Mapping[str, str], *options: str) -> None:
        arguments = [word for key, value in sorted(build_args.items()) for word in ("--build-arg", f"{key}={value}")]
        command = [self.name, "build", "--file", str(context / "Dockerfile"), "--tag", reference]
        _execute([*command, *options, *arguments, str(context)])

    def has_image(self, reference: str) -> bool:
        type_options = ("--type", "image") if self.name == "buildah" else ()
        command = [self.name, *(() if type_options else ("image",)), "inspect", *type_options, reference]
        inspection = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if inspection.returncode and not _UNKNOWN_IMAGE.search(inspection.stderr):
            raise ImageToolError(
                f"`{shlex.join(command)}` exited with {inspection.returncode}: {inspection.stderr.strip()}"
            )
        return inspection.returncode == 0

    def push(self, reference: str) -> str:
        """Push the image and return its digest in the registry; "" if docker does not print it."""
        if self.name == "docker":
            digest = _DIGEST.search(_execute([self.name, "push", reference]))
            return digest[1] if digest else ""
        with temporary_folder() as folder:
            file = folder / "digest"
            _execute([self.name, "push", "--digestfile", str(file), reference])
            return file.read_text(encoding="utf-8").strip()

    def load(self, layout: Path, reference: str) -> None:
        """Import an image from an OCI layout."""
        image_id = _execute([self.name, "pull", "--quiet", f"oci:{layout}:{reference}"]).split()[-1]
        _execute([self.name, "tag", image_id, reference])


TOOLS = (ImageTool("buildah"), ImageTool("podman"), ImageTool("docker"))
"""The first installed tool is used."""


def find_tool() -> ImageTool:
    """Return this machine's tool. Raises ImageToolError if none is installed."""
    tool = next((tool for tool in TOOLS if shutil.which(tool.name)), None)
    if tool is None:
        raise ImageToolError(
            "no program that builds images is installed: install buildah, podman or docker (on Debian: apt-get install "
            "buildah)"
        )
    return tool


def _execute(command: Sequence[str]) -> str:
    """Run a command, copy its output to stderr, and return the output."""
    lines = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
    ) as process:
        for line in process.stdout or ():
            sys.stderr.write(clean(line))
            lines.append(line)
    output = "".join(lines)
    if process.returncode:
        raise ImageToolError(f"`{shlex.join(command)}` exited with {process.returncode}{_reason(command, output)}")
    return output


def _reason(command: Sequence[str], output: str) -> str:
    """Return the cause of a known failure with its remedy, else a reference to the output."""
    tool, registry = command[0], registry_host(command[-1])
    if command[1] == "push" and _REFUSED.search(output):
        return f": {registry} rejected the credentials, or none are stored for it; run `{tool} login {registry}`"
    if command[1] == "push" and _UNREACHABLE.search(output):
        return f": {registry} does not respond; check the name and the network"
    if command[1] == "push" and _UNTRUSTED.search(output):
        folder = "/etc/docker/certs.d" if tool == "docker" else "/etc/containers/certs.d"
        return (
            f": the certificate of {registry} is signed by an unknown authority; copy the authority's certificate to "
            f"{folder}/{registry}/ca.crt"
        )
    if _NO_NETAVARK.search(output):
        return ": a program that it only recommends is missing; install it, on Debian with `apt-get install netavark`"
    return "; see its output above"
