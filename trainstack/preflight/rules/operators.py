"""Rules about declared operators: the needs of the runs, their configuration, and the files of their releases."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from semver import Version

from trainstack.files.regular import read_bytes
from trainstack.kueue.differences import RELEASES, release_of
from trainstack.kueue.feature_gates import GROUPS_OF_GATES
from trainstack.kueue.format import describe_rules
from trainstack.kueue.releases import MODELED_MINORS, has_rules
from trainstack.kueue.verdict import Verdict
from trainstack.platform.operators.release import MAX_BYTES
from trainstack.preflight.examples import hello, yaml_at
from trainstack.preflight.operator_facts import OPERATORS, installs_with_paths
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.version_clashes import find_clashes
from trainstack.runs.manifests.trainjob import unsupported_settings
from trainstack.runs.status.launch_kinds import display_kind, framework_of, kind_of_launch, launch_kind
from trainstack.settings.errors import suggest_name
from trainstack.settings.sections.operators import KueueConfiguration
from trainstack.settings.values.kubernetes import STANDARD_RESOURCES, is_container_resource
from trainstack.settings.values.paths import child_path
from trainstack.stack_objects.inputs import is_built
from trainstack.versions import parse_release

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
    "ray.io/rayservice",
    "sparkoperator.k8s.io/sparkapplication",
    "statefulset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
"""Integrations of Kueue v0.19.2. Source: FrameworkName in its pkg/controller/jobs."""
_FIRST_RELEASES = {
    "ray.io/rayservice": Version(0, 17),
    "sparkoperator.k8s.io/sparkapplication": Version(0, 17),
}
"""The first release of an integration that v0.16 does not have."""
TRAINING_OPERATOR_FRAMEWORKS = frozenset(
    f"kubeflow.org/{scheme}" for scheme in ("jaxjob", "paddlejob", "pytorchjob", "tfjob", "xgboostjob")
)
"""Integrations of the training operator's kinds that no other operator serves."""


@Rule(
    id="framework-unlisted",
    may_be=("warning", "unknown"),
    summary="A queued run is of a kind that Kueue does not manage: it would start at once, outside every quota.",
    details=(
        "A Kueue of another owner may have its release's configuration, which no longer enables PyTorchJobs and the "
        "other kinds of the training operator from v0.19 on: a warning if its configuration cannot be read."
    ),
    change=yaml_at("operators", "kueue: {configuration: {frameworks: [kubeflow.org/pytorchjob]}}"),
    remedy=(
        "Add the kind to `operators.kueue.configuration.frameworks`, or have it added to `integrations.frameworks` of "
        "the cluster's Kueue."
    ),
)
def framework_unlisted(context: RuleContext) -> Iterator[Violation]:
    kueue = context.settings.operators.kueue
    for path, run in context.runs() if kueue else ():
        framework = framework_of(run)
        if kueue and run.queue is not None and framework not in kueue.configuration.frameworks:
            message = (
                f"Kueue does not manage kind {display_kind(run)}: the run would start at once, outside every quota"
            )
            remedy = f"add {framework} to operators.kueue.configuration.frameworks"
            yield Violation(f"{path}.kind", message, remedy)


@Rule(
    id="framework-unknown",
    summary="Kueue's configuration lists a framework that Kueue does not have, or one twice.",
    details="The Kueue controller would fail to start.",
    change=yaml_at("operators", "kueue: {configuration: {frameworks: [trainer.kubeflow.org/trainjob, batch/jobs]}}"),
    remedy="Use Kueue's names, such as `batch/job` or `kubeflow.org/pytorchjob`.",
    silenceable=False,
)
def framework_unknown(context: RuleContext) -> Iterator[Violation]:
    kueue = context.settings.operators.kueue
    frameworks = kueue.configuration.frameworks if kueue else ()
    release = parse_release(kueue.manifest.version) if kueue else None
    for index, framework in enumerate(frameworks):
        path = f"operators.kueue.configuration.frameworks[{index}]"
        if framework not in _FRAMEWORKS:
            message = f"unknown Kueue framework {framework!r}; the Kueue controller would fail to start"
            yield Violation(path, message, suggest_name(framework, _FRAMEWORKS))
        elif release and release < (first := _FIRST_RELEASES.get(framework, release)):
            message = f"Kueue v{release} does not have framework {framework}; its controller would fail to start"
            yield Violation(path, message, f"remove it, or install Kueue v{first} or later")
        elif framework in frameworks[:index]:
            message = f"framework {framework} is listed twice; the Kueue controller would fail to start"
            yield Violation(path, message, "list it once")


@Rule(
    id="kueue-unmodelled",
    severity="unknown",
    summary="The verdicts were not compared with the release of Kueue that admits the runs.",
    details=(
        "They are by the rules of the nearest modeled release, and marked. A field or feature gate which that release "
        "does not have makes them `unknown`."
    ),
    example="`operators.kueue.manifest.version: v0.20.7`, or a cluster that runs this release.",
    remedy="Submit the run, and read `trainstack status`.",
)
def kueue_unmodelled(context: RuleContext) -> Iterator[Violation]:
    yield from find_unmodelled_release("operators.kueue.manifest.version", context.verdicts)


def find_unmodelled_release(path: str, verdicts: Iterable[Verdict]) -> Iterator[Violation]:
    """Yield a violation if verdicts are by rules that were not compared with the release."""
    for verdict in verdicts:
        if verdict.not_compared:
            release, rules = verdict.release, describe_rules(verdict.rules, verdict.not_compared)
            yield Violation(path, f"Kueue {release} admits the runs, and the verdicts are by {rules}")
            return


@Rule(
    id="feature-gate-unknown",
    may_be=("unknown",),
    summary="Kueue's configuration sets a feature gate that its release does not have, or that cannot be changed.",
    details=(
        "The Kueue controller would fail to start. `unknown` for a release whose gates were not compared, and for a "
        "patch release if another release has the gate."
    ),
    change=yaml_at("operators", "kueue: {configuration: {featureGates: {LendingLimits: false}}}"),
    remedy="Use the release's names of gates, such as `LendingLimit`, and leave out those that are locked.",
    silenceable=False,
)
def feature_gate_unknown(context: RuleContext) -> Iterator[Violation]:
    kueue = context.settings.operators.kueue
    if kueue is None or not has_rules(kueue.manifest.version):
        return
    version = kueue.manifest.version
    release = release_of(version)
    gates = release.gates
    for name, is_enabled in kueue.configuration.feature_gates.items():
        path = child_path("operators.kueue.configuration.featureGates", name)
        if name not in gates and name not in GROUPS_OF_GATES:
            message, remedy = f"unknown feature gate {name!r}", suggest_name(name, gates)
        elif name in release.locked and is_enabled is not gates[name].default:
            message, remedy = f"feature gate {name} cannot be changed", "leave it out"
        else:
            continue
        is_of_other_release = name not in gates and any(name in RELEASES[minor].gates for minor in MODELED_MINORS)
        if release.not_compared or (release.is_patched and is_of_other_release):
            message = f"{message} in the modeled {release.minor}; whether so in Kueue {version} is unknown"
            yield Violation(path, message, f"read the feature gates of {version}", "unknown")
        else:
            yield Violation(path, f"{message}; the Kueue controller would fail to start", remedy)


@Rule(
    id="transformation-unapplied",
    severity="warning",
    summary="A transformation of Kueue's configuration never applies, has no effect, or applies at random.",
    details=(
        "Kueue removes excluded resources before it transforms requests. It transforms resources that pods request, "
        "not the outputs of other transformations. If pods also request an output, Kueue counts both amounts or only "
        "the request, depending on a random order."
    ),
    change=yaml_at(
        "operators",
        "kueue:",
        "  configuration:",
        "    excludeResourcePrefixes: [nvidia.com/]",
        "    transformations: [{input: nvidia.com/gpu, outputs: {example.com/credits: 4}}]",
    ),
    remedy="Name an `input` that pods request, and `outputs` that they do not request.",
)
def transformation_unapplied(context: RuleContext) -> Iterator[Violation]:
    kueue = context.settings.operators.kueue
    configuration = kueue.configuration if kueue else KueueConfiguration()
    excluded, transformations = configuration.exclude_resource_prefixes, configuration.transformations
    for index, transformation in enumerate(transformations):
        path, name = f"operators.kueue.configuration.transformations[{index}]", transformation.input
        producer_inputs = [
            producer.input for producer in transformations if name in producer.outputs and producer.input != name
        ]
        if prefixes := [prefix for prefix in excluded if name.startswith(prefix)]:
            message = f"{name} is never transformed, because excludeResourcePrefixes excludes {prefixes[0]}"
            yield Violation(f"{path}.input", message, "remove the prefix or the transformation")
        elif not is_container_resource(name) and "kubernetes.io/" not in name:
            message = f"{name} is never transformed, because no container can request it"
            yield Violation(f"{path}.input", message, "name a resource that pods request, such as nvidia.com/gpu")
        elif producer_inputs:
            message = f"{name} is not transformed as an output of the transformation of {', '.join(producer_inputs)}"
            yield Violation(f"{path}.input", message, f"write the outputs for {' and '.join(producer_inputs)} directly")
        elif not transformation.outputs and transformation.strategy == "Retain":
            yield Violation(path, f"{name} is retained, and there are no outputs", "add outputs, or remove it")
        # Faults of outputs do not depend on faults of the input.
        for output in transformation.outputs:
            if output == name and transformation.strategy == "Retain":
                message = f"{name} is retained, which replaces the output of this name"
                yield Violation(child_path(f"{path}.outputs", output), message, "set `strategy: Replace`")
            elif output in STANDARD_RESOURCES and output != name:
                message = f"pods also request {output}, so Kueue adds the output of {name} only at random"
                remedy = "name an output that pods do not request"
                yield Violation(child_path(f"{path}.outputs", output), message, remedy)


@Rule(
    id="queue-missing",
    summary="A run without a queue would wait forever, because of `manageJobsWithoutQueueName: true`.",
    change=yaml_at("operators", "kueue: {configuration: {manageJobsWithoutQueueName: true}}") + hello("queue: null"),
    remedy="Add `queue:`.",
)
def queue_missing(context: RuleContext) -> Iterator[Violation]:
    kueue = context.settings.operators.kueue
    for path, run in context.runs() if kueue and kueue.configuration.manage_jobs_without_queue_name else ():
        if kueue and run.queue is None and framework_of(run) in kueue.configuration.frameworks:
            yield Violation(path, "the run has no queue, and manageJobsWithoutQueueName suspends it forever")


@Rule(
    id="scheme-missing",
    summary="The training operator is installed without the kind of a run.",
    change=yaml_at("operators", "trainingOperator: {schemes: [tfjob]}")
    + hello("kind: PyTorchJob, roles: {Master: {}}"),
    remedy="Add the kind to `operators.trainingOperator.schemes`.",
)
def scheme_missing(context: RuleContext) -> Iterator[Violation]:
    operator = context.settings.operators.training_operator
    for path, run in context.runs() if operator else ():
        framework = framework_of(run)
        scheme = framework.rpartition("/")[2]
        if operator and framework in TRAINING_OPERATOR_FRAMEWORKS and scheme not in operator.schemes:
            kind = display_kind(run)
            message = f"the training operator is installed without {scheme}: the cluster does not serve {kind}"
            yield Violation(f"{path}.kind", message, f"add {scheme} to operators.trainingOperator.schemes")


@Rule(
    id="scheme-clash",
    summary="The training operator is installed with its own version of a run's kind, which another operator serves.",
    details="A CustomResourceDefinition of that name can exist only once.",
    example="`schemes: [pytorchjob, mpijob]`, and `kind: MPIJob` of the MPI operator v2.",
    remedy="Remove the kind from `operators.trainingOperator.schemes`.",
)
def scheme_clash(context: RuleContext) -> Iterator[Violation]:
    operator = context.settings.operators.training_operator
    for path, run in context.runs() if operator else ():
        facts = kind_of_launch(launch_kind(run))
        group, _, scheme = framework_of(run).partition("/")
        is_of_other_operator = facts.operator not in (None, "training-operator")
        if operator and is_of_other_operator and group == "kubeflow.org" and scheme in operator.schemes:
            message = f"the training operator is installed with {scheme}, whose definition is not that of {run.kind}"
            yield Violation(f"{path}.kind", message, f"remove {scheme} from operators.trainingOperator.schemes")


@Rule(
    id="jobset-missing",
    summary="Trainer is installed without JobSet, which it requires.",
    change=yaml_at("operators", "trainer: {}", "jobset: null"),
    remedy="Add `jobset: {}` to `operators`.",
)
def jobset_missing(context: RuleContext) -> Iterator[Violation]:
    operators = context.settings.operators
    if operators.trainer and not operators.jobset:
        yield Violation("operators.trainer", "Trainer requires JobSet, which is not installed")


@Rule(
    id="version-clash",
    may_be=("warning",),
    summary="Releases of operators do not work with each other, or with what the runs require.",
    details="An error if a run would never start, a warning if its quota would be wrong.",
    change=yaml_at("operators", "kueue: {manifest: {version: v0.14.4}}"),
    remedy="Pin versions that work together, as `defaults.yaml` does, or have the operator upgraded.",
)
def version_clash(context: RuleContext) -> Iterator[Violation]:
    declared_installs = context.settings.operators.installs
    versions = {
        name: version
        for name, install in declared_installs.items()
        if (version := parse_release(install.manifest.version))
    }
    for clash in find_clashes(versions, [run for _, run in context.runs()]):
        path = f"{OPERATORS[clash.operators[0]].path}.manifest.version"
        yield Violation(path, clash.message, clash.remedy, clash.severity)


@Rule(
    id="trainjob-misfit",
    summary="A TrainJob cannot express a setting of the run.",
    details="Its nodes have the same settings and restart `Never` or `OnFailure`; Trainer sets `PET_…` variables.",
    example="`kind: TrainJob` with `args` in one role only.",
    remedy="Use the same setting in all roles, remove it, or use `kind: PyTorchJob`.",
    silenceable=False,
)
def trainjob_misfit(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        for misfit in unsupported_settings(run) if run.kind == "TrainJob" else ():
            yield Violation(f"{path}.{misfit.path}", misfit.problem, misfit.remedy)


@Rule(
    id="manifest-missing",
    may_be=("unknown",),
    summary="The file of a release manifest does not exist, or cannot be downloaded.",
    details=(
        "`unknown` if it has not been built on this machine, or if the network may be the cause: the objects of the "
        "release were not checked. `trainstack up` builds the manifests in `.trainstack/manifests`; "
        "`trainstack dev tools manifests` builds them without it."
    ),
    change=yaml_at("operators", "kueue: {manifest: {url: null, path: releases/kueue.yaml}}"),
    remedy="Correct the path, or name an address: `manifest: {path: null, url: …, sha256: …}`.",
    silenceable=False,
)
def manifest_missing(context: RuleContext) -> Iterator[Violation]:
    for path, install in installs_with_paths(context.settings):
        file = install.manifest.path
        if file is None or (context.root / file).is_file():
            continue
        if is_built(install):
            message = f"{install.manifest.version} is not built yet, so its objects were not checked"
            yield Violation(f"{path}.manifest.path", message, "`trainstack up` builds it (3 minutes)", "unknown")
        else:
            yield Violation(f"{path}.manifest.path", f"file {file} does not exist")


@Rule(
    id="manifest-mismatch",
    summary="The file of a release manifest, or the one at its address, does not have the pinned `sha256`.",
    example="A new version with the old digest.",
    remedy="Run `trainstack dev tools`, or pin the new digest if the change is intended.",
    silenceable=False,
)
def manifest_mismatch(context: RuleContext) -> Iterator[Violation]:
    for path, install in installs_with_paths(context.settings):
        manifest = install.manifest
        file = context.root / manifest.path if manifest.path else None
        if file is None or not file.is_file():
            continue
        try:
            digest = sha256(read_bytes(file, MAX_BYTES)).hexdigest()
        except OSError as error:
            yield Violation(f"{path}.manifest.path", f"{manifest.path} cannot be read: {error.strerror or error}")
            continue
        if digest != manifest.sha256:
            message = f"{manifest.path} has sha256 {digest}, not {manifest.sha256}"
            yield Violation(f"{path}.manifest.sha256", message)
