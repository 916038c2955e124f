"""Rules about programs and objects that are too large for Linux or the API server. The rules build all launches."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainstack.declared.component import Component
from trainstack.objects.limits import (
    MOST_BYTES_OF_A_REQUEST,
    MOST_BYTES_OF_ANNOTATIONS,
    MOST_BYTES_OF_DATA,
    annotation_bytes,
    over,
    stored_bytes,
)
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, with_paths
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import UNKNOWN_FACTS
from trainstack.runs.ledgers import Ledger, ledger_bytes
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.pod_template import MOST_BYTES_OF_A_VARIABLE
from trainstack.runs.manifests.trial_names import overrides_of, trial_of
from trainstack.runs.manifests.variable_expansion import environment, program
from trainstack.runs.names import RUN_DIGITS, run_id
from trainstack.runs.parameter_file import TooManySetsError, check_carried, check_size
from trainstack.runs.wrapper.run import VARIABLE_REFERENCE
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import Workload
from trainstack.sweeps.launches import PlannedSweep

_MOST_BYTES_OF_A_PROGRAM = 2 << 20
"""Limit of arguments and variables together: a quarter of the usual limit of the stack (8 MiB)."""
_OF_THE_IMAGE = 16 << 10
"""Bytes that are reserved for variables of the image and of operators."""
_OF_OTHERS = 8 << 10
"""Bytes of an object that are reserved for hashes, digests, and fields that controllers add."""
_MOST_BYTES_OF_ANNOTATIONS = MOST_BYTES_OF_ANNOTATIONS - (4 << 10)
"""Limit of our annotations of a pod. 4 KiB are reserved for Kueue and the controllers that create the pods."""
_SMALL = 250_000
"""Characters of JSON that exceed no limit, whatever their encoding. Smaller objects are not measured."""
_LONGEST_NAME = "x" * 63
_AUTHENTICATION = 16
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
    for path, ledger in _launches(context):
        messages: dict[str, None] = {}
        entrypoint = str(ledger.launch["spec"].get("entrypoint") or "")
        # Ray passes the entrypoint to a shell as one argument, after a command of its own.
        if message := over("the entrypoint", len(entrypoint.encode()), MOST_BYTES_OF_A_VARIABLE - _OF_OTHERS):
            messages[message] = None
        for pods in launched_pods(ledger.launch, ledger.companions):
            for container in (*(pods.spec.get("initContainers") or ()), *pods.spec["containers"]):
                messages |= dict.fromkeys(_too_long(container))
        yield from (Violation(path, message) for message in messages)


def _too_long(container: Mapping[str, Any]) -> Iterator[str]:
    if _is_short(container):
        return
    variables = environment(container)
    texts = [_by_wrapper(text, variables) for text in program(container)]
    named = [f"{name}={value or ''}" for name, value in variables.items()]
    listed = [(f"argument {_shown(text)}", text) for text in texts]
    listed += [(f"variable {text.partition('=')[0]}", text) for text in named]
    for subject, text in listed:
        if message := over(subject, len(text.encode()), MOST_BYTES_OF_A_VARIABLE):
            yield message
    # Linux stores each text with a final zero byte and a pointer of eight bytes.
    total = sum(len(text.encode()) + 9 for _, text in listed)
    if message := over("arguments and variables", total, _MOST_BYTES_OF_A_PROGRAM - _OF_THE_IMAGE):
        yield message


def _is_short(container: Mapping[str, Any]) -> bool:
    """Return whether no text can be too long, even if all texts replaced each reference. It avoids the exact sum."""
    texts: list[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    texts += [variable.get("value") or "" for variable in container.get("env") or ()]
    size = sum(map(len, texts))
    return 4 * (size + (size + 500) * sum(text.count("$") for text in texts)) < MOST_BYTES_OF_A_VARIABLE


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def _by_wrapper(text: str, variables: Mapping[str, str | None]) -> str:
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
    for path, ledger in _launches(context):
        yield from (Violation(path, message) for message in dict.fromkeys(_too_large(ledger)))
    for path, component in _platform(context):
        for manifest in component.manifests:
            subject = f"{manifest['kind']} {manifest['metadata']['name']}"
            if len(json.dumps(manifest)) > _SMALL and (message := _too_much(subject, manifest)):
                yield Violation(path, message, "split it, or list less")
    for path, secret in with_paths("secrets.secrets", context.settings.secrets.secrets):
        size = sum(_plain_bytes(value.secure) for value in secret.values.values())
        if message := over("values", size, MOST_BYTES_OF_DATA):
            yield Violation(path, message, "move large values into several Secrets, or to a volume")


def _too_large(ledger: Ledger) -> Iterator[str]:
    if sum(len(json.dumps(body)) for body in ledger.objects) + 30 * len(ledger.trials) < _SMALL:
        return
    if message := over(f"the ledger of {ledger.workload}", ledger_bytes(ledger), MOST_BYTES_OF_DATA - _OF_OTHERS):
        yield message
    for body in ledger.objects:
        if message := _too_much(f"{body['kind']} {ledger.workload}", body):
            yield message
    for pods in launched_pods(ledger.launch, ledger.companions):
        size = annotation_bytes(pods.template.get("metadata") or {})
        if message := over(f"annotations of the pods of {ledger.workload}", size, _MOST_BYTES_OF_ANNOTATIONS):
            yield message


def _too_much(subject: str, body: Mapping[str, Any]) -> str:
    return over(f"{subject}, with the paths of its fields,", stored_bytes(body), MOST_BYTES_OF_A_REQUEST - _OF_OTHERS)


def _platform(context: RuleContext) -> Iterator[tuple[str, Component]]:
    """Yield the platform's components that need no release of an operator, with the path of their settings."""
    declared = context.declared
    yield "environment.namespaces", declared.namespaces
    yield "tenants.teams", declared.tenants
    yield "storage", declared.storage_classes
    yield "queues", declared.queues


def _plain_bytes(ciphertext: str) -> int:
    """Return the bytes of the value of a ciphertext; 0 for an invalid ciphertext."""
    try:
        return len(b64decode(ciphertext.rpartition(":")[2])) - _AUTHENTICATION
    except ValueError:
        return 0  # Another rule reports it.


def _launches(context: RuleContext) -> Iterator[tuple[str, Ledger]]:
    """Yield the ledgers of each run's launch and of each sweep's largest launches, with the path of the setting.

    Other rules report a launch that cannot be built.
    """
    for path, run in context.runs():
        try:
            body, others = context.declared.queued(run)
        except WorkloadError:
            continue
        yield path, _ledger(run, body, others)
    for path, sweep in context.sweeps():
        try:
            yield from ((f"{path}.run", ledger) for ledger in _of_sweep(context, sweep))
        except WorkloadError:
            continue


def _ledger(run: Workload, body: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Ledger:
    return Ledger(
        run_id=run.name,
        workload=run.name,
        namespace=run.namespace,
        attempt=run.attempt,
        launch_name=run.name,
        launch=body,
        companions=tuple(others),
    )


def _of_sweep(context: RuleContext, sweep: Sweep) -> Iterator[Ledger]:
    """Yield the ledgers of the trials with the longest text and with the most text, and that of the Indexed Job."""
    dispatches = context.settings.queues.dispatches(sweep.run.namespace, sweep.run.queue)
    if dispatches and _is_uncarriable(sweep):
        return
    run_ids = [run_id(sweep.name, f"{each.number:0{RUN_DIGITS}}") for each in sweep.sets]
    # Only a dispatched Indexed Job has the parameters of all trials in its manifest, as annotations of its pods.
    chosen = range(len(run_ids)) if dispatches and sweep.form == "indexed" else _longest(sweep)
    built = {run_ids[index]: trial_of(sweep, sweep.sets[index]) for index in chosen}
    planned = PlannedSweep(sweep, context.settings.stack, UNKNOWN_FACTS, built, dispatches=dispatches)
    yield from (planned.job(run_ids[index]) for index in _longest(sweep))
    if sweep.form == "indexed" and run_ids:
        yield planned.batch(run_ids, "", planned.batch_file(run_ids) if dispatches else None)


def _is_uncarriable(sweep: Sweep) -> bool:
    """Return whether the parameter file of a dispatched sweep exceeds a limit, which other rules report."""
    try:
        check_size(sweep)
        check_carried(sweep)
    except TooManySetsError:
        return True
    return False


def _longest(sweep: Sweep) -> Sequence[int]:
    overrides = [overrides_of(sweep, each) for each in sweep.sets]
    texts = [[len(text) for text in ("", *each.args, *each.env.values())] for each in overrides]
    return sorted({max(range(len(texts)), key=lambda index: of(texts[index])) for of in (max, sum)}) if texts else ()
