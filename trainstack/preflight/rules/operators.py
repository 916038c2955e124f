"""The installs against what the runs need of them, and against the files at hand."""

from collections.abc import Iterator
from hashlib import sha256

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene
from trainstack.preflight.versions import clashes, version
from trainstack.runs.manifests.trainjob import misfits
from trainstack.runs.status.kinds import framework_of
from trainstack.settings.errors import nearest
from trainstack.settings.sections.operators import Manifest

_FRAMEWORKS = (
    "batch/job",
    "deployment",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "statefulset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
"""The integrations of Kueue v0.15.2. Source: FrameworkName in its pkg/controller/jobs."""
_SCHEMES = {"PyTorchJob": "pytorchjob"}
"""The training operator's name of each kind that is its own."""
SETTING_OF_INSTALL = {"training-operator": "trainingOperator"}
"""Where a release's name is not the setting's."""


@Rule(
    id="framework-unlisted",
    severity="error",
    may_be=("unknown",),
    summary="A queued run is of a kind that Kueue does not manage.",
    details=(
        "The run would start at once, outside every quota. With `--cluster` the rule reads the configuration of a "
        "Kueue that the environment does not declare."
    ),
    change="""
        trainstack:operators:
          kueue: {configuration: {frameworks: [batch/job]}}
    """,
    remedy=(
        "Add the kind to `operators.kueue.configuration.frameworks`, ask the cluster's owner to add it to "
        "`integrations.frameworks` of Kueue's configuration, or use another kind."
    ),
    formerly=("framework-unmanaged",),
)
def framework_unlisted(scene: Scene) -> Iterator[Violation]:
    kueue = scene.settings.operators.kueue
    for path, run in scene.runs() if kueue else ():
        framework = framework_of(run)
        if kueue and run.queue is not None and framework not in kueue.configuration.frameworks:
            message = f"Kueue does not manage a {run.kind}: it would start at once, past every quota"
            remedy = f"add {framework} to operators.kueue.configuration.frameworks"
            yield Violation(f"{path}.kind", message, remedy)


@Rule(
    id="framework-unknown",
    severity="error",
    summary="Kueue's configuration lists a framework that Kueue does not have, or lists one twice.",
    details="The Kueue controller would fail to start.",
    change="""
        trainstack:operators:
          kueue: {configuration: {frameworks: [batch/jobs, kubeflow.org/pytorchjob]}}
    """,
    remedy="Use Kueue's names: `batch/job`, `kubeflow.org/pytorchjob`, `trainer.kubeflow.org/trainjob`, ….",
    silenceable=False,
)
def framework_unknown(scene: Scene) -> Iterator[Violation]:
    kueue = scene.settings.operators.kueue
    listed = kueue.configuration.frameworks if kueue else ()
    for index, framework in enumerate(listed):
        path = f"operators.kueue.configuration.frameworks[{index}]"
        if framework not in _FRAMEWORKS:
            message = f"{framework} is no framework of Kueue, whose controller would not start"
            yield Violation(path, message, nearest(framework, _FRAMEWORKS))
        elif framework in listed[:index]:
            message = f"{framework} is listed twice, and Kueue's controller would not start"
            yield Violation(path, message, "list it once")


@Rule(
    id="version-clash",
    severity="error",
    may_be=("warning",),
    summary="Releases of operators are known not to work with each other, or with what the runs require.",
    details=(
        "An error if a run would never start, a warning if it runs with the wrong quota. One example is Kueue v0.15 "
        "with Trainer v2.2, which reads the placement of a TrainJob's pods from another field: no queued TrainJob "
        "starts. With `--cluster` the rule also looks at releases that run and are not declared."
    ),
    change="""
        trainstack:operators:
          kueue: {manifest: {version: v0.14.4}}
    """,
    remedy="Pin versions that work together, as `defaults.yaml` does, or ask the owner of the operator to upgrade.",
    formerly=("operator-version",),
)
def version_clash(scene: Scene) -> Iterator[Violation]:
    installs = scene.settings.operators.installs
    versions = {name: found for name, install in installs.items() if (found := version(install.manifest.version))}
    for clash in clashes(versions, [run for _, run in scene.runs()]):
        path = f"operators.{SETTING_OF_INSTALL.get(clash.operators[0], clash.operators[0])}.manifest.version"
        yield Violation(path, clash.message, clash.remedy, clash.severity)


@Rule(
    id="queue-missing",
    severity="error",
    summary="A run has no queue, and Kueue also suspends runs without a queue (`manageJobsWithoutQueueName: true`).",
    details="The run would wait forever.",
    change="""
        trainstack:operators:
          kueue: {configuration: {manageJobsWithoutQueueName: true}}
        trainstack:workloads:
          runs:
            - {name: digits, queue: null}
    """,
    remedy="Add `queue:`.",
)
def queue_missing(scene: Scene) -> Iterator[Violation]:
    kueue = scene.settings.operators.kueue
    for path, run in scene.runs() if kueue and kueue.configuration.manage_jobs_without_queue_name else ():
        if kueue and run.queue is None and framework_of(run) in kueue.configuration.frameworks:
            message = "names no queue, and manageJobsWithoutQueueName holds it for ever"
            yield Violation(path, message, "add `queue:`")


@Rule(
    id="scheme-missing",
    severity="error",
    summary="The training operator is installed without the kind of a run.",
    details="The cluster would not serve the kind.",
    change="""
        trainstack:operators:
          trainingOperator: {schemes: [tfjob]}
    """,
    remedy="Add the kind to `operators.trainingOperator.schemes`.",
)
def scheme_missing(scene: Scene) -> Iterator[Violation]:
    operator = scene.settings.operators.training_operator
    for path, run in scene.runs() if operator else ():
        scheme = _SCHEMES.get(run.kind)
        if operator and scheme is not None and scheme not in operator.schemes:
            message = f"the training operator is installed without {scheme}: the cluster has no {run.kind}"
            remedy = f"add {scheme} to operators.trainingOperator.schemes"
            yield Violation(f"{path}.kind", message, remedy)


@Rule(
    id="jobset-missing",
    severity="error",
    summary="Trainer is installed without JobSet.",
    details="Trainer creates JobSets for its TrainJobs, and its controller exits on a cluster without that kind.",
    change="""
        trainstack:operators:
          trainer: {}
    """,
    remedy="Add `jobset: {}` to `operators`.",
)
def jobset_missing(scene: Scene) -> Iterator[Violation]:
    operators = scene.settings.operators
    if operators.trainer and not operators.jobset:
        message = "Trainer makes JobSets of TrainJobs, and JobSet is not installed"
        yield Violation("operators.trainer", message, "add `jobset: {}` to operators")


@Rule(
    id="trainjob-misfit",
    severity="error",
    summary="A TrainJob cannot express a setting of the run.",
    details=(
        "All nodes of a TrainJob are alike, so roles must not differ. They restart `Never` or `OnFailure`, and "
        "Trainer sets the variables `PET_…` itself."
    ),
    change="""
        trainstack:operators:
          kueue: {configuration: {frameworks: [trainer.kubeflow.org/trainjob]}}
          trainer: {}
          jobset: {}
        trainstack:workloads:
          runs:
            - {name: digits, kind: TrainJob, roles: {Worker: {args: [--epochs=1]}}}
    """,
    remedy="Use the same setting in all roles, remove what the message names, or use `kind: PyTorchJob`.",
    silenceable=False,
)
def trainjob_misfit(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        for misfit in misfits(run) if run.kind == "TrainJob" else ():
            yield Violation(f"{path}.{misfit.path}", misfit.problem, misfit.remedy)


@Rule(
    id="manifest-missing",
    severity="error",
    summary="The file of a release manifest does not exist.",
    change="""
        trainstack:operators:
          kueue: {manifest: {path: .trainstack/manifests/kueue.yaml}}
    """,
    remedy="Run `make tools`.",
    silenceable=False,
)
def manifest_missing(scene: Scene) -> Iterator[Violation]:
    for path, manifest in _manifests(scene):
        if manifest.path is not None and not (scene.root / manifest.path).is_file():
            yield Violation(f"{path}.path", f"there is no file {manifest.path}", "run `make tools`")


@Rule(
    id="manifest-mismatch",
    severity="error",
    summary="The file of a release manifest does not have the pinned `sha256`.",
    details="Nothing of it is installed.",
    example="The file was edited, or a new version was pinned with the old digest.",
    remedy="Run `make tools`, or pin the new digest if the change is intended.",
    silenceable=False,
)
def manifest_mismatch(scene: Scene) -> Iterator[Violation]:
    for path, manifest in _manifests(scene):
        file = scene.root / manifest.path if manifest.path else None
        if file is None or not file.is_file():
            continue
        found = sha256(file.read_bytes()).hexdigest()
        if found != manifest.sha256:
            message = f"{manifest.path} has the sha256 {found}, not {manifest.sha256}"
            remedy = "run `make tools`, or pin the new bytes if they are meant"
            yield Violation(f"{path}.sha256", message, remedy)


def _manifests(scene: Scene) -> Iterator[tuple[str, Manifest]]:
    for name, install in scene.settings.operators.installs.items():
        yield f"operators.{SETTING_OF_INSTALL.get(name, name)}.manifest", install.manifest


RULES: tuple[Check[Scene], ...] = (
    framework_unlisted,
    framework_unknown,
    queue_missing,
    scheme_missing,
    jobset_missing,
    version_clash,
    trainjob_misfit,
    manifest_missing,
    manifest_mismatch,
)
