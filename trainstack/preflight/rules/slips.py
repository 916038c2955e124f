"""Valid settings that are almost certainly mistakes."""

import re
from base64 import b64decode
from collections.abc import Iterator
from difflib import get_close_matches

from trainstack.objects.labels import POD_SECURITY
from trainstack.platform.namespaces import enforced
from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene, each
from trainstack.preflight.rules.operators import SETTING_OF_INSTALL
from trainstack.preflight.rules.references import ALWAYS_THERE
from trainstack.runs.status.kinds import framework_of
from trainstack.runs.status.run_pods import pod_sets
from trainstack.settings.sections.operators import KueueConfiguration
from trainstack.settings.values.paths import child

_RUN_ID = re.compile(r"(?P<name>[a-z0-9]([-a-z0-9]*[a-z0-9])?)-[0-9a-f]{10}")
_SHORTEST_CIPHERTEXT = 16
"""Bytes: the tag by which AES-GCM authenticates a value, which every secrets provider of the engine appends."""
_SYSTEM_FOLDERS = ("/bin", "/dev", "/etc", "/lib", "/proc", "/sbin", "/sys", "/usr")
_ALIKE = 0.8
"""How much of two names is equal where one is taken for a slip of the other, from 0 to 1."""


@Rule(
    id="queue-left-out",
    severity="warning",
    summary="A run has no queue, although its namespace has one and Kueue manages its kind.",
    details="Kueue does not suspend a run without a queue: it starts at once, outside every quota.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, queue: null}
    """,
    remedy="Add `queue:`. If the run is meant to start at once, silence the finding.",
)
def queue_left_out(scene: Scene) -> Iterator[Violation]:
    kueue = scene.settings.operators.kueue
    configuration = kueue.configuration if kueue else KueueConfiguration()
    queues = scene.settings.queues.local_queues
    for path, run in scene.runs():
        names = [queue.name for queue in queues if queue.namespace == run.namespace]
        held = configuration.manage_jobs_without_queue_name
        if run.queue is None and names and framework_of(run) in configuration.frameworks and not held:
            message = f"sets no queue although namespace {run.namespace} has one: it would start outside every quota"
            yield Violation(path, message, f"add `queue: {names[0]}`")


@Rule(
    id="namespace-privileged",
    severity="warning",
    summary="A namespace of the stack enforces Pod Security `privileged`.",
    details="Anyone who can create pods in it can act as root on its nodes.",
    change="""
        trainstack:environment:
          namespaces:
            - {name: research, labels: {pod-security.kubernetes.io/enforce: privileged}}
    """,
    remedy="Use `baseline` or `restricted`.",
)
def namespace_privileged(scene: Scene) -> Iterator[Violation]:
    for path, namespace in each("environment.namespaces", scene.settings.environment.namespaces):
        if enforced(namespace) == "privileged":
            message = "enforces Pod Security level privileged: its pods can take over their nodes"
            place = child(f"{path}.labels", f"{POD_SECURITY}enforce")
            yield Violation(place, message, "write baseline or restricted")


@Rule(
    id="prepare-missing",
    severity="warning",
    summary="`prepare` of a run's data is not a module of the repository.",
    details="`trainstack up` cannot run it when the volume lacks the data.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, data: {prepare: workloads/digits/prepare.py}}
    """,
    remedy=(
        "Name the module as for `python -m` (`workloads.digits.prepare`), or remove `prepare` and upload the data "
        "with `trainstack upload`."
    ),
)
def prepare_missing(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        module = run.data.prepare if run.data else None
        if module is not None:
            file = scene.root.joinpath(*module.split("."))
            if not re.fullmatch(r"\w+(\.\w+)*", module):
                message, remedy = f"{module} is not the name of a module", "write one such as workloads.digits.prepare"
            elif not file.with_name(f"{file.name}.py").is_file() and not (file / "__main__.py").is_file():
                message = f"there is no module {module}"
                remedy = f"write {module.replace('.', '/')}.py, or leave out prepare and upload the data"
            else:
                continue
            yield Violation(f"{path}.data.prepare", message, remedy)


@Rule(
    id="path-upward",
    severity="warning",
    summary="A path contains `..`.",
    details="It leaves the folder or volume that it is relative to.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, workingDir: /opt/../digits}
    """,
    remedy="Write the path without `..`.",
)
def path_upward(scene: Scene) -> Iterator[Violation]:
    for path, text in _paths(scene):
        if ".." in text.split("/"):
            message = f"{text} contains '..'"
            yield Violation(path, message, "write the path without '..'")


@Rule(
    id="mount-hides-system",
    severity="warning",
    summary="A volume is mounted over a system folder of the image, such as `/etc` or `/usr`.",
    details="It hides the files of the image.",
    change="""
        trainstack:storage:
          volumes:
            - {name: data, namespace: research, storageClass: shared, size: 1Gi, accessModes: [ReadWriteMany]}
        trainstack:workloads:
          runs:
            - name: digits
              volumes: [{volume: training, mountPath: /mnt/training}, {volume: data, mountPath: /etc}]
    """,
    remedy="Mount the volume below `/mnt` or `/data`.",
)
def mount_hides_system(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        for pods in pod_sets(path, run):
            for index, mount in enumerate(pods.mounts):
                if mount.mount_path.rstrip("/") in _SYSTEM_FOLDERS:
                    message = f"{mount.mount_path} is a system folder of the image, and the volume would hide its files"
                    place = f"{pods.mounts_path}[{index}].mountPath"
                    yield Violation(place, message, "mount it below /mnt or /data")


@Rule(
    id="secret-undecryptable",
    severity="warning",
    summary="A value of a Secret is not a ciphertext of the Pulumi engine.",
    details=(
        "The change would fail when the engine decrypts it. The value may be the secret itself in plain text, so "
        "the finding never prints it."
    ),
    change="""
        trainstack:secrets:
          secrets:
            - name: git
              namespace: research
              type: Opaque
              values: {password: {secure: hunter2}}
    """,
    remedy=(
        "Set it with `pulumi config set --secret --path`. If the file held the secret, rotate the secret at its source."
    ),
)
def secret_undecryptable(scene: Scene) -> Iterator[Violation]:
    for path, secret in each("secrets.secrets", scene.settings.secrets.secrets):
        for key, value in secret.values.items():
            if not _is_ciphertext(value.secure):
                message = "is not a ciphertext of the engine, so it cannot be decrypted"
                remedy = "set it with `pulumi config set --secret --path`; if the file holds the secret, rotate it"
                yield Violation(child(f"{path}.values", key), message, remedy)


@Rule(
    id="stop-unknown",
    severity="warning",
    summary="An entry of `workloads.stop` is not a run id, or is similar to the name of a declared run.",
    details="A preview also notes well-formed ids that match no run.",
    change="""
        trainstack:workloads:
          stop: [digits]
    """,
    remedy="Use the id that `trainstack status` shows.",
)
def stop_unknown(scene: Scene) -> Iterator[Violation]:
    settings = scene.settings
    names = {*(run.name for run in settings.workloads.runs), *(sweep.name for sweep in settings.sweeps.sweeps)}
    for index, word in enumerate(settings.workloads.stop):
        found = _RUN_ID.fullmatch(word)
        close = _slip_of(found["name"], names) if found else None
        if found is None:
            message, remedy = (
                f"{word} is not a run id",
                "write the id that `trainstack status` shows, name and 10 digits",
            )
        elif close is not None:
            message, remedy = f"no run is named {found['name']}", f"did you mean {close}{word[-11:]}?"
        else:
            continue
        yield Violation(f"workloads.stop[{index}]", message, remedy)


@Rule(
    id="discard-unknown",
    severity="warning",
    summary="An entry of `storage.discard` is in an unknown namespace, or is similar to the name of a declared claim.",
    change="""
        trainstack:storage:
          discard: [research/trainin]
    """,
    remedy="Correct the entry or remove it.",
)
def discard_unknown(scene: Scene) -> Iterator[Violation]:
    storage, environment = scene.settings.storage, scene.settings.environment
    known = {claim.namespace for claim in storage.volumes} | {one.name for one in environment.namespaces}
    known |= {*environment.existing.namespaces, *ALWAYS_THERE}
    for index, word in enumerate(storage.discard):
        namespace, _, name = word.partition("/")
        close = _slip_of(name, {claim.name for claim in storage.volumes if claim.namespace == namespace})
        if namespace not in known or close is not None:
            message = f"no claim is {word}" if namespace in known else f"no namespace is {namespace}"
            remedy = f"did you mean {namespace}/{close}?" if close else "correct the entry or remove it"
            yield Violation(f"storage.discard[{index}]", message, remedy)


def _paths(scene: Scene) -> Iterator[tuple[str, str]]:
    """The paths that an environment names, with where it names them."""
    for path, run in scene.runs():
        if run.working_dir is not None:
            yield f"{path}.workingDir", run.working_dir
        if run.image.build is not None:
            yield f"{path}.image.build", run.image.build
        if run.code is not None:
            yield f"{path}.code.mountPath", run.code.mount_path
        if run.record is not None:
            yield f"{path}.record.path", run.record.path
        if run.data is not None:
            yield f"{path}.data.path", run.data.path
            yield f"{path}.data.manifest", run.data.manifest
        for pods in pod_sets(path, run):
            yield from ((f"{pods.mounts_path}[{i}].mountPath", mount.mount_path) for i, mount in enumerate(pods.mounts))
    for name, install in scene.settings.operators.installs.items():
        if install.manifest.path is not None:
            yield f"operators.{SETTING_OF_INSTALL.get(name, name)}.manifest.path", install.manifest.path


def _is_ciphertext(text: str) -> bool:
    """Whether it has the form that the engine writes: `v1:<nonce>:<ciphertext>`, or of its service base64 alone."""
    try:
        return len(b64decode(text.removeprefix("v1:").rpartition(":")[2], validate=True)) >= _SHORTEST_CIPHERTEXT
    except ValueError:
        return False


def _slip_of(word: str, known: set[str]) -> str | None:
    """The known name that is nearly the word; None where the word is known, or like none.

    Names that differ in their digits (`digits`, `digits-2`) are meant to differ.
    """
    alike = get_close_matches(word, sorted(known), 1, _ALIKE) if word not in known else []
    return next((name for name in alike if re.sub(r"\D", "", name) == re.sub(r"\D", "", word)), None)


RULES: tuple[Check[Scene], ...] = (
    queue_left_out,
    namespace_privileged,
    prepare_missing,
    path_upward,
    mount_hides_system,
    secret_undecryptable,
    stop_unknown,
    discard_unknown,
)
