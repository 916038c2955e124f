"""`trainstack pin`: the digests of an environment's images, and the commits of its code's branches and tags."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
import yaml

from trainstack.cli.console import err, fail, out, show_json, step
from trainstack.cli.local_registry import asking, local_registry
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.declared.declared import Declared
from trainstack.dev.cluster.errors import ClusterError
from trainstack.live.code_commits import GitError, resolve, revisions
from trainstack.live.registry import Registries
from trainstack.live.registry_credentials import RegistryError, read_credentials
from trainstack.onboarding import project_files as staging
from trainstack.preflight.preflight import check as preflight
from trainstack.preflight.rules.images import image_unpinned
from trainstack.preflight.used_images import UsedImage, used_images
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.code_pins import is_code
from trainstack.settings.loading.load import Loaded, load_with_places, pins_file
from trainstack.settings.model import Settings

_AT_ONCE = 8
_HEAD = """\
# What each image's tag named when `trainstack pin -s {stack}` asked its registry. That command writes this file.
"""
_HEAD_OF_CODE = """\
# What each branch or tag of code named when `trainstack pin -s {stack}` asked its repository.
"""
_STYLES = {"kept": "dim", "new": "green", "moved": "yellow", "unused": "yellow"}


@dataclass(frozen=True)
class Pin:
    """An image with its digest, or code with its commit: what the tag or branch names now, and what was pinned."""

    key: str
    now: str | None
    was: str | None

    @property
    def state(self) -> Literal["kept", "new", "moved", "unused"]:
        """What has become of the pin."""
        if self.now is None:
            return "unused"
        if self.was is None:
            return "new"
        return "kept" if self.now == self.was else "moved"

    def as_data(self) -> dict[str, Any]:
        """The pin for programs."""
        if is_code(self.key):
            git, _, revision = self.key.partition(" ")
            subject = {"git": git, "revision": revision, "commit": self.now}
        else:
            subject = {"image": self.key, "digest": self.now}
        return {**subject, "was": self.was, "state": self.state}


def pin(
    *,
    stack: StackOption = "dev",
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where a pin is missing, has moved, or is not used.")
    ] = False,
    code: Annotated[
        bool, typer.Option("--code", help="Only the code: no registry is asked, and pins of images stay.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Pin every image, branch and tag of an environment to what it names now: pins/ENV.yaml, to be committed.

    Asks each image's registry; the local cluster's, which serves it every image, where KUBECONFIG names that cluster
    or none. Asks the repository of each `code` whose revision is a branch or a tag, with your own git and its
    credentials. Writes all or nothing.

    Examples:

      trainstack pin -s prod

      trainstack pin -s prod --check

      trainstack pin -s prod --code

      trainstack pin -s prod --json
    """
    session = Session.open(stack)
    loaded, file = _loaded(session), pins_file(stack)
    commits = _commits(session, loaded.settings)
    digests = loaded.settings.pins if code else _digests(session, loaded)
    pins_of_code = _pins(commits, loaded.settings.code_pins)
    pins_of_images = [] if code else _pins(digests, loaded.settings.pins)
    pins = [*pins_of_images, *pins_of_code]
    changed = [each for each in pins if each.state != "kept"]
    if changed and not check:
        (session.root / file).parent.mkdir(exist_ok=True)
        staging.write(session.root, {file: _text(stack, digests, commits)})
    if as_json:
        images, named = ([each.as_data() for each in found] for found in (pins_of_images, pins_of_code))
        show_json({"file": file, "changed": bool(changed), "pins": images, "code": named})
    else:
        _tell(pins)
    if changed and check:
        words = f"pin -s {stack}{' --code' if code else ''}"
        fail(f"{file}: {_counted(changed)}; run `trainstack {words}`, and commit what it writes")
    err.print(f"{file}: {_counted(pins) or 'nothing to pin'}", markup=False)


def _loaded(session: Session) -> Loaded:
    """The environment with the branches and tags of its code, which other commands refuse until they are pinned.

    Excluded runs are in it: what they need stays pinned.
    """
    try:
        return load_with_places(session.root, session.stack, to_run=False)
    except SettingsError as error:
        fail(str(error))


def _pins(after: Mapping[str, str], before: Mapping[str, str]) -> list[Pin]:
    return [Pin(key, after.get(key), before.get(key)) for key in sorted({*after, *before})]


def _text(stack: str, digests: Mapping[str, str], commits: Mapping[str, str]) -> str:
    """The file: the images, then the code, in quotes, since a commit such as `12e3…` would be a number."""
    text = ""
    if digests or not commits:
        text += _HEAD.format(stack=stack) + yaml.safe_dump(dict(digests), sort_keys=True, width=1000)
    if commits:
        text += _HEAD_OF_CODE.format(stack=stack)
        text += yaml.safe_dump(dict(commits), sort_keys=True, width=10_000, default_style='"', allow_unicode=True)
    return text


def _commits(session: Session, settings: Settings) -> dict[str, str]:
    """The commit of every branch and tag of code, by the key of its pin; ends the command with all that have none."""
    count = len(revisions(settings))
    if not count:
        return {}
    try:
        with step(f"asking for the commits of branches and tags ({count})", "2 s"):
            return resolve(settings, session.root)
    except GitError as error:
        fail(f"nothing is written:\n{error}")


def _digests(session: Session, loaded: Loaded) -> dict[str, str]:
    """The digest of every image; ends the command with all that have none, or where the environment has faults."""
    images = _images(session, loaded)
    with step(f"asking for the digests of {len(images)} images", "2 s"):
        return _resolve(session.stack, images, _registries(session))


def _images(session: Session, loaded: Loaded) -> dict[str, UsedImage]:
    """What is to be pinned, by reference. Ends the command where files stand against it."""
    settings = loaded.settings
    findings = preflight(settings, session.root, loaded.places)
    faults = [str(each) for each in findings if each.stops and each.rule != image_unpinned.rule]
    if faults:
        fail("\n".join(faults))
    try:
        images = used_images(Declared.from_files(settings, session.root))
        return {each.reference: each for each in images if not each.by_digest}
    except ValueError as error:
        fail(str(error))


def _registries(session: Session) -> Registries:
    """The registries of the environment's cluster; a local cluster has one of its own for all images."""
    local = local_registry(session)
    if local is not None:
        try:
            return asking(local)
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
        out.print(f"{each.state:<7} {each.key}  {each.now or each.was}{was}", style=_STYLES[each.state], markup=False)


def _counted(pins: Sequence[Pin]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(Counter(each.state for each in pins).items()))
