"""The installs against what the runs need of them, and against the files at hand."""

from collections.abc import Iterator
from hashlib import sha256

from checks.finding import Finding
from checks.kinds import framework_of
from checks.scene import Rule, Scene
from checks.versions import clashes, version
from settings.errors import nearest
from settings.operators import Manifest
from workloads.trainjob import misfits

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


def framework_unlisted(scene: Scene) -> Iterator[Finding]:
    """Kueue manages the kind of each run that is queued; else the run starts at once, past every quota."""
    kueue = scene.settings.operators.kueue
    for path, run in scene.runs() if kueue else ():
        framework = framework_of(run)
        if kueue and run.queue is not None and framework not in kueue.configuration.frameworks:
            message = f"Kueue does not manage a {run.kind}: it would start at once, past every quota"
            remedy = f"add {framework} to operators.kueue.configuration.frameworks"
            yield Finding("framework-unlisted", "error", f"{path}.kind", message, remedy)


def framework_unknown(scene: Scene) -> Iterator[Finding]:
    """Kueue knows each of the frameworks that it is told to manage; else its controller ends at its start."""
    kueue = scene.settings.operators.kueue
    listed = kueue.configuration.frameworks if kueue else ()
    for index, framework in enumerate(listed):
        path = f"operators.kueue.configuration.frameworks[{index}]"
        if framework not in _FRAMEWORKS:
            message = f"{framework} is no framework of Kueue, whose controller would not start"
            yield Finding("framework-unknown", "error", path, message, nearest(framework, _FRAMEWORKS))
        elif framework in listed[:index]:
            message = f"{framework} is listed twice, and Kueue's controller would not start"
            yield Finding("framework-unknown", "error", path, message, "list it once")


def version_clash(scene: Scene) -> Iterator[Finding]:
    """The releases to be installed work with each other, and can do what the runs ask of them."""
    installs = scene.settings.operators.installs
    versions = {name: found for name, install in installs.items() if (found := version(install.manifest.version))}
    for clash in clashes(versions, [run for _, run in scene.runs()]):
        path = f"operators.{SETTING_OF_INSTALL.get(clash.operators[0], clash.operators[0])}.manifest.version"
        yield Finding("version-clash", clash.severity, path, clash.message, clash.remedy)


def queue_missing(scene: Scene) -> Iterator[Finding]:
    """Where Kueue also holds what names no queue, every run that it manages names one; else it is held for ever."""
    kueue = scene.settings.operators.kueue
    for path, run in scene.runs() if kueue and kueue.configuration.manage_jobs_without_queue_name else ():
        if kueue and run.queue is None and framework_of(run) in kueue.configuration.frameworks:
            message = "names no queue, and manageJobsWithoutQueueName holds it for ever"
            yield Finding("queue-missing", "error", path, message, "add `queue:`")


def scheme_missing(scene: Scene) -> Iterator[Finding]:
    """The training operator watches the kinds that runs are of."""
    operator = scene.settings.operators.training_operator
    for path, run in scene.runs() if operator else ():
        scheme = _SCHEMES.get(run.kind)
        if operator and scheme is not None and scheme not in operator.schemes:
            message = f"the training operator is installed without {scheme}: the cluster has no {run.kind}"
            remedy = f"add {scheme} to operators.trainingOperator.schemes"
            yield Finding("scheme-missing", "error", f"{path}.kind", message, remedy)


def jobset_missing(scene: Scene) -> Iterator[Finding]:
    """Trainer makes JobSets of TrainJobs: its controller does not run where the cluster has no such kind."""
    operators = scene.settings.operators
    if operators.trainer and not operators.jobset:
        message = "Trainer makes JobSets of TrainJobs, and JobSet is not installed"
        yield Finding("jobset-missing", "error", "operators.trainer", message, "add `jobset: {}` to operators")


def trainjob_misfit(scene: Scene) -> Iterator[Finding]:
    """What a TrainJob has no place for: roles that differ, restarts that a Job does not know."""
    for path, run in scene.runs():
        for misfit in misfits(run) if run.kind == "TrainJob" else ():
            yield Finding("trainjob-misfit", "error", f"{path}.{misfit.path}", misfit.problem, misfit.remedy)


def manifest_missing(scene: Scene) -> Iterator[Finding]:
    """A manifest's file is there."""
    for path, manifest in _manifests(scene):
        if manifest.path is not None and not (scene.root / manifest.path).is_file():
            yield Finding(
                "manifest-missing", "error", f"{path}.path", f"there is no file {manifest.path}", "run `make tools`"
            )


def manifest_mismatch(scene: Scene) -> Iterator[Finding]:
    """A manifest's file has the bytes that the settings name."""
    for path, manifest in _manifests(scene):
        file = scene.root / manifest.path if manifest.path else None
        if file is None or not file.is_file():
            continue
        found = sha256(file.read_bytes()).hexdigest()
        if found != manifest.sha256:
            message = f"{manifest.path} has the sha256 {found}, not {manifest.sha256}"
            remedy = "run `make tools`, or pin the new bytes if they are meant"
            yield Finding("manifest-mismatch", "error", f"{path}.sha256", message, remedy)


def _manifests(scene: Scene) -> Iterator[tuple[str, Manifest]]:
    for name, install in scene.settings.operators.installs.items():
        yield f"operators.{SETTING_OF_INSTALL.get(name, name)}.manifest", install.manifest


RULES: tuple[Rule, ...] = (
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
