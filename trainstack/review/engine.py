"""The engine's preview of an environment, as a report. The only module here that starts programs."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from trainstack.review import secret
from trainstack.review.admission import verdicts
from trainstack.review.diff import tidy
from trainstack.review.facts import Op, Step, View, facts
from trainstack.review.report import MOST_CHARACTERS, Counts, Report, ReportedFact
from trainstack.review.text import clean
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load

KUBECONFIG_TEXT = "TRAINSTACK_KUBECONFIG"
"""The variable that holds a kubeconfig's text, where there is no file: a CI system keeps secrets as text."""

_TIMEOUT_SECONDS = 900
"""Of one call of the engine: a preview takes seconds, and one that waits for a dead cluster must end some time."""
_OPS: Mapping[str, Op] = {"create": "create", "update": "update", "replace": "replace", "delete": "delete"}
"""The steps that say it all: of a replacement's three, the one that has both states."""


class EngineError(Exception):
    """The engine could not be asked. Says what it said."""


def preview(root: Path, stack: str, pull: int | None) -> Report:
    """Preview an environment of the checkout at `root`. What goes wrong is in the report.

    The engine is asked twice, for the text that people read and for the objects that the facts are told from.
    """
    with _kubeconfig() as chosen:
        # A CI system hands on what is not configured as empty, which the engine would take for an empty passphrase.
        given = {name: value for name, value in os.environ.items() if value} | chosen
        hidden = secret.of_environment(given)
        try:
            variables = given | _environment(root, stack, given)
            hidden |= _config_secrets(root, stack, variables)
            text = _pulumi(root, variables, "preview", "--stack", stack, "--diff", "--suppress-progress")
            objects = _pulumi(root, variables, "preview", "--stack", stack, "--json")
        except EngineError as error:
            return Report(kind="preview", stack=stack, pull=pull, error=_short(secret.mask(clean(str(error)), hidden)))
    try:
        judged = verdicts(load(root, stack), hidden)
    except SettingsError:
        judged = ()  # the engine has said what is wrong, or has other values than the files
    try:
        return report(stack, pull, text, objects, hidden).model_copy(update={"verdicts": judged})
    except secret.LeakError as error:
        return Report(kind="preview", stack=stack, pull=pull, error=str(error))


def report(
    stack: str,
    pull: int | None,
    text: "subprocess.CompletedProcess[str]",
    objects: "subprocess.CompletedProcess[str]",
    hidden: set[str],
) -> Report:
    """The report on what the engine said, once as text and once as JSON. `hidden`: values that must not be seen."""
    printed = _object(objects.stdout)
    said: dict[str, Any] = printed or {}
    secret.refuse_plaintext(said)
    if text.returncode or objects.returncode:
        faults = [each["message"] for each in said.get("diagnostics", ()) if each["severity"] == "error"]
        message = "\n".join(fault.strip() for fault in faults) or objects.stderr or text.stderr or text.stdout
        error = _short(secret.mask(clean(message).strip(), hidden)) or "the engine gave no reason"
        return Report(kind="preview", stack=stack, pull=pull, error=error)
    if printed is None:
        error = "`pulumi preview --json` printed no JSON object, so the changes are not known"
        return Report(kind="preview", stack=stack, pull=pull, error=error)
    summary = said.get("changeSummary") or {}
    found = facts(steps(said), View(live=True, stop=_stop(said)))
    warnings = (each for each in said.get("diagnostics", ()) if each["severity"] == "warning")
    notes = [each["message"].removeprefix("warning: ") for each in warnings]
    return Report(
        kind="preview",
        stack=stack,
        pull=pull,
        counts=Counts(**{op: int(summary.get(op, 0)) for op in Counts.model_fields}),
        facts=tuple(
            ReportedFact(meaning=each.meaning, names=tuple(secret.mask(name, hidden)[:2000] for name in each.names))
            for each in found
        ),
        notes=tuple(secret.mask(clean(note).strip(), hidden)[:5000] for note in notes),
        diff=secret.mask(tidy(clean(text.stdout)), hidden)[:MOST_CHARACTERS],
    )


def steps(said: Mapping[str, Any]) -> Iterator[Step]:
    """The objects that a preview's JSON says change. Components and providers are none."""
    for step in said.get("steps", ()):
        if step["op"] not in _OPS:
            continue
        old, new = (step.get(state) or {} for state in ("oldState", "newState"))
        if not str((new or old).get("type", "")).startswith("kubernetes:"):
            continue
        yield Step(
            op=_OPS[step["op"]],
            old=old.get("inputs"),
            new=new.get("inputs"),
            retained=bool(old.get("retainOnDelete")),
        )


def configured() -> bool:
    """Whether there is a cluster to preview against."""
    return bool(os.environ.get(KUBECONFIG_TEXT) or os.environ.get("KUBECONFIG"))


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that the text is; None where it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _stop(said: Mapping[str, Any]) -> list[str]:
    """The run ids under `stop` of the engine's configuration."""
    try:
        section = json.loads(said.get("config", {}).get("trainstack:workloads", "{}"))
    except ValueError:
        return []
    return [str(run) for run in (section.get("stop") or ())] if isinstance(section, dict) else []


@contextmanager
def _kubeconfig() -> Iterator[dict[str, str]]:
    text = os.environ.get(KUBECONFIG_TEXT)
    if not text:
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kubeconfig")
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        yield {"KUBECONFIG": str(file)}


def _environment(root: Path, stack: str, given: Mapping[str, str]) -> dict[str, str]:
    """The engine's variables, as `trainstack env` gives them to a person's shell."""
    words = [sys.executable, "-m", "trainstack.cli", "env", "--stack", stack]
    done = _run(words, root, given)
    if done.returncode:
        raise EngineError(done.stderr.strip() or done.stdout.strip())
    exports = (word for word in shlex.split(done.stdout) if "=" in word)
    return dict(each.split("=", 1) for each in exports)


def _config_secrets(root: Path, stack: str, variables: Mapping[str, str]) -> set[str]:
    """The decrypted values of the stack's configuration, so that they can be hidden wherever the program puts them."""
    file = root / f"Pulumi.{stack}.yaml"
    stored = (yaml.safe_load(file.read_bytes()) or {}).get("config") if file.is_file() else None
    if not stored or "secure:" not in file.read_text(encoding="utf-8"):
        return set()
    done = _pulumi(root, variables, "config", "--stack", stack, "--show-secrets", "--json")
    if done.returncode:
        raise EngineError(f"the configuration cannot be decrypted: {done.stderr.strip()}")
    shown = {key: each.get("objectValue", each.get("value")) for key, each in json.loads(done.stdout).items()}
    return set(secret.of_config(stored, shown))


def _pulumi(root: Path, variables: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return _run(["pulumi", *words, "--non-interactive", "--color", "never"], root, variables)


def _run(words: list[str], root: Path, variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            words, cwd=root, env=dict(variables), stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            errors="replace", check=False, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise EngineError(f"`{' '.join(words[:2])}` did not end within {_TIMEOUT_SECONDS} s") from None
    except OSError as error:
        raise EngineError(f"{words[0]} cannot be started: {error.strerror}; run `make client-tools`") from None


def _short(message: str) -> str:
    return message[:100_000]
