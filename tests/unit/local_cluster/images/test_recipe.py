"""The command lines that build, fill and use images."""

import resource
from pathlib import Path

import pytest

from tests.cluster.image_runs import run_command
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import recipe
from trainstack.local_cluster.images.base_image import rootfs_command
from trainstack.local_cluster.images.catalog import CONTAINERFILES, helpers, workload
from trainstack.local_cluster.images.recipe import Recipe, build_command, stage_context
from trainstack.local_cluster.images.storage import ImageStorage
from trainstack.runs.images.content_tags import base_reference, workload_reference

STORAGE = ImageStorage(Path("/cache/images"))
BUILDAH = ["buildah", "--root=/cache/images/storage", "--runroot=/cache/images/run", "--storage-driver=overlay"]
OWN_MOUNTS = ["unshare", "--mount", "--propagation", "private"]


def test_build_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its own storage, no pull, no daemon, the limits, sorted arguments and fixed times."""
    limits = {resource.RLIMIT_NOFILE: (1024, 20000), resource.RLIMIT_NPROC: (100, resource.RLIM_INFINITY)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    assert build_command(STORAGE, "registry.local/trainstack/a:1", Path("/c"), {"B": "2", "A": "1"}) == [
        *BUILDAH,
        *("bud", "--quiet", "--isolation=chroot", "--pull-never", "--no-cache", "--timestamp=0"),
        "--ulimit=nofile=20000:20000",
        *("--build-arg", "A=1", "--build-arg", "B=2"),
        *("--file", "/c/Dockerfile", "--tag", "registry.local/trainstack/a:1", "/c"),
    ]


@pytest.mark.parametrize(("hard", "kept"), [(96365, 32768), (4096, 4096)])
def test_a_build_keeps_no_more_processes_than_the_kernel_has_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard: int, kept: int
) -> None:
    """buildah lowers its own limit to this number, and root in a container cannot raise it again."""
    (tmp_path / "pid_max").write_text("32768\n")
    monkeypatch.setattr(recipe, "PID_MAX_FILE", tmp_path / "pid_max")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, hard))
    assert f"--ulimit=nproc={kept}:{kept}" in build_command(STORAGE, "a:1", Path("/c"), {})


def test_build_command_with_a_secret() -> None:
    """A file that the build may read, and the image must not contain, is mounted during the build."""
    command = build_command(STORAGE, "a:1", Path("/c"), {}, {"apt": Path("/s/apt.conf")})
    assert "--secret=id=apt,src=/s/apt.conf" in command


def test_run_command() -> None:
    """It has private mounts with the given folders."""
    assert run_command(STORAGE, "box", ["python3", "-V"], {Path("/b"): "/y", Path("/a"): "/x"}) == [
        *OWN_MOUNTS,
        *BUILDAH,
        *("run", "--isolation=chroot", "--volume=/a:/x", "--volume=/b:/y", "box", "--", "python3", "-V"),
    ]


def test_rootfs_command() -> None:
    """The recipe's script gets the mirror of this machine, and the buildah to mount with."""
    assert rootfs_command(STORAGE, "box", "http://mirror.example/debian", Path("/private/apt.conf")) == [
        *OWN_MOUNTS,
        *("sh", str(CONTAINERFILES / "base" / "rootfs.sh"), "box", "http://mirror.example/debian"),
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        *("/cache/images/sources.list", "/private/apt.conf"),
        *BUILDAH,
    ]


def test_storage_is_in_the_shared_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never the machine's default storage."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert ImageStorage.shared().folder == Path("/elsewhere/trainstack/images")


def test_stage_copies_what_the_tag_covers(tmp_path: Path) -> None:
    """Ignored files and settings are left out, programs are added, modes are normalized, links are kept."""
    context, target = tmp_path / "context", tmp_path / "target"
    (context / "sub").mkdir(parents=True)
    target.mkdir()
    for name in ("Dockerfile", "kept", "sub/run.sh", "ignored", "workload.yaml"):
        (context / name).write_text(name)
        (context / name).chmod(0o640)
    (context / "sub" / "run.sh").chmod(0o700)
    (context / "link").symlink_to("kept")
    (context / ".dockerignore").write_text("ignored\n")
    stage_context(Recipe("x", context, programs={"bin": context / "sub" / "run.sh"}), target)
    modes = {
        path.relative_to(target).as_posix(): "link" if path.is_symlink() else oct(path.stat().st_mode & 0o777)
        for path in target.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }
    assert modes == {"Dockerfile": "0o644", "kept": "0o644", "sub/run.sh": "0o755", "link": "link", "bin": "0o755"}


@pytest.mark.parametrize("name", [".containerignore", "Dockerfile.dockerignore", "Dockerfile.containerignore"])
def test_stage_copies_no_other_file_of_patterns(tmp_path: Path, name: str) -> None:
    """buildah would prefer it, and leave out files that the tag covers."""
    context, target = tmp_path / "context", tmp_path / "target"
    for folder in (context / "sub", target):
        folder.mkdir(parents=True)
    for file in ("Dockerfile", "kept", name, f"sub/{name}"):
        (context / file).write_text("*\n")
    stage_context(Recipe("x", context), target)
    copied_files = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert copied_files == {"Dockerfile", "kept", f"sub/{name}"}


def test_a_workload_is_built_under_the_name_that_settings_give_it(tmp_path: Path) -> None:
    """The recipe and the pure function agree."""
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    recipe = workload(tmp_path)
    assert recipe.image == workload_reference(tmp_path)
    assert recipe.build_args == {"BASE": base_reference()}


def test_a_workload_without_dockerfile_is_refused(tmp_path: Path) -> None:
    """The error has the folder."""
    with pytest.raises(LocalClusterError, match=f"{tmp_path} has no Dockerfile"):
        workload(tmp_path)


@pytest.mark.parametrize("busybox", [None, "dynamic"])
def test_a_busybox_that_needs_a_loader_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busybox: str | None
) -> None:
    """It is missing or dynamic: the error has the package."""
    if busybox:
        (tmp_path / "busybox").write_bytes(b"\x7fELF /lib64/ld-linux-x86-64.so.2")
        (tmp_path / "busybox").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalClusterError, match="apt-get install busybox-static"):
        helpers()
