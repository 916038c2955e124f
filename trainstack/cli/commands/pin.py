from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
import yaml

from trainstack.cli.local_registry import local_registry, registry_client
from trainstack.cli.output.console import err, fail, out, show_json, step
from trainstack.cli.releases import settings_with_downloads
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.errors import ExitCode
from trainstack.files.project import edit_project
from trainstack.live.code_commits import GitError, resolve_commits, revisions
from trainstack.live.registry import Registries
from trainstack.live.registry_credentials import user_credentials
from trainstack.live.registry_errors import RegistryError
from trainstack.preflight.file_checks import check as preflight
from trainstack.preflight.rules.images import image_unpinned
from trainstack.preflight.used_images import UsedImage, used_images
from trainstack.settings.loading.code_pins import is_code_key
from trainstack.settings.loading.load import LoadedEnvironment, load_with_places, pins_file
from trainstack.settings.model import Settings
from trainstack.stack_objects.stack_objects import StackObjects

_WORKERS = 8
_HEAD = """\
# The digests of images, written by `trainstack pin -s {stack}`.
"""
_HEAD_OF_CODE = """\
# The commits of branches and tags of code, written by `trainstack pin -s {stack}`.
"""
_STYLES = {"kept": "dim", "new": "green", "moved": "yellow", "unused": "yellow"}


@dataclass(frozen=True)
class Pin:
    """The current and the pinned digest of an image, or commit of code."""

    key: str
    current_value: str | None
    pinned_value: str | None

    @property
    def state(self) -> Literal["kept", "new", "moved", "unused"]:
        if self.current_value is None:
            return "unused"
        if self.pinned_value is None:
            return "new"
        return "kept" if self.current_value == self.pinned_value else "moved"

    def as_data(self) -> dict[str, Any]:
        if is_code_key(self.key):
            git, _, revision = self.key.partition(" ")
            subject = {"git": git, "revision": revision, "commit": self.current_value}
        else:
            subject = {"image": self.key, "digest": self.current_value}
        return {**subject, "was": self.pinned_value, "state": self.state}


def pin(
    *,
    stack: StackOption,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 4 if a pin is missing, has moved or is unused.")
    ] = False,
    code: Annotated[
        bool, typer.Option("--code", help="Pin only the code; keep the pins of images and read no registry.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Pin images to digests, and branches and tags of code to commits, in pins/ENV.yaml.

    Reads each image from its registry, or from the local cluster's registry if KUBECONFIG refers to the local cluster.
    Reads branches and tags with your git and its credentials. On an error, writes nothing. Commit the file.

    Examples:
      trainstack pin -s prod
      trainstack pin -s prod --check
      trainstack pin -s prod --code
      trainstack pin -s prod --json
    """
    session = Session.open(stack)
    # Includes excluded runs, whose pins are kept, and unpinned code, which other commands refuse.
    loaded, file = load_with_places(session.root, stack, to_run=False), pins_file(stack)
    commits = _commits(session, loaded.settings)
    digests = loaded.settings.pins if code else _digests(session, loaded)
    pins_of_code = _compare_pins(commits, loaded.settings.code_pins)
    pins_of_images = [] if code else _compare_pins(digests, loaded.settings.pins)
    pins = [*pins_of_images, *pins_of_code]
    changed_pins = [pin for pin in pins if pin.state != "kept"]
    if changed_pins and not check:
        with edit_project(session.root) as edit:
            if load_with_places(session.root, stack, to_run=False).settings != loaded.settings:
                fail("nothing was written: the environment or its pins have changed meanwhile; run the command again")
            edit.write({file: _pins_text(stack, digests, commits)})
    if as_json:
        image_data, commits_data = ([pin.as_data() for pin in group] for group in (pins_of_images, pins_of_code))
        show_json({"file": file, "changed": bool(changed_pins), "pins": image_data, "code": commits_data})
    else:
        for pin in pins:
            old_value_note = f" (was {pin.pinned_value})" if pin.state == "moved" else ""
            out.print(
                f"{pin.state:<7} {pin.key}  {pin.current_value or pin.pinned_value}{old_value_note}",
                style=_STYLES[pin.state],
            )
    if changed_pins and check:
        command = f"trainstack pin -s {stack}{' --code' if code else ''}"
        fail(f"{file}: {_format_counts(changed_pins)}; run `{command}`, and commit the file", ExitCode.FINDINGS)
    err.print(f"{file}: {_format_counts(pins) or 'nothing to pin'}")


def _compare_pins(new_values: Mapping[str, str], old_values: Mapping[str, str]) -> list[Pin]:
    return [Pin(key, new_values.get(key), old_values.get(key)) for key in sorted({*new_values, *old_values})]


def _pins_text(stack: str, digests: Mapping[str, str], commits: Mapping[str, str]) -> str:
    """Write the images, then the code, quoted, since a commit such as `12e3…` would be read as a number."""
    text = ""
    if digests or not commits:
        text += _HEAD.format(stack=stack) + yaml.safe_dump(dict(digests), sort_keys=True, width=1000)
    if commits:
        text += _HEAD_OF_CODE.format(stack=stack)
        text += yaml.safe_dump(dict(commits), sort_keys=True, width=10_000, default_style='"', allow_unicode=True)
    return text


def _commits(session: Session, settings: Settings) -> dict[str, str]:
    count = len(revisions(settings))
    if not count:
        return {}
    try:
        with step(f"reading the commits of {count} branches and tags", "2 s"):
            return resolve_commits(settings, session.root)
    except GitError as error:
        fail(f"nothing was written:\n{error}")


def _digests(session: Session, loaded: LoadedEnvironment) -> dict[str, str]:
    images = _images_to_pin(session, loaded)
    with step(f"reading the digests of {len(images)} images", "2 s"):
        return _resolve_digests(session.stack, images, _registries(session))


def _images_to_pin(session: Session, loaded: LoadedEnvironment) -> dict[str, UsedImage]:
    settings = loaded.settings
    findings = preflight(settings, session.root, loaded.places)
    if faults := [str(finding) for finding in findings if finding.is_blocking and finding.rule != image_unpinned.rule]:
        fail("\n".join(faults))
    images = used_images(StackObjects.from_files(settings_with_downloads(settings), session.root))
    return {image.reference: image for image in images if not image.has_digest}


def _registries(session: Session) -> Registries:
    local = local_registry(session)
    if local is not None:
        return registry_client(local)
    if session.is_local:
        fail(
            "the local cluster, whose registry serves the images, is not running: run `trainstack cluster up`; for "
            "another cluster, set KUBECONFIG",
            ExitCode.UNREACHABLE,
        )
    return Registries(user_credentials())


def _resolve_digests(stack: str, images: Mapping[str, UsedImage], registries: Registries) -> dict[str, str]:

    def read_digest(image: UsedImage) -> str | RegistryError:
        try:
            return registries.digest(image.reference)
        except RegistryError as error:
            build_hint = f" (`trainstack image push -s {stack}` builds and pushes it)" if image.build else ""
            return RegistryError(f"{image.path}: {error}{build_hint}")

    with ThreadPoolExecutor(_WORKERS) as pool:
        answers = dict(zip(images, pool.map(read_digest, images.values()), strict=True))
    if faults := [str(answer) for answer in answers.values() if isinstance(answer, RegistryError)]:
        fail("\n".join(["nothing was written:", *faults]))
    return {image: answer for image, answer in answers.items() if isinstance(answer, str)}


def _format_counts(pins: Sequence[Pin]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(Counter(pin.state for pin in pins).items()))
