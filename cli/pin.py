"""`trainstack pin`: the digests of an environment's images, as its registry has them now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer
import yaml

from checks.preflight import check as preflight
from cli import staging
from cli.console import err, fail, out, show_json, step
from cli.local_registry import local_registry
from cli.registry import Registries
from cli.registry_access import RegistryError, read_credentials
from cli.session import JsonOption, Session, StackOption
from devcluster.errors import ClusterError
from settings.load import pins_file
from workloads import render
from workloads.used_images import UsedImage, used_images

_AT_ONCE = 8
_HEAD = """\
# What each image's tag named when `trainstack pin -s {stack}` asked its registry. That command writes this file.
"""
_STYLES = {"kept": "dim", "new": "green", "moved": "yellow", "unused": "yellow"}


@dataclass(frozen=True)
class Pin:
    """An image, the digest that it has now, and the one that was pinned."""

    image: str
    digest: str | None
    was: str | None

    @property
    def state(self) -> Literal["kept", "new", "moved", "unused"]:
        """What has become of the pin."""
        if self.digest is None:
            return "unused"
        if self.was is None:
            return "new"
        return "kept" if self.digest == self.was else "moved"


def pin(
    *,
    stack: StackOption = "dev",
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where the pins are not what the registry has.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Pin every image of an environment to what its tag names now: pins/ENV.yaml, to be committed.

    Asks each image's registry; the local cluster's, which serves it every image, where KUBECONFIG names that cluster
    or none. Writes all or nothing.

    Examples:

      trainstack pin -s prod

      trainstack pin -s prod --check

      trainstack pin -s prod --json
    """
    session = Session.open(stack)
    images = _images(session)
    file, before = pins_file(stack), session.settings.pins
    with step(f"asking for the digests of {len(images)} images", "2 s"):
        after = _resolve(stack, images, _registries(session))
    pins = [Pin(image, after.get(image), before.get(image)) for image in sorted({*after, *before})]
    changed = [each for each in pins if each.state != "kept"]
    if changed and not check:
        (session.root / file).parent.mkdir(exist_ok=True)
        text = _HEAD.format(stack=stack) + yaml.safe_dump(after, sort_keys=True, width=1000)
        staging.write(session.root, {file: text})
    if as_json:
        show_json(
            {"file": file, "changed": bool(changed), "pins": [{**asdict(each), "state": each.state} for each in pins]}
        )
    else:
        _tell(pins)
    if changed and check:
        fail(f"{file}: {_counted(changed)}; run `trainstack pin -s {stack}`, and commit what it writes")
    err.print(f"{file}: {_counted(pins) or 'no image to pin'}", markup=False)


def _images(session: Session) -> dict[str, UsedImage]:
    """What is to be pinned, by reference. Ends the command where files stand against it."""
    settings = session.settings
    findings = preflight(settings, session.root, session.loaded.places)
    faults = [str(each) for each in findings if each.stops and each.id != "image-unpinned"]
    if faults:
        fail("\n".join(faults))
    try:
        inputs = render.read_inputs(settings, session.root, commit="", cache=session.root / render.CACHE)
        return {each.reference: each for each in used_images(settings, inputs) if not each.by_digest}
    except ValueError as error:
        fail(str(error))


def _registries(session: Session) -> Registries:
    """The registries of the environment's cluster; a local cluster has one of its own for all images."""
    local = local_registry(session)
    if local is not None:
        try:
            return Registries({}, mirror=f"https://{local.address}", tls=local.tls())
        except ClusterError as error:
            fail(str(error))
    if session.local:
        fail(
            "the local cluster does not run, and its registry is what serves the images: run `trainstack cluster up`; "
            "for another cluster set KUBECONFIG"
        )
    try:
        return Registries(read_credentials())
    except RegistryError as error:
        fail(str(error))


def _resolve(stack: str, images: Mapping[str, UsedImage], registries: Registries) -> dict[str, str]:
    """The digest of every image; ends the command with all that have none."""

    def ask(image: UsedImage) -> str | RegistryError:
        try:
            return registries.digest(image.reference)
        except RegistryError as error:
            built = f" (`trainstack image push -s {stack}` builds and pushes it)" if image.build else ""
            return RegistryError(f"{image.path}: {error}{built}")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(images, pool.map(ask, images.values()), strict=True))
    faults = [str(each) for each in answers.values() if isinstance(each, RegistryError)]
    if faults:
        fail("\n".join(["nothing is written:", *faults]))
    return {image: each for image, each in answers.items() if isinstance(each, str)}


def _tell(pins: Sequence[Pin]) -> None:
    for each in pins:
        was = f" (was {each.was})" if each.state == "moved" else ""
        out.print(
            f"{each.state:<7} {each.image}  {each.digest or each.was}{was}", style=_STYLES[each.state], markup=False
        )


def _counted(pins: Sequence[Pin]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(Counter(each.state for each in pins).items()))
