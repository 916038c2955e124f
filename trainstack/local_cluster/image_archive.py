"""Container images that are packed from files without an image tool.

The sandbox image and the volume helper are imported, because the cluster cannot pull them before it runs.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Symlink:
    """A symbolic link in an image."""

    target: str


def _tar_member(name: str, content: bytes, mode: int = 0o644) -> tuple[tarfile.TarInfo, io.BytesIO]:
    """Return a tar member without time and owner, so that equal input results in equal bytes."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    return info, io.BytesIO(content)


def layer(files: Mapping[str, bytes | Symlink]) -> bytes:
    """Return an uncompressed layer with executable files and a world-writable /tmp."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        parents = {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."}
        for folder in sorted(parents | {"tmp"}):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(info)
        for name in sorted(files):
            content = files[name]
            if isinstance(content, Symlink):
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, content.target, 0o777
                tar.addfile(info)
            else:
                tar.addfile(*_tar_member(name, content, 0o755))
    return buffer.getvalue()


def pack(reference: str, files: Mapping[str, bytes | Symlink], command: Sequence[str]) -> bytes:
    """Return a docker-archive of an image with one layer.

    `reference` is the full image name with tag; names in `files` are relative to the image's root.
    """
    content = layer(files)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": list(command), "Env": [PATH]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
            "history": [{"created_by": "trainstack"}],
        },
        sort_keys=True,
    ).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [reference], "Layers": ["layer.tar"]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, body in (("layer.tar", content), (config_name, config), ("manifest.json", manifest)):
            tar.addfile(*_tar_member(name, body))
    return buffer.getvalue()


def pause_image(reference: str, program: Path) -> bytes:
    """Return the sandbox image, with the program as `/pause`."""
    return pack(reference, {"pause": program.read_bytes()}, ["/pause"])


def helper_image(reference: str, busybox: Path, applets: Sequence[str]) -> bytes:
    """Return the volume helper's image: a static busybox with a link for each applet."""
    links: dict[str, bytes | Symlink] = {
        f"bin/{name}": Symlink("/bin/busybox") for name in applets if name != "busybox"
    }
    return pack(reference, links | {"bin/busybox": busybox.read_bytes()}, ["/bin/sh"])
