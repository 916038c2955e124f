"""Images of a few files."""

import io
import json
import tarfile
from pathlib import Path

from trainstack.local_cluster.image_archive import Symlink, helper_image, pack


def members(archive: bytes) -> dict[str, tarfile.TarInfo]:
    """Return the members of a tar by name."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: member for member in tar.getmembers()}


def content(archive: bytes, name: str) -> bytes:
    """Return one file of a tar."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile(name)
        assert file
        return file.read()


def test_a_packed_image_is_complete_and_always_the_same() -> None:
    """Equal input gives equal bytes; the manifest names config and layer, the config the command."""
    files: dict[str, bytes | Symlink] = {"usr/bin/tool": b"program", "tool": Symlink("usr/bin/tool")}
    image = pack("registry.local/tool:1", files, ["/tool"])
    assert image == pack("registry.local/tool:1", dict(sorted(files.items(), reverse=True)), ["/tool"])
    (manifest,) = json.loads(content(image, "manifest.json"))
    assert manifest["RepoTags"] == ["registry.local/tool:1"]
    assert json.loads(content(image, manifest["Config"]))["config"]["Cmd"] == ["/tool"]
    layer = members(content(image, "layer.tar"))
    assert list(layer) == ["tmp", "usr", "usr/bin", "tool", "usr/bin/tool"]
    assert layer["tmp"].mode == 0o1777
    assert layer["usr/bin/tool"].mode == 0o755
    assert layer["tool"].linkname == "usr/bin/tool"


def test_the_helper_has_a_link_per_applet(tmp_path: Path) -> None:
    """Busybox selects the applet by the name of its link."""
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"static")
    layer = members(content(helper_image("registry.local/helper:1", busybox, ["sh", "busybox", "rm"]), "layer.tar"))
    assert {name: member.linkname for name, member in layer.items() if member.issym()} == {
        "bin/sh": "/bin/busybox",
        "bin/rm": "/bin/busybox",
    }
    assert layer["bin/busybox"].isfile()
