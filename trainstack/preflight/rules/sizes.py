"""Rules about programs and objects that are too large for Linux or the API server. The rules build all launches."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainstack.objects.size_limits import (
    MAX_ANNOTATION_BYTES,
    MAX_DATA_BYTES,
    MAX_REQUEST_BYTES,
    annotation_bytes,
    describe_excess,
    stored_bytes,
)
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, with_paths
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS
from trainstack.runs.ledgers import Ledger, ledger_bytes
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.pod_template import MAX_VARIABLE_BYTES
from trainstack.runs.manifests.trials import build_trial, parameter_overrides
from trainstack.runs.manifests.variable_expansion import container_program, container_variables
from trainstack.runs.names import RUN_DIGITS, run_id
from trainstack.runs.parameter_file import TooManySetsError, check_annotation_size, check_size
from trainstack.runs.wrapper.run import VARIABLE_REFERENCE
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import Workload
from trainstack.stack_objects.component import Component
from trainstack.sweeps.planned_sweep import PlannedSweep

_MAX_PROGRAM_BYTES = 2 << 20
"""Limit of arguments and variables together: a quarter of the usual limit of the stack (8 MiB)."""
_RESERVED_IMAGE_BYTES = 16 << 10
"""Bytes that are reserved for variables of the image and of operators."""
_RESERVED_OBJECT_BYTES = 8 << 10
"""Bytes of an object that are reserved for hashes, digests, and fields that controllers add."""
_MAX_ANNOTATION_BYTES = MAX_ANNOTATION_BYTES - (4 << 10)
"""Limit of our annotations of a pod. 4 KiB are reserved for Kueue and the controllers that create the pods."""
_ALWAYS_ACCEPTED_CHARACTERS = 250_000
"""Characters of JSON that exceed no limit, whatever their encoding. Smaller objects are not measured."""
_LONGEST_NAME = "x" * 63
_AUTHENTICATION_TAG_BYTES = 16
"""Bytes by which a ciphertext is longer than its value: the authentication tag."""


@Rule(
    id="argument-too-long",
    summary="An argument or variable of a run, or all of them together, is longer than Linux accepts.",
    details=(
        "The program would not start (`Argument list too long`). An argument, or a variable with its name, has at most "
        "131,071 bytes, and all together 2 MiB. Nodes with larger pages or stacks accept more."
    ),
    example="A script of 200 KB as an argument of `sh -c`.",
    remedy="Move long values into files in the image or on a volume.",
)
def argument_too_long(context: RuleContext) -> Iterator[Violation]:
    for path, ledger in _largest_ledgers(context):
        messages: dict[str, None] = {}
        entrypoint = str(ledger.launch["spec"].get("entrypoint") or "")
        # Ray passes the entrypoint to a shell as one argument, after a command of its own.
        if message := describe_excess(
            "the entrypoint", len(entrypoint.encode()), MAX_VARIABLE_BYTES - _RESERVED_OBJECT_BYTES
        ):
            messages[message] = None
        for pods in launched_pods(ledger.launch, ledger.companions):
            for container in (*(pods.spec.get("initContainers") or ()), *pods.spec["containers"]):
                messages |= dict.fromkeys(_too_long_messages(container))
        yield from (Violation(path, message) for message in messages)


def _too_long_messages(container: Mapping[str, Any]) -> Iterator[str]:
    if _is_short(container):
        return
    variables = container_variables(container)
    texts = [_expand_to_longest(text, variables) for text in container_program(container)]
    assignments = [f"{name}={value or ''}" for name, value in variables.items()]
    labeled_texts = [(f"argument {_abbreviate(text)}", text) for text in texts]
    labeled_texts += [(f"variable {text.partition('=')[0]}", text) for text in assignments]
    for subject, text in labeled_texts:
        if message := describe_excess(subject, len(text.encode()), MAX_VARIABLE_BYTES):
            yield message
    # Linux stores each text with a final zero byte and a pointer of eight bytes.
    total = sum(len(text.encode()) + 9 for _, text in labeled_texts)
    if message := describe_excess("arguments and variables", total, _MAX_PROGRAM_BYTES - _RESERVED_IMAGE_BYTES):
        yield message


def _is_short(container: Mapping[str, Any]) -> bool:
    """Return whether no text can be too long, even if all texts replaced each reference. It avoids the exact sum."""
    texts: list[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    texts += [variable.get("value") or "" for variable in container.get("env") or ()]
    size = sum(map(len, texts))
    return 4 * (size + (size + 500) * sum(text.count("$") for text in texts)) < MAX_VARIABLE_BYTES


def _abbreviate(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def _expand_to_longest(text: str, variables: Mapping[str, str | None]) -> str:
    """Return an argument as the wrapper expands it, with the longest values that its variables may have."""
    record = variables.get("TRAINSTACK_RECORD")
    if record is None or "TRAINSTACK_" not in text:
        return text
    folder = f"{record}/{variables['TRAINSTACK_RUN_ID']}/99999"
    return VARIABLE_REFERENCE.sub(lambda _: f"{folder}/attempts/{_LONGEST_NAME}-999/output", text)


@Rule(
    id="object-too-large",
    summary="An object is larger than the API server accepts.",
    details=(
        "An object has at most 1.5 MiB, the annotations of a pod 256 KiB, and a ConfigMap or Secret 1 MiB. The ledger "
        "of a launch, a ConfigMap, contains the launch."
    ),
    example="A run with 2 MB of arguments.",
    remedy="Shorten arguments, variables or annotations, or move long values into files in the image or on a volume.",
    silenceable=False,
)
def object_too_large(context: RuleContext) -> Iterator[Violation]:
    for path, ledger in _largest_ledgers(context):
        yield from (Violation(path, message) for message in dict.fromkeys(_too_large_messages(ledger)))
    for path, component in _platform_components(context):
        for manifest in component.manifests:
            subject = f"{manifest['kind']} {manifest['metadata']['name']}"
            if len(json.dumps(manifest)) > _ALWAYS_ACCEPTED_CHARACTERS and (
                message := _object_size_message(subject, manifest)
            ):
                yield Violation(path, message, "split it, or list less")
    for path, secret in with_paths("secrets.secrets", context.settings.secrets.secrets):
        size = sum(_plain_bytes(value.secure) for value in secret.values.values())
        if message := describe_excess("values", size, MAX_DATA_BYTES):
            yield Violation(path, message, "move large values into several Secrets, or to a volume")


def _too_large_messages(ledger: Ledger) -> Iterator[str]:
    if sum(len(json.dumps(body)) for body in ledger.objects) + 30 * len(ledger.trials) < _ALWAYS_ACCEPTED_CHARACTERS:
        return
    if message := describe_excess(
        f"the ledger of {ledger.workload}", ledger_bytes(ledger), MAX_DATA_BYTES - _RESERVED_OBJECT_BYTES
    ):
        yield message
    for body in ledger.objects:
        if message := _object_size_message(f"{body['kind']} {ledger.workload}", body):
            yield message
    for pods in launched_pods(ledger.launch, ledger.companions):
        size = annotation_bytes(pods.template.get("metadata") or {})
        if message := describe_excess(f"annotations of the pods of {ledger.workload}", size, _MAX_ANNOTATION_BYTES):
            yield message


def _object_size_message(subject: str, body: Mapping[str, Any]) -> str:
    return describe_excess(
        f"{subject}, with the paths of its fields,", stored_bytes(body), MAX_REQUEST_BYTES - _RESERVED_OBJECT_BYTES
    )


def _platform_components(context: RuleContext) -> Iterator[tuple[str, Component]]:
    """Yield the platform's components that need no release of an operator, with the path of their settings."""
    declared = context.stack_objects
    yield "environment.namespaces", declared.namespaces
    yield "tenants.teams", declared.tenants
    yield "storage", declared.storage_classes
    yield "queues", declared.queues
    yield "objects", declared.other_objects


def _plain_bytes(ciphertext: str) -> int:
    """Return the bytes of the value of a ciphertext; 0 for an invalid ciphertext."""
    try:
        return len(b64decode(ciphertext.rpartition(":")[2])) - _AUTHENTICATION_TAG_BYTES
    except ValueError:
        return 0  # Another rule reports it.


def _largest_ledgers(context: RuleContext) -> Iterator[tuple[str, Ledger]]:
    """Yield the ledgers of each run's launch and of each sweep's largest launches, with the path of the setting.

    Other rules report a launch that cannot be built.
    """
    for path, run in context.runs():
        try:
            body, companions = context.stack_objects.queued_objects(run)
        except WorkloadError:
            continue
        yield path, _ledger(run, body, companions)
    for path, sweep in context.sweeps():
        try:
            yield from ((f"{path}.run", ledger) for ledger in _sweep_ledgers(context, sweep))
        except WorkloadError:
            continue


def _ledger(run: Workload, body: Mapping[str, Any], companions: Sequence[Mapping[str, Any]]) -> Ledger:
    return Ledger(
        run_id=run.name,
        workload=run.name,
        namespace=run.namespace,
        attempt=run.attempt,
        launch_name=run.name,
        launch=body,
        companions=tuple(companions),
    )


def _sweep_ledgers(context: RuleContext, sweep: Sweep) -> Iterator[Ledger]:
    """Yield the ledgers of the trials with the longest text and with the most text, and that of the Indexed Job."""
    dispatches = context.settings.queues.is_dispatched(sweep.run.namespace, sweep.run.queue)
    if dispatches and _is_uncarriable(sweep):
        return
    run_ids = [run_id(sweep.name, f"{parameter_set.number:0{RUN_DIGITS}}") for parameter_set in sweep.sets]
    # Only a dispatched Indexed Job has the parameters of all trials in its manifest, as annotations of its pods.
    indexes = range(len(run_ids)) if dispatches and sweep.form == "indexed" else _longest_trial_indexes(sweep)
    trials = {run_ids[index]: build_trial(sweep, sweep.sets[index]) for index in indexes}
    planned_sweep = PlannedSweep(sweep, context.settings.stack, PLACEHOLDER_FACTS, trials, dispatches=dispatches)
    yield from (planned_sweep.job_ledger(run_ids[index]) for index in _longest_trial_indexes(sweep))
    if sweep.form == "indexed" and run_ids:
        yield planned_sweep.batch_ledger(run_ids, "", planned_sweep.batch_file(run_ids) if dispatches else None)


def _is_uncarriable(sweep: Sweep) -> bool:
    """Return whether the parameter file of a dispatched sweep exceeds a limit, which other rules report."""
    try:
        check_size(sweep)
        check_annotation_size(sweep)
    except TooManySetsError:
        return True
    return False


def _longest_trial_indexes(sweep: Sweep) -> Sequence[int]:
    overrides = [parameter_overrides(sweep, trial) for trial in sweep.sets]
    text_lengths = [[len(text) for text in ("", *trial.args, *trial.env.values())] for trial in overrides]
    return (
        sorted(
            {max(range(len(text_lengths)), key=lambda index: measure(text_lengths[index])) for measure in (max, sum)}
        )
        if text_lengths
        else ()
    )
