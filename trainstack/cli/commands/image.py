from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from trainstack.cli.local_registry import local_registry, registry_client
from trainstack.cli.output.console import age, err, fail, make_table, out, report, show, show_json, step
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.errors import ExitCode
from trainstack.images.builds import build as build_image
from trainstack.images.builds import is_built, require_local_registry
from trainstack.images.builds import push as push_image
from trainstack.images.tools import ImageToolError
from trainstack.live.registry import Registries
from trainstack.live.registry_credentials import user_credentials
from trainstack.live.registry_errors import ImageMissingError, RegistryError
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.runs.images.run_images import RunImage, run_images
from trainstack.settings.errors import suggest_name

app = typer.Typer(no_args_is_help=True, help="Build, push and list the images of an environment's runs.")

_WORKERS = 8
_STATES = {"pushed": "green", "missing": "red", "unknown": "yellow"}
_MEBIBYTE = 1 << 20
_HEAD = ("workloads", "image", "folder", "built", "registry", "digest", "platform", "size", "age")

WorkloadsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WORKLOAD]…", help="Runs or sweeps (default: all that have a Dockerfile)."),
]


@app.command()
def build(
    workloads: WorkloadsArgument = None,
    *,
    stack: StackOption,
    build_arg: Annotated[
        list[str] | None,
        typer.Option("--build-arg", metavar="KEY=VALUE", help="Set a build argument of the Dockerfile; repeatable."),
    ] = None,
) -> None:
    """Build the images of workloads under the names that their runs use.

    Builds workloads/WORKLOAD/Dockerfile, or the folder in `image.build`, with the first of buildah, podman and docker
    that is installed.

    Examples:
      trainstack image build -s prod
      trainstack image build digits -s prod --build-arg BASE=pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel
    """
    session = Session.open(stack)
    arguments = _build_args(build_arg or ())
    for image in _select_images(session, workloads):
        with step(f"building {image.reference} from {image.folder}"):
            build_image(session.root, image, arguments, report)
        out.print(image.reference)


@app.command()
def push(workloads: WorkloadsArgument = None, *, stack: StackOption) -> None:
    """Push the images of workloads to their registries, and print the digests.

    Builds missing images first. Uses the credentials of `buildah login`, `podman login` or `docker login`.

    Examples:
      trainstack image push -s prod
      trainstack image push digits -s prod
    """
    session = Session.open(stack)
    images, access, registries = (
        _select_images(session, workloads),
        local_registry(session),
        Registries(user_credentials()),
    )
    digests_by_reference = {}
    for image in images:
        with step(f"pushing {image.reference}"):
            pushed_image = push_image(session.root, image, registries, access, report)
        if pushed_image.was_in_registry:
            err.print(f"  {image.reference} is already in its registry")
        digests_by_reference[image.reference] = pushed_image.digest
        out.print(f"{image.reference}@{pushed_image.digest}")
    settings = session.settings
    if settings.environment.pinned and any(
        settings.pins.get(name) != digest for name, digest in digests_by_reference.items()
    ):
        err.print(f"{stack} pins its images: run `trainstack pin -s {stack}`, and commit the file")


@app.command("list")
def list_images(*, stack: StackOption, as_json: JsonOption = False) -> None:
    """List the images of an environment's runs, with their local builds and their state in the registry.

    Examples:
      trainstack image list -s prod
      trainstack image list -s prod --json
    """
    session = Session.open(stack)
    images = run_images(session.settings, session.root, session.loaded.places)
    with step(f"reading {len(images)} images from their registries", "2 s"):
        rows = _describe_images(session, images)
    if as_json:
        show_json(rows)
        return
    now = datetime.now(UTC)
    show(make_table(_HEAD, (_cells(row, now) for row in rows), right=("size", "age")))
    for problem in dict.fromkeys(row["problem"] for row in rows if row["registry"] == "unknown"):
        err.print(problem, style="yellow")
    for row in rows:
        if row["registry"] == "missing" and row["folders"]:
            err.print(f"to push {row['image']}: trainstack image push {row['workloads'][0]} -s {stack}")


def _select_images(session: Session, names: Sequence[str] | None) -> list[RunImage]:
    images = run_images(session.settings, session.root, session.loaded.places)
    images_by_name = {name: image for image in images for name in image.workloads}
    unknown_names = [name for name in names or () if name not in images_by_name]
    if unknown_names:
        fail(
            "\n".join(
                f"{session.stack} has no run or sweep {name}; {suggest_name(name, images_by_name)}"
                for name in unknown_names
            )
        )
    selected_images = (
        list(dict.fromkeys(images_by_name[name] for name in names))
        if names
        else [image for image in images if image.folders]
    )
    if not selected_images:
        fail(
            f"no run of {session.stack} has a Dockerfile; write workloads/RUN/Dockerfile for one of "
            f"{', '.join(sorted(images_by_name)) or 'none'}"
        )
    for image in selected_images:
        _ = image.folder  # raises before the first build
    return selected_images


def _build_args(options: Iterable[str]) -> dict[str, str]:
    pairs = [option.partition("=") for option in options]
    if invalid_keys := [key for key, equals, _ in pairs if not (key and equals)]:
        fail(f"--build-arg {invalid_keys[0]}: must be KEY=VALUE", ExitCode.USAGE)
    return {key: value for key, _, value in pairs}


def _describe_images(session: Session, images: Sequence[RunImage]) -> list[dict[str, Any]]:
    access, registries = local_registry(session), Registries(user_credentials())

    def inspect(image: RunImage) -> dict[str, Any]:
        has_build: bool | None = False
        registry_image, state, problem = None, "pushed", ""
        try:
            has_build = is_built(image) if image.folders else False
        except ImageToolError:
            # Without an image tool, the local builds are unknown, but the registry can be read.
            has_build = None
        try:
            registry_image = (
                registry_client(require_local_registry(access)) if image.is_local else registries
            ).describe(image.reference)
        except ImageMissingError as error:
            state, problem = "missing", str(error)
        except (RegistryError, LocalClusterError) as error:
            state, problem = "unknown", str(error)
        return {
            "image": image.reference,
            "workloads": image.workloads,
            "folders": image.folders,
            "built": has_build,
            "registry": state,
            "problem": problem,
            "digest": registry_image.digest if registry_image else None,
            "sizeBytes": registry_image.size_bytes if registry_image else None,
            "platforms": registry_image.platforms if registry_image else (),
            "created": registry_image.created if registry_image else None,
        }

    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(inspect, images))


def _cells(row: Mapping[str, Any], now: datetime) -> tuple[str | Text, ...]:
    size, created = row["sizeBytes"], row["created"]
    return (
        ", ".join(row["workloads"]),
        row["image"],
        ", ".join(row["folders"]) or "-",
        {True: "yes", False: "no", None: "?"}[row["built"]] if row["folders"] else "-",
        Text(row["registry"], style=_STATES[row["registry"]]),
        row["digest"] or "-",
        ", ".join(row["platforms"]) if row["digest"] else "-",
        "-" if size is None else f"{size / _MEBIBYTE:.1f} MiB",
        # Reproducible builds often set the creation time to 0.
        age(created, now) if created and created.timestamp() > 0 else "-",
    )
