"""`trainstack image`: from a workload's Dockerfile to the registry that the environment names."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from trainstack.cli.console import age, err, fail, out, show, show_json, step
from trainstack.cli.local_registry import asking, local_registry
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.image_builds import build as build_image
from trainstack.dev.image_builds import is_built, require_local
from trainstack.dev.image_builds import push as push_image
from trainstack.dev.image_tools import ImageToolError
from trainstack.live.registry import ImageMissingError, Registries, ServedImage
from trainstack.live.registry_credentials import RegistryError, read_credentials
from trainstack.runs.images.run_images import RunImage, run_images
from trainstack.settings.errors import nearest

app = typer.Typer(no_args_is_help=True, help="Images of an environment's runs: build them, push them, list them.")

_AT_ONCE = 8
_STATES = {"pushed": "green", "missing": "red", "unknown": "yellow"}
_MEBIBYTE = 1 << 20

WorkloadsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WORKLOAD]…", help="Runs or sweeps of the environment; none: all that have a Dockerfile."),
]


@app.command()
def build(
    workloads: WorkloadsArgument = None,
    *,
    stack: StackOption = "dev",
    build_arg: Annotated[
        list[str] | None,
        typer.Option("--build-arg", metavar="KEY=VALUE", help="A build argument of the Dockerfile; repeatable."),
    ] = None,
) -> None:
    """Build the images of an environment's workloads, under the names that its runs use.

    From workloads/WORKLOAD/Dockerfile, or the folder in `image.build`, by buildah, podman or docker: the first of
    them that is installed.

    Examples:

      trainstack image build -s prod

      trainstack image build digits -s prod --build-arg BASE=pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel
    """
    session = Session.open(stack)
    arguments = _build_args(build_arg or ())
    for image in _chosen(session, workloads):
        with step(f"building {image.reference} from {image.folder}"):
            build_image(session.root, image, arguments, _report)
        out.print(image.reference)


@app.command()
def push(workloads: WorkloadsArgument = None, *, stack: StackOption = "dev") -> None:
    """Push the images of an environment's workloads to their registry, and print the digests.

    With the credentials of `buildah login`, `podman login` or `docker login`. What is not built yet is built before.

    Examples:

      trainstack image push -s prod

      trainstack image push digits -s prod
    """
    session = Session.open(stack)
    images, local, registries = _chosen(session, workloads), local_registry(session), Registries(read_credentials())
    digests = {}
    for image in images:
        with step(f"pushing {image.reference}"):
            pushed = push_image(session.root, image, registries, local, _report)
        if pushed.kept:
            err.print(f"  {image.reference} is in its registry already")
        digests[image.reference] = pushed.digest
        out.print(f"{image.reference}@{pushed.digest}")
    settings = session.settings
    if settings.environment.pinned and any(settings.pins.get(name) != digest for name, digest in digests.items()):
        err.print(f"{stack} pins its images: run `trainstack pin -s {stack}`, and commit what it writes")


@dataclass(frozen=True)
class _Listed:
    """A line of the list."""

    image: RunImage
    built: bool | None
    """None where this machine cannot tell."""
    served: ServedImage | None
    problem: str
    """Why `served` is None."""
    state: str


@app.command("list")
def list_images(*, stack: StackOption = "dev", as_json: JsonOption = False) -> None:
    """List the images of an environment's runs: whether each is built here, and what its registry has.

    Examples:

      trainstack image list -s prod

      trainstack image list -s prod --json
    """
    session = Session.open(stack)
    images = run_images(session.settings, session.root, session.loaded.places)
    with step(f"asking the registries of {len(images)} images", "2 s"):
        listed = _listed(session, images)
    if as_json:
        show_json([_as_data(line) for line in listed])
        return
    show(_table(listed))
    for problem in dict.fromkeys(line.problem for line in listed if line.state == "unknown"):
        err.print(problem, style="yellow")
    for line in listed:
        if line.state == "missing" and line.image.folders:
            err.print(f"to push it: trainstack image push {line.image.workloads[0]} -s {stack}")


def _report(line: str) -> None:
    err.print(f"  {line}", markup=False)


def _chosen(session: Session, names: Sequence[str] | None) -> list[RunImage]:
    """The images of these workloads, or all that can be built here; ends the command where there are none."""
    images = run_images(session.settings, session.root, session.loaded.places)
    known = {name: image for image in images for name in image.workloads}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        fail("\n".join(f"{session.stack} has no run or sweep {name}; {nearest(name, known)}" for name in unknown))
    chosen = list(dict.fromkeys(known[name] for name in names)) if names else [one for one in images if one.folders]
    if not chosen:
        fail(
            f"no run of {session.stack} has an image with a Dockerfile here; write workloads/RUN/Dockerfile for one of "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    for image in chosen:
        # Raises before the first of them is built.
        _ = image.folder
    return chosen


def _build_args(words: Iterable[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if wrong := [key for key, equals, _ in pairs if not (key and equals)]:
        fail(f"--build-arg {wrong[0]}: write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _listed(session: Session, images: Sequence[RunImage]) -> list[_Listed]:
    local, registries = local_registry(session), Registries(read_credentials())

    def ask(image: RunImage) -> _Listed:
        try:
            built = is_built(image) if image.folders else False
        except ImageToolError:
            built = None
        try:
            served = (asking(require_local(local)) if image.local else registries).describe(image.reference)
        except ImageMissingError as error:
            return _Listed(image, built, None, str(error), "missing")
        except (RegistryError, ClusterError) as error:
            return _Listed(image, built, None, str(error), "unknown")
        return _Listed(image, built, served, "", "pushed")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(ask, images))


def _table(listed: Sequence[_Listed]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in ("WORKLOADS", "IMAGE", "FOLDER", "BUILT", "REGISTRY", "DIGEST", "PLATFORM"):
        table.add_column(head, no_wrap=True)
    for head in ("SIZE", "AGE"):
        table.add_column(head, justify="right", no_wrap=True)
    now = datetime.now(UTC)
    for line in listed:
        served = line.served
        size = served.size_bytes if served else None
        created = served.created if served else None
        table.add_row(
            *map(Text, (", ".join(line.image.workloads), line.image.reference, ", ".join(line.image.folders) or "-")),
            {True: "yes", False: "no", None: "?"}[line.built] if line.image.folders else "-",
            Text(line.state, style=_STATES[line.state]),
            Text(served.digest if served else "-"),
            Text(", ".join(served.platforms) if served else "-"),
            "-" if size is None else f"{size / _MEBIBYTE:.1f} MiB",
            # Images are often built with all times set to 0.
            age(created, now) if created and created.timestamp() > 0 else "-",
        )
    return table


def _as_data(line: _Listed) -> dict[str, Any]:
    served = line.served
    return {
        "image": line.image.reference,
        "workloads": line.image.workloads,
        "folders": line.image.folders,
        "built": line.built,
        "registry": line.state,
        "problem": line.problem,
        "digest": served.digest if served else None,
        "sizeBytes": served.size_bytes if served else None,
        "platforms": served.platforms if served else [],
        "created": served.created if served else None,
    }
