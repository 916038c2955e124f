"""Valid settings that are almost certainly mistakes."""

import re
from base64 import b64decode
from collections.abc import Iterator
from difflib import get_close_matches

from trainstack.kueue.managed_jobs import DEFAULT_QUEUE
from trainstack.objects.labels import POD_SECURITY
from trainstack.platform.namespaces import enforced_level
from trainstack.preflight.examples import hello, yaml_at
from trainstack.preflight.operator_facts import installs_with_paths
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, with_paths
from trainstack.preflight.rules.references import ALWAYS_PRESENT
from trainstack.runs.status.launch_kinds import framework_of
from trainstack.settings.sections.operators import KueueConfiguration
from trainstack.settings.values.paths import child_path

_RUN_ID = re.compile(r"(?P<name>[a-z0-9]([-a-z0-9]*[a-z0-9])?)-[0-9a-f]{10}")
_SHORTEST_CIPHERTEXT = 16
"""Bytes of the AES-GCM authentication tag, which every secrets provider of the engine appends to a value."""
_SYSTEM_FOLDERS = ("/bin", "/dev", "/etc", "/lib", "/proc", "/sbin", "/sys", "/usr")
_MIN_SIMILARITY = 0.8
"""Similarity, from 0 to 1, from which a name counts as a misspelling of another one."""


@Rule(
    id="queue-left-out",
    severity="warning",
    summary="A run without a queue would start outside every quota, although its namespace has a queue.",
    details="Kueue puts a run without a queue into the namespace's LocalQueue `default`, if there is one.",
    change=hello("queue: null"),
    remedy="Add `queue:`, or silence the finding.",
)
def queue_left_out(context: RuleContext) -> Iterator[Violation]:
    kueue = context.settings.operators.kueue
    configuration = kueue.configuration if kueue else KueueConfiguration()
    queues = context.settings.queues.local_queues
    for path, run in context.runs():
        names = [queue.name for queue in queues if queue.namespace == run.namespace]
        suspends_unqueued_jobs = configuration.manage_jobs_without_queue_name
        if run.queue is None and names and framework_of(run) in configuration.frameworks and not suspends_unqueued_jobs:
            if DEFAULT_QUEUE in names:
                message = f"the run has no queue: Kueue puts it into queue {DEFAULT_QUEUE} of its namespace"
                yield Violation(path, message, f"add `queue: {DEFAULT_QUEUE}`")
                continue
            message = "the run has no queue: it would start at once, outside every quota"
            if run.priority is not None:
                message += f", and its priority {run.priority} has no effect"
            yield Violation(path, message, f"add `queue: {names[0]}`")


@Rule(
    id="priority-unused",
    severity="warning",
    summary="A run has a `priority` but no `queue`, so the priority has no effect.",
    details=(
        "A WorkloadPriorityClass orders the runs of a queue. The pods get no PriorityClass, so the scheduler treats "
        "them as any others. If the namespace has a queue, the finding is `queue-left-out`."
    ),
    example="`priority: high` without `queue`, in a namespace without a LocalQueue.",
    remedy="Add `queue:`, or leave out `priority`.",
)
def priority_unused(context: RuleContext) -> Iterator[Violation]:
    namespaces_with_queue = {queue.namespace for queue in context.settings.queues.local_queues}
    for path, run in context.runs():
        if run.priority is not None and run.queue is None and run.namespace not in namespaces_with_queue:
            yield Violation(f"{path}.priority", f"the run has no queue, so its priority {run.priority} has no effect")


@Rule(
    id="namespace-privileged",
    severity="warning",
    summary="A namespace of the stack enforces Pod Security `privileged`.",
    details="Anyone who can create pods in it can act as root on its nodes.",
    change=yaml_at(
        "environment.namespaces", "- {name: training, labels: {pod-security.kubernetes.io/enforce: privileged}}"
    ),
    remedy="Use `baseline` or `restricted`.",
)
def namespace_privileged(context: RuleContext) -> Iterator[Violation]:
    for path, namespace in with_paths("environment.namespaces", context.settings.environment.namespaces):
        if enforced_level(namespace) == "privileged":
            message = "Pod Security level privileged allows pods to act as root on their nodes"
            yield Violation(child_path(f"{path}.labels", f"{POD_SECURITY}enforce"), message)


@Rule(
    id="prepare-missing",
    severity="warning",
    summary="`prepare` of a run's data is not a module of the repository.",
    example="`data: {…, prepare: workloads/digits/prepare.py}`.",
    remedy="Name it as for `python -m` (`workloads.digits.prepare`), or remove it and run `trainstack upload`.",
)
def prepare_missing(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        module = run.data.prepare if run.data else None
        if module is not None:
            file = context.root.joinpath(*module.split("."))
            if not re.fullmatch(r"\w+(\.\w+)*", module):
                message, remedy = f"{module} is not the name of a module", "use a name like workloads.digits.prepare"
            elif not file.with_name(f"{file.name}.py").is_file() and not (file / "__main__.py").is_file():
                message = f"module {module} does not exist"
                remedy = f"write {module.replace('.', '/')}.py, or remove prepare and upload the data"
            else:
                continue
            yield Violation(f"{path}.data.prepare", message, remedy)


@Rule(
    id="path-upward",
    severity="warning",
    summary="A path contains `..`, which may leave its folder or volume.",
    change=hello("workingDir: /opt/../hello"),
    remedy="Write the path without `..`.",
)
def path_upward(context: RuleContext) -> Iterator[Violation]:
    for path, text in _paths(context):
        if ".." in text.split("/"):
            yield Violation(path, f"{text} contains '..'")


@Rule(
    id="mount-hides-system",
    severity="warning",
    summary="A volume is mounted over a system folder of the image, such as `/etc`, and hides its files.",
    example="`mountPath: /etc`.",
    remedy="Mount the volume below `/mnt` or `/data`.",
)
def mount_hides_system(context: RuleContext) -> Iterator[Violation]:
    for path_of, _, mount in context.mounts():
        if mount.mount_path.rstrip("/") in _SYSTEM_FOLDERS:
            message = f"{mount.mount_path} is a system folder of the image, and the volume would hide its files"
            yield Violation(path_of("mountPath"), message)


@Rule(
    id="secret-undecryptable",
    severity="warning",
    summary="The Pulumi engine cannot decrypt a value of a Secret.",
    details="The value may be the plain secret, so the finding never prints it.",
    example="`values: {password: {secure: hunter2}}`.",
    remedy="Set it with `pulumi config set --secret --path`; if the file holds the secret, rotate it.",
)
def secret_undecryptable(context: RuleContext) -> Iterator[Violation]:
    for path, secret in with_paths("secrets.secrets", context.settings.secrets.secrets):
        for key, value in secret.values.items():
            if not _is_ciphertext(value.secure):
                message = "the value is not a ciphertext of the engine and cannot be decrypted"
                yield Violation(child_path(f"{path}.values", key), message)


@Rule(
    id="stop-unknown",
    severity="warning",
    summary="An entry of `workloads.stop` is not a run id, or misspells the name of a declared run.",
    change=yaml_at("workloads", "stop: [hello]"),
    remedy="Use the id that `trainstack status` shows.",
)
def stop_unknown(context: RuleContext) -> Iterator[Violation]:
    settings = context.settings
    names = {*(run.name for run in settings.workloads.runs), *(sweep.name for sweep in settings.sweeps.sweeps)}
    for index, entry in enumerate(settings.workloads.stop):
        match = _RUN_ID.fullmatch(entry)
        similar_name = _find_similar_name(match["name"], names) if match else None
        path = f"workloads.stop[{index}]"
        if match is None:
            remedy = "use the id that `trainstack status` shows: the name and 10 hexadecimal digits"
            yield Violation(path, f"{entry} is not a run id", remedy)
        elif similar_name is not None:
            yield Violation(path, f"no run has the name {match['name']}", f"did you mean {similar_name}{entry[-11:]}?")


@Rule(
    id="discard-unknown",
    severity="warning",
    summary="An entry of `storage.discard` is in an unknown namespace, or misspells the name of a declared claim.",
    change=yaml_at("storage", "discard: [training/trainng]"),
    remedy="Correct the entry or remove it.",
)
def discard_unknown(context: RuleContext) -> Iterator[Violation]:
    storage, environment = context.settings.storage, context.settings.environment
    known_namespaces = {claim.namespace for claim in storage.volumes} | {
        namespace.name for namespace in environment.namespaces
    }
    known_namespaces |= {*environment.existing.namespaces, *ALWAYS_PRESENT}
    for index, entry in enumerate(storage.discard):
        namespace, _, name = entry.partition("/")
        similar_name = _find_similar_name(
            name, {claim.name for claim in storage.volumes if claim.namespace == namespace}
        )
        if namespace not in known_namespaces or similar_name is not None:
            message = f"unknown claim {entry}" if namespace in known_namespaces else f"unknown namespace {namespace}"
            remedy = f"did you mean {namespace}/{similar_name}?" if similar_name else None
            yield Violation(f"storage.discard[{index}]", message, remedy)


@Rule(
    id="parallelism-unused",
    severity="warning",
    summary="A managed Job sets `parallelism` without `completions`, so it runs one pod.",
    details="An unmanaged Job would run as many pods as its `parallelism`.",
    example="A managed Job with `parallelism: 4` alone.",
    remedy="Set `completions` to the number of pods, or leave out `parallelism`.",
)
def parallelism_unused(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.settings.runs_and_trials():
        if run.managed and "completions" not in run.model_fields_set and run.parallelism > 1:
            message = f"parallelism is {run.parallelism}, but the run has one pod, because completions is 1 by default"
            yield Violation(f"{path}.parallelism", message)


def _paths(context: RuleContext) -> Iterator[tuple[str, str]]:
    """Yield the settings that are paths of files or folders, with their values."""
    for path, run in context.runs():
        fields = {"workingDir": run.working_dir, "image.build": run.image.build}
        fields |= {"code.mountPath": run.code.mount_path} if run.code else {}
        fields |= {"record.path": run.record.path} if run.record else {}
        fields |= {"data.path": run.data.path, "data.manifest": run.data.manifest} if run.data else {}
        yield from ((f"{path}.{field}", text) for field, text in fields.items() if text is not None)
    for path_of, _, mount in context.mounts():
        yield path_of("mountPath"), mount.mount_path
    for path, install in installs_with_paths(context.settings):
        if install.manifest.path is not None:
            yield f"{path}.manifest.path", install.manifest.path


def _is_ciphertext(text: str) -> bool:
    """Return whether a text has the engine's form: `v1:<nonce>:<ciphertext>`, or base64 from the Pulumi service."""
    try:
        return len(b64decode(text.removeprefix("v1:").rpartition(":")[2], validate=True)) >= _SHORTEST_CIPHERTEXT
    except ValueError:
        return False


def _find_similar_name(word: str, known_names: set[str]) -> str | None:
    """Return the known name that the word probably misspells; None for a known name, or if none is similar.

    Names that differ in their digits (`digits`, `digits-2`) are meant to differ.
    """
    similar = get_close_matches(word, sorted(known_names), 1, _MIN_SIMILARITY) if word not in known_names else []
    return next((name for name in similar if re.sub(r"\D", "", name) == re.sub(r"\D", "", word)), None)
