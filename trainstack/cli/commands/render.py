from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from trainstack.cli.output.console import fail, out, show_json, write
from trainstack.cli.releases import try_downloads
from trainstack.cli.session import JsonOption, StackOption, checkout
from trainstack.objects.labels import Manifest
from trainstack.onboarding.convert.comparison import compare
from trainstack.review.checkout_manifests import as_yaml
from trainstack.settings.loading.load import list_scalars as explain_settings
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.values.paths import named_element_paths
from trainstack.stack_objects.inputs import ReleasesError
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.plan_change import commit


def render(
    *,
    stack: StackOption,
    root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Read the files of another checkout, without running any of its code."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the file and line of each value, and additions to manifests.")
    ] = False,
    without_releases: Annotated[
        bool, typer.Option("--without-releases", help="Leave out the objects of the operators' releases.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the objects that an environment declares, in the order of their creation.

    Needs neither the engine nor a cluster. If a release manifest is missing, prints the other objects and exits with 1.

    Examples:
      trainstack render -s dev
      trainstack render -s dev --explain
      trainstack render -s dev --root ../other-checkout --without-releases
    """
    folder = root if root is not None else checkout()
    if explain:
        _explain(folder, stack, as_json=as_json)
        return
    settings = load(folder, stack)
    if without_releases:
        settings = settings.model_copy(update={"operators": Operators()})
    objects, messages = _objects(settings, folder, cached=root is None)
    if as_json:
        show_json(objects)
    else:
        write(as_yaml(objects))
    if messages:
        fail(f"the output lacks objects of the following releases (to leave out all: --without-releases):\n{messages}")


def _objects(settings: Settings, folder: Path, *, cached: bool) -> tuple[list[Manifest], str]:
    """Return the declared objects without the releases that cannot be read, and the errors."""
    settings, errors = try_downloads(settings)
    messages = [str(error) for error in errors.values()]
    settings = settings.model_copy(update={"operators": settings.operators.without(errors)})
    head_commit = commit(folder)
    try:
        return StackObjects.from_files(settings, folder, commit=head_commit, use_cache=cached).manifests(), "\n".join(
            messages
        )
    except ReleasesError as error:
        readable = settings.model_copy(update={"operators": settings.operators.without(error.operators)})
        messages.append(str(error))
    return StackObjects.from_files(readable, folder, commit=head_commit, use_cache=cached).manifests(), "\n".join(
        messages
    )


def _explain(folder: Path, stack: str, *, as_json: bool) -> None:
    values = explain_settings(folder, stack)
    additions = [*_additions(load(folder, stack), folder)]
    if as_json:
        show_json(
            [
                *(
                    {"path": path, "value": value, "file": place.file, "line": place.line}
                    for path, value, place in values
                ),
                *({"path": path, "added": added, "reason": reason} for path, added, reason in additions),
            ]
        )
        return
    for path, value, place in values:
        out.print(f"{path} = {value!r}  ({place})")
    for path, added, reason in additions:
        out.print(f"{path}: added {added}  ({reason})")


def _additions(settings: Settings, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield what is added to the manifests of runs: the path of the manifest, that of the field, and the reason."""
    runs = settings.workloads.runs
    if all(run.manifest is None for run in runs):
        return
    stack_objects = StackObjects.from_files(settings.model_copy(update={"operators": Operators()}), folder)
    paths = named_element_paths("workloads.runs", [run.name for run in runs])
    for path, run, planned in zip(paths, runs, stack_objects.runs, strict=True):
        if run.manifest is not None:
            for field in compare(run.manifest, planned.manifest).added:
                yield f"{path}.manifest", field.path, field.reason or "the wrapper of a managed run"
