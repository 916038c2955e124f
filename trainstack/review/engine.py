"""The preview of an environment by the engine, as a report."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from trainstack.files.temporary import secret_file
from trainstack.printable import clean
from trainstack.review import secret_masking
from trainstack.review.admission import reported_admission
from trainstack.review.diff import tidy
from trainstack.review.errors import EngineError
from trainstack.review.facts import ChangeStep, Op, RunContext, find_facts
from trainstack.review.report import MAX_DIFF, MAX_ERROR, MAX_NOTE, Counts, Report, ReportedFact
from trainstack.review.temporary_state import MISSING_STACK_MESSAGE, temporary_state
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load, read_placement

KUBECONFIG_TEXT = "TRAINSTACK_KUBECONFIG"
"""The variable with the text of a kubeconfig, since CI systems keep secrets as text, not as files."""

_TIMEOUT_SECONDS = 900
"""The limit of one call of the engine: a preview takes seconds, but an unreachable cluster must not block the job."""
_RELEVANT_OPS: Mapping[str, Op] = {
    "create": "create",
    "import": "import",
    "import-replacement": "import",
    "update": "update",
    "replace": "replace",
    "delete": "delete",
}
"""The relevant steps of a preview, with their operations; steps that only read are left out.

Of the steps of a replacement, `replace` has both states, and `import-replacement` has the existing object that replaces
the old one."""
_IMPORTS = ("import", "import-replacement")

Completed = subprocess.CompletedProcess[str]


def preview(root: Path, stack: str, pull: int | None) -> Report:
    """Return the report on an environment of the checkout at `root`; failures are part of the report.

    The engine runs twice: its text output is the source of the diff, its JSON output the source of the facts.
    """
    with _kubeconfig_variables() as kubeconfig:
        # CI systems pass unset secrets as empty variables, which the engine would use as an empty passphrase.
        shell_variables = {name: value for name, value in os.environ.items() if value} | kubeconfig
        secrets = secret_masking.environment_secrets(shell_variables)
        try:
            variables = _engine_variables(root, stack, shell_variables)
            secrets |= _config_secrets(root, stack, variables)
            with _state_variables(root, stack, variables) as state:
                variables |= state
                text_output = _pulumi(root, variables, "preview", "--stack", stack, "--diff", "--suppress-progress")
                json_output = _pulumi(root, variables, "preview", "--stack", stack, "--json")
        except EngineError as error:
            return _failure_report(stack, pull, secret_masking.mask(clean(str(error)), secrets))
    try:
        admission = reported_admission(load(root, stack), secrets)
    except SettingsError:
        # The engine has reported the error, or its values differ from those in the files.
        admission = None
    try:
        return build_report(stack, pull, text_output, json_output, secrets).model_copy(update={**(admission or {})})
    except secret_masking.LeakError as error:
        return _failure_report(stack, pull, str(error))


def build_report(
    stack: str, pull: int | None, text_output: Completed, json_output: Completed, secrets: set[str]
) -> Report:
    """Return the report from the engine's text and JSON outputs, with `secrets` masked. Raises LeakError."""
    parsed_output = _parse_object(json_output.stdout)
    output = parsed_output or {}
    # Masking replaces known secrets only, so output with a decrypted one is discarded before anything is read from it.
    secret_masking.refuse_plaintext(output)
    diagnostics = output.get("diagnostics", ())
    if text_output.returncode or json_output.returncode:
        errors = [entry["message"].strip() for entry in diagnostics if entry["severity"] == "error"]
        message = "\n".join(errors) or json_output.stderr or text_output.stderr or text_output.stdout
        return _failure_report(
            stack, pull, secret_masking.mask(clean(message).strip(), secrets) or "the engine gave no reason"
        )
    if parsed_output is None:
        return _failure_report(
            stack, pull, "`pulumi preview --json` printed no JSON object, so the changes are unknown"
        )
    summary = output.get("changeSummary") or {}
    workloads = _parse_object(output.get("config", {}).get("trainstack:workloads", "")) or {}
    stop = [str(run) for run in (workloads.get("stop") or ())]
    effects = find_facts(steps(output), RunContext(live=True, stop=stop))
    warnings = [entry["message"].removeprefix("warning: ") for entry in diagnostics if entry["severity"] == "warning"]
    return Report(
        kind="preview",
        stack=stack,
        pull=pull,
        counts=_counts(summary),
        facts=tuple(ReportedFact.from_fact(fact, secrets) for fact in effects),
        notes=tuple(secret_masking.mask(clean(warning).strip(), secrets)[:MAX_NOTE] for warning in warnings),
        diff=secret_masking.mask(tidy(clean(text_output.stdout)), secrets)[:MAX_DIFF],
    )


def steps(output: Mapping[str, Any]) -> Iterator[ChangeStep]:
    """Yield the changes of Kubernetes objects in a preview's JSON; components and providers are left out."""
    for step in output.get("steps", ()):
        if step["op"] not in _RELEVANT_OPS:
            continue
        old, new = (step.get(state) or {} for state in ("oldState", "newState"))
        if not str((new or old).get("type", "")).startswith("kubernetes:"):
            continue
        retained = bool(old.get("retainOnDelete"))
        yield ChangeStep(op=_RELEVANT_OPS[step["op"]], old=old.get("inputs"), new=new.get("inputs"), retained=retained)


def _counts(summary: Mapping[str, int]) -> Counts:
    counts = {op: int(summary.get(op, 0)) for op in Counts.model_fields}
    return Counts(**{**counts, "imported": sum(int(summary.get(op, 0)) for op in _IMPORTS)})


def has_kubeconfig() -> bool:
    """Return whether the environment has a kubeconfig, so that the engine can preview."""
    return bool(os.environ.get(KUBECONFIG_TEXT) or os.environ.get("KUBECONFIG"))


def _failure_report(stack: str, pull: int | None, error: str) -> Report:
    return Report(kind="preview", stack=stack, pull=pull, error=error[:MAX_ERROR])


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@contextmanager
def _kubeconfig_variables() -> Iterator[dict[str, str]]:
    text = os.environ.get(KUBECONFIG_TEXT)
    if not text:
        yield {}
        return
    file = secret_file(text.encode())
    try:
        yield {"KUBECONFIG": str(file.path)}
    finally:
        file.close()


def _engine_variables(root: Path, stack: str, shell_variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the engine: `shell_variables` with the changes that `trainstack env` prints."""
    command = [sys.executable, "-m", "trainstack.cli", "env", "--stack", stack, "--no-init"]
    completed = _run(command, root, shell_variables)
    if completed.returncode:
        raise EngineError(completed.stderr.strip() or completed.stdout.strip())
    words = shlex.split(completed.stdout)
    variables = dict(shell_variables)
    for command_name, argument in zip(words[::2], words[1::2], strict=True):
        name, _, value = argument.partition("=")
        if command_name == "unset":
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables


@contextmanager
def _state_variables(root: Path, stack: str, variables: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the variables of a temporary state if the stack is embedded and has no state, else no variables.

    A preview must not create the stack.
    """
    is_missing = MISSING_STACK_MESSAGE in _pulumi(root, variables, "stack", "--stack", stack).stderr
    if not is_missing or not read_placement(root, stack).embedded:
        yield {}
        return
    with temporary_state(root, stack, "pulumi", variables) as state:
        yield state


def _config_secrets(root: Path, stack: str, variables: Mapping[str, str]) -> set[str]:
    """Return the decrypted values of the stack's configuration, which are masked in all output of the program."""
    file = root / f"Pulumi.{stack}.yaml"
    config = (yaml.safe_load(file.read_bytes()) or {}).get("config") if file.is_file() else None
    if not config or "secure:" not in file.read_text(encoding="utf-8"):
        return set()
    completed = _pulumi(root, variables, "config", "--stack", stack, "--show-secrets", "--json")
    if completed.returncode:
        raise EngineError(f"the configuration cannot be decrypted: {completed.stderr.strip()}")
    entries = json.loads(completed.stdout).items()
    return set(
        secret_masking.config_secrets(
            config, {key: entry.get("objectValue", entry.get("value")) for key, entry in entries}
        )
    )


def _pulumi(root: Path, variables: Mapping[str, str], *arguments: str) -> Completed:
    return _run(["pulumi", *arguments, "--non-interactive", "--color", "never"], root, variables)


def _run(command: list[str], root: Path, variables: Mapping[str, str]) -> Completed:
    try:
        return subprocess.run(
            command, cwd=root, env=dict(variables), stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            errors="replace", check=False, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise EngineError(f"`{' '.join(command[:2])}` did not finish within {_TIMEOUT_SECONDS} s") from None
    except OSError as error:
        remedy = "run `trainstack dev tools --client`"
        raise EngineError(f"{command[0]} cannot be started: {error.strerror}; {remedy}") from None
