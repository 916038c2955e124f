"""The build of an image from a Dockerfile, with exactly the files from which its tag was computed."""

import resource
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from trainstack.local_cluster.component_status import write_atomically
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images.storage import CONTEXT_PREFIX, UNSHARE_COMMAND, ImageStorage, execute
from trainstack.runs.images.content_tags import content_tag, context_files, image_reference
from trainstack.toolchain import digests
from trainstack.toolchain.places import cache_root

PID_MAX_FILE = Path("/proc/sys/kernel/pid_max")
_IGNORE_FILES = (".dockerignore", ".containerignore", "Dockerfile.dockerignore", "Dockerfile.containerignore")
"""The files whose patterns buildah and Docker apply to a build context.

A staged context has none of them: `context_files` has applied `.dockerignore`, and the tag covers all other files.
"""


@dataclass(frozen=True)
class Recipe:
    """The sources of an image, and the names under which it is served."""

    name: str
    """Short name: the image is `registry.local/trainstack/<name>:<content tag>`."""
    context: Path
    """Folder of the Dockerfile and the files it copies."""
    build_args: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, Path] = field(default_factory=dict)
    """Additional files of the context that are built elsewhere, by the name that the Dockerfile copies."""
    serve_as: tuple[str, ...] = ()
    """Additional names in the registry, such as those of public images that it replaces."""
    installs_packages: bool = False
    """Whether its Dockerfile installs Debian packages, with this machine's apt settings in the secret `apt`."""

    @property
    def image(self) -> str:
        """The full name, computed from the current files."""
        tag_cache = cache_root() / "images" / "tags"
        return image_reference(self.name, image_tag(self.context, self.build_args, self.programs, tag_cache))


def image_tag(context: Path, build_args: Mapping[str, str], programs: Mapping[str, Path], tag_cache: Path) -> str:
    """Return the `content_tag` of an image, from a cache: without it, each command would hash 150 MB of built programs.

    `tag_cache` is a folder with a file for each image whose programs all have a recorded digest, which
    `digests.verify` compares before the programs are used. The file's name is the tag with these digests instead of the
    programs.
    """
    recorded_digests = {name: digests.recorded_digest(path) for name, path in programs.items()}
    if not programs or not all(recorded_digests.values()):
        return content_tag(context, build_args, programs=programs)
    program_digests = {f"program {name}": digest for name, digest in recorded_digests.items()}
    file = tag_cache / content_tag(context, {**build_args, **program_digests})
    if file.is_file() and (tag := file.read_text(encoding="utf-8")):
        return tag
    tag = content_tag(context, build_args, programs=programs)
    if any(digests.sha256(path) != recorded_digests[name] for name, path in programs.items()):
        return tag  # not cached: a damaged program is replaced by one with the recorded digest
    with suppress(OSError):  # without a writable cache, each command hashes the programs
        tag_cache.mkdir(parents=True, exist_ok=True)
        write_atomically(file, tag)
    return tag


def build_recipe(storage: ImageStorage, recipe: Recipe, image: str) -> None:
    """Build a recipe's image in buildah's storage under a name. Its base image must exist.

    Raises LocalClusterError if the files have changed since the name was computed.
    """
    with tempfile.TemporaryDirectory(prefix=CONTEXT_PREFIX, dir=storage.folder) as folder:
        staged_context = Path(folder)
        stage_context(recipe, staged_context)
        if recipe.image != image:
            raise LocalClusterError(
                f"files in {recipe.context} changed while {image} was prepared; run the command again"
            )
        with storage.apt_settings() if recipe.installs_packages else nullcontext() as apt:
            secrets = {"apt": apt} if apt is not None else {}
            execute([*UNSHARE_COMMAND, *build_command(storage, image, staged_context, recipe.build_args, secrets)])


def build_command(
    storage: ImageStorage,
    image: str,
    context: Path,
    build_args: Mapping[str, str],
    secrets: Mapping[str, Path] | None = None,
) -> list[str]:
    """Return the command that builds a staged context.

    Timestamps are 0, so that the same files on the same base result in the same digest.
    `secrets` has files by secret id.
    """
    arguments = [argument for key in sorted(build_args) for argument in ("--build-arg", f"{key}={build_args[key]}")]
    arguments += [f"--secret=id={name},src={file}" for name, file in sorted((secrets or {}).items())]
    return storage.buildah(
        *("bud", "--quiet", "--isolation=chroot", "--pull-never", "--no-cache", "--timestamp=0"),
        *_limit_options(),
        *arguments,
        *("--file", str(context / "Dockerfile"), "--tag", image, str(context)),
    )


def _limit_options() -> Iterator[str]:
    """Yield options that keep this process's limits, which buildah would raise: root in a container may not raise them.

    buildah lowers its maximum number of processes to the kernel's largest pid, and could not raise it again.
    """
    for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        _, hard_limit = resource.getrlimit(number)
        if hard_limit == resource.RLIM_INFINITY:
            continue
        limit = min(hard_limit, int(PID_MAX_FILE.read_text())) if name == "nproc" else hard_limit
        yield f"--ulimit={name}={limit}:{limit}"


def stage_context(recipe: Recipe, target: Path) -> None:
    """Copy the files that the content tag covers, with normalized modes, so that the image contains no other file."""
    paths = (path for path in context_files(recipe.context) if path.as_posix() not in _IGNORE_FILES)
    _copy_files((recipe.context / path, target / path) for path in paths)
    _copy_files(((source, target / name) for name, source in recipe.programs.items()))


def _copy_files(pairs: Iterable[tuple[Path, Path]]) -> None:
    for source, target in pairs:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target, follow_symlinks=False)
        if not source.is_symlink():
            target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
