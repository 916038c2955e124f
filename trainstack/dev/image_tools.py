"""buildah, podman and docker: how each of them builds and pushes an image, with the credentials that it has itself."""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainstack.dev.cluster.images.registry import host

_DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")
"""How docker prints the digest of what it has pushed."""
_UNKNOWN_IMAGE = re.compile(r"no such (image|object)|image not known|not found", re.IGNORECASE)
_REFUSED = re.compile(r"unauthorized|authentication required|authorization failed|access denied|no basic auth|denied:")
_UNREACHABLE = re.compile(r"\bdial tcp\b|no such host|i/o timeout|TLS handshake timeout")
_UNTRUSTED = re.compile(r"x509: certificate signed by unknown authority|failed to verify certificate")


class ImageToolError(Exception):
    """A tool that is missing, or that failed. The message has the command and the remedy."""


@dataclass(frozen=True)
class ImageTool:
    """A program that builds and pushes images."""

    name: Literal["buildah", "podman", "docker"]

    def build(self, reference: str, context: Path, build_args: Mapping[str, str], *options: str) -> None:
        """Build the folder's Dockerfile under this name. Raises ImageToolError."""
        arguments = [word for key, value in sorted(build_args.items()) for word in ("--build-arg", f"{key}={value}")]
        command = [self.name, "build", "--file", str(context / "Dockerfile"), "--tag", reference]
        _execute([*command, *options, *arguments, str(context)])

    def has(self, reference: str) -> bool:
        """Whether it has an image of this name. Raises ImageToolError where it cannot tell."""
        image = ("--type", "image") if self.name == "buildah" else ()
        command = [self.name, *(() if image else ("image",)), "inspect", *image, reference]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode and not _UNKNOWN_IMAGE.search(done.stderr):
            raise ImageToolError(f"`{shlex.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.returncode == 0

    def push(self, reference: str) -> str:
        """Push the image to the registry in its name; the digest there. Raises ImageToolError."""
        if self.name == "docker":
            found = _DIGEST.search(_execute([self.name, "push", reference]))
            return found[1] if found else ""
        with tempfile.TemporaryDirectory() as folder:
            digest = Path(folder) / "digest"
            _execute([self.name, "push", "--digestfile", str(digest), reference])
            return digest.read_text(encoding="utf-8").strip()

    def load(self, layout: Path, reference: str) -> None:
        """Take an image of this name from an OCI layout. Raises ImageToolError."""
        image_id = _execute([self.name, "pull", "--quiet", f"oci:{layout}:{reference}"]).split()[-1]
        _execute([self.name, "tag", image_id, reference])


TOOLS = (ImageTool("buildah"), ImageTool("podman"), ImageTool("docker"))
"""The first that is installed is used."""


def find_tool() -> ImageTool:
    """The tool of this machine. Raises ImageToolError where none is installed."""
    found = next((tool for tool in TOOLS if shutil.which(tool.name)), None)
    if found is None:
        raise ImageToolError(
            "no program that builds images is installed: install buildah, podman or docker (on Debian: apt-get install "
            "buildah)"
        )
    return found


def _execute(command: Sequence[str]) -> str:
    """What a command prints, which is passed on to stderr as it comes."""
    printed = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
    ) as process:
        for line in process.stdout or ():
            sys.stderr.write(line)
            printed.append(line)
    text = "".join(printed)
    if process.returncode:
        raise ImageToolError(f"`{shlex.join(command)}` ended with {process.returncode}{_reason(command, text)}")
    return text


def _reason(command: Sequence[str], text: str) -> str:
    """What the failure was, as far as the text is known, and the remedy."""
    tool, registry = command[0], host(command[-1])
    if command[1] == "push" and _REFUSED.search(text):
        return f": {registry} refused the credentials, or there are none for it; run `{tool} login {registry}`"
    if command[1] == "push" and _UNREACHABLE.search(text):
        return f": {registry} does not answer; is it the right registry?"
    if command[1] == "push" and _UNTRUSTED.search(text):
        folder = "/etc/docker/certs.d" if tool == "docker" else "/etc/containers/certs.d"
        return f": {registry} has a certificate of an unknown authority; put that one's into {folder}/{registry}/ca.crt"
    return "; what it printed above says why"
