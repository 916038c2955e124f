"""What Linux or the API server would refuse because of its size is found in the files."""

import random
from base64 import b64encode
from typing import Any

import pytest

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_expansion,
    make_queues,
    make_run,
    make_secret,
    make_settings,
    make_space,
    make_sweeps,
)
from tests.unit.preflight.cases import ROOT
from trainstack.objects.labels import Manifest
from trainstack.objects.size_limits import stored_bytes
from trainstack.preflight import file_checks
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.variable_expansion import container_program, container_variables
from trainstack.settings.model import Settings
from trainstack.settings.search_space.space import Parameter
from trainstack.settings.sections.environment import Egress, Environment, Namespace, NamespaceNetwork
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import (
    AdmissionCheck,
    CheckParameters,
    ClusterKubeConfig,
    MultiKueueCluster,
    MultiKueueConfig,
    QueueCheck,
)
from trainstack.settings.sections.secrets import Encrypted, Secrets
from trainstack.settings.sections.workloads import ReplicatedJob, Role, Workload
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects

RULES = ("argument-too-long", "object-too-large")
LONGEST = 131_071
MEBIBYTE = 1 << 20


def found(settings: Settings) -> list[Finding]:
    """Return the findings of these rules alone."""
    checks = [file_checks.RULES[rule] for rule in RULES]
    context = RuleContext(StackObjects(settings), ROOT)
    return [Finding.from_violation(each.rule, violation) for each in checks for violation in each.find(context)]


def messages(run: Workload) -> list[tuple[str, str, str]]:
    """Return the rule, path and message of the findings about a run."""
    return [(finding.id, finding.path, finding.message) for finding in found(make_settings(run))]


def make_unmanaged(**changes: Any) -> Workload:
    return make_run(**{"managed": False, "record": None, **changes})


def too_long(subject: str, size: int, most: int = LONGEST) -> list[tuple[str, str, str]]:
    message = f"{subject} of {size:,} bytes; the limit is {most:,}"
    return [("argument-too-long", "workloads.runs[train]", message)]


@pytest.mark.parametrize("managed", [True, False])
def test_an_argument_has_at_most_32_pages(*, managed: bool) -> None:
    """In bytes. The definition of a managed run does not count."""
    make = make_run if managed else make_unmanaged
    assert messages(make(args=("x" * LONGEST,))) == []
    assert messages(make(args=("é" * (LONGEST // 2),))) == []
    shown = f"argument '{'x' * 39}…'"
    assert messages(make(args=("x" * (LONGEST + 1),))) == too_long(shown, LONGEST + 1)
    assert messages(make(args=("x" * LONGEST, "y" * LONGEST, "z" * LONGEST))) == []


@pytest.mark.parametrize("managed", [True, False])
def test_a_variable_counts_with_its_name(*, managed: bool) -> None:
    make = make_run if managed else make_unmanaged
    assert messages(make(env={"NAME": "x" * (LONGEST - 5)})) == []
    assert messages(make(env={"NAME": "x" * (LONGEST - 4)})) == too_long("variable NAME", LONGEST + 1)


def test_an_argument_counts_as_the_program_gets_it() -> None:
    """Kubernetes and the wrapper replace variables, by texts that may be longer than their names."""
    half = "x" * 70_000
    assert messages(make_run(args=("$(A)",), env={"A": half})) == []
    assert messages(make_run(args=("$(A)$(A)",), env={"A": half})) == too_long("argument '" + "x" * 39 + "…'", 140_000)
    assert messages(make_run(args=("$$(A)" * 20_000,), env={"A": half})) == []
    assert messages(make_run(args=("$TRAINSTACK_RUN_ID ", "$TRAINSTACK_OUTPUT" * 100))) == []
    ((rule, _, message),) = messages(make_run(args=("$TRAINSTACK_OUTPUT " * 6_000,)))
    assert rule == "argument-too-long"
    assert message == "argument '/mnt/training/runs/train/99999/attempts…' of 690,000 bytes; the limit is 131,071"


def test_all_arguments_and_variables_together_have_a_limit() -> None:
    """Each has a zero and a pointer, too: many short ones are longer than they look."""
    few, many = make_unmanaged(args=("x",) * 100_000), make_unmanaged(args=("x",) * 215_000)
    assert messages(few) == []
    assert [rule for rule, _, _ in messages(many)] == ["argument-too-long"]
    repeated = make_unmanaged(args=("$(A)",) * 21, env={"A": "x" * 100_000})
    assert [message for _, _, message in messages(repeated)] == [
        "arguments and variables of 2,200,233 bytes; the limit is 2,080,768"
    ]


def test_every_container_of_every_role_counts() -> None:
    """Also those that a patch adds."""
    over = ("x" * (LONGEST + 1),)
    shown = "argument '" + "x" * 39 + "…'"
    worker = Role(replicas=2, args=over)
    assert messages(make_distributed(roles={"Master": Role(), "Worker": worker})) == too_long(shown, LONGEST + 1)
    jobs = (ReplicatedJob(name="a"), ReplicatedJob(name="b", args=over))
    assert messages(make_unmanaged(kind="JobSet", replicated_jobs=jobs)) == too_long(shown, LONGEST + 1)
    for field in ("containers", "initContainers"):
        sidecar = {"name": "sidecar", "image": "x", "args": [*over]}
        assert messages(make_run(pod_patch={"spec": {field: [sidecar]}})) == too_long(shown, LONGEST + 1)
    nodes = make_distributed(kind="TrainJob", args=over)
    assert messages(nodes) == too_long(shown, LONGEST + 1)


def test_the_entrypoint_of_a_rayjob_is_one_argument() -> None:
    """Ray passes the whole program to a shell."""
    changes: dict[str, Any] = {"kind": "RayJob", "roles": {"head": Role()}, "priority": None}
    assert messages(make_unmanaged(args=("x" * 1_000,) * 100, **changes)) == []
    size = len("python3 train.py") + 1_001 * 200
    assert messages(make_unmanaged(args=("x" * 1_000,) * 200, **changes)) == too_long("the entrypoint", size, 122_879)


@pytest.mark.parametrize("managed", [True, False])
def test_a_launch_fits_into_its_ledger(*, managed: bool) -> None:
    """A managed run may have as much as an unmanaged one: its definition takes a few kibibytes at most."""
    make = make_run if managed else make_unmanaged
    assert messages(make(args=("x" * 100_000,) * 10)) == []
    ((rule, path, message),) = messages(make(args=("x" * 105_000,) * 10))
    assert (rule, path) == ("object-too-large", "workloads.runs[train]")
    assert message.startswith("the ledger of train of 1,05")
    assert message.endswith(" bytes; the limit is 1,040,384")


def test_annotations_have_a_limit() -> None:
    """Of the pods, which a controller creates from an object that the API server has accepted."""
    annotations = {f"example.org/{number:03}": "x" * 1_000 for number in range(256)}
    ((rule, path, message),) = messages(make_distributed(annotations=annotations))
    assert (rule, path) == ("object-too-large", "workloads.runs[train]")
    assert message == "annotations of the pods of train of 259,840 bytes; the limit is 258,048"
    assert messages(make_distributed(annotations=dict([*annotations.items()][:250]))) == []
    patch = {"metadata": {"annotations": {**annotations, "example.org/more": "x" * 10_000}}}
    assert [rule for rule, _, _ in messages(make_run(pod_patch=patch))] == ["object-too-large"]


def test_an_object_also_has_the_paths_of_its_fields() -> None:
    """The API server keeps them for server-side apply: of many short variables they are longer than these."""
    env = {f"N{number:05}": "x" for number in range(20_000)}
    ((rule, _, message),) = messages(make_unmanaged(env=env))
    assert rule == "object-too-large"
    assert message.startswith("Job train, with the paths of its fields, of 1,8")
    assert messages(make_unmanaged(env=dict([*env.items()][:15_000]))) == []


def test_the_values_of_a_secret_have_a_limit() -> None:
    """The file has their ciphertexts."""
    large = Encrypted(secure=f"v1:MTIz:{b64encode(b'x' * (600 << 10)).decode()}")
    secrets = Secrets(secrets=(make_secret(type="Opaque", values={"a": large, "b": large}),))
    (finding,) = found(make_settings(secrets=secrets))
    assert (finding.path, finding.message) == (
        "secrets.secrets[git]",
        "values of 1,228,768 bytes; the limit is 1,048,576",
    )
    small = Secrets(secrets=(make_secret(type="Opaque", values={"a": large, "b": Encrypted(secure="not base64!")}),))
    assert found(make_settings(secrets=small)) == []


def test_objects_of_the_platform_count() -> None:
    """Such as the policy of a namespace with many networks."""
    blocks, ports = [f"10.0.{low}.0/24" for low in range(256)], tuple(range(20_000, 20_240))
    for number, paths in ((10, []), (len(blocks), ["environment.namespaces"])):
        network = NamespaceNetwork(egress=tuple(Egress(cidr=block, ports=ports) for block in blocks[:number]))
        environment = Environment(namespaces=(Namespace(name="research", network=network),))
        assert [finding.path for finding in found(make_settings(environment=environment))] == paths


def of_sweep(length: int, **changes: Any) -> list[tuple[str, str]]:
    """Return the rules and paths of the findings about a sweep, one of whose sets has a text of this length."""
    space = make_space(
        parameters={"text": Parameter(categorical=("a", "b" * length, "c"))}, args=("--text=${parameters.text}",)
    )
    expansion = make_expansion(*({"text": text} for text in ("a", "b" * length, "c")), space=space)
    settings = make_settings(sweeps=make_sweeps(space=space, expansion=expansion, **changes))
    return [(finding.id, finding.path) for finding in found(settings)]


@pytest.mark.parametrize("form", ["jobs", "indexed"])
def test_the_trial_with_the_longest_text_counts(form: str) -> None:
    """It is the second of three."""
    changes: dict[str, Any] = {"form": form, **({"parallelism": 2} if form == "indexed" else {})}
    assert of_sweep(LONGEST - len("--text="), **changes) == []
    assert of_sweep(LONGEST, **changes) == [("argument-too-long", "sweeps.sweeps[search].run")]


def dispatching(**changes: Any) -> Settings:
    """Return an environment whose queue MultiKueue dispatches."""
    parameters = CheckParameters(kind="MultiKueueConfig", name="workers")
    check = AdmissionCheck(name="multi", controller_name="kueue.x-k8s.io/multikueue", parameters=parameters)
    queues = make_queues(
        cluster_queues=(make_cluster_queue(admission_checks=(QueueCheck(name="multi"),)),),
        admission_checks=(check,),
        multi_kueue_configs=(MultiKueueConfig(name="workers", clusters=("a",)),),
        multi_kueue_clusters=(MultiKueueCluster(name="a", kube_config=ClusterKubeConfig(location="a")),),
    )
    return make_settings(queues=queues, **changes)


def test_the_files_of_a_dispatched_sweep_share_the_annotations_with_others() -> None:
    """Neither alone is over the limit."""
    space = make_space(parameters={"batch_size": Parameter(values=tuple(range(800)))})
    expansion = make_expansion(*({"batch_size": size} for size in range(800)), space=space)
    for count, rules in ((0, []), (210, ["object-too-large"])):
        annotations = {f"example.org/{number}": "x" * 1_000 for number in range(count)}
        run = make_run(name="search", annotations=annotations)
        sweeps = make_sweeps(form="indexed", parallelism=2, space=space, expansion=expansion, run=run)
        assert sorted({finding.id for finding in found(dispatching(sweeps=sweeps))}) == rules


def test_what_cannot_be_built_is_left_to_other_rules() -> None:
    assert found(make_settings(make_run(env={"TRAINSTACK_OUTPUT": "x" * LONGEST}))) == []
    assert found(make_settings(sweeps=make_sweeps(run=make_run(name="s" * 50), name="s" * 50))) == []
    assert found(make_settings(sweeps=make_sweeps(expansion=None))) == []


def largest(manifests: list[Manifest]) -> tuple[int, int, int]:
    """Return the bytes of the longest argument or variable, of the largest data, and of the largest object."""
    texts = [0]
    for manifest in (each for each in manifests if each["kind"] == "Job"):
        for pods in launched_pods(manifest):
            for container in pods.spec["containers"]:
                texts += [len(text.encode()) for text in container_program(container)]
                texts += [len(f"{name}={value}".encode()) for name, value in container_variables(container).items()]
    data = [sum(len(text.encode()) for text in (each.get("data") or {}).values()) for each in manifests]
    return max(texts), max(data), max(map(stored_bytes, (each for each in manifests if each["kind"] == "Job")))


@pytest.mark.parametrize("seed", range(20))
def test_what_passes_is_within_the_limits(seed: int) -> None:
    """For drawn programs around the limits: if the check passes, everything can be built, and nothing is too large."""
    draw = random.Random(seed)
    outcomes = set()
    for attempt in range(6):
        length = (
            10 if attempt == 0 else draw.choice([10, 1_000, LONGEST - draw.randrange(3), LONGEST + draw.randrange(3)])
        )
        count = draw.choice([1, 7, 8, 10]) if length > 1_000 else draw.randrange(1, 1_100)
        letter = draw.choice(["x", "x", "é", '"', "$"])
        args = tuple(letter * (length // len(letter.encode())) for _ in range(count))
        place = draw.choice(["args", "env"])
        texts: dict[str, Any] = {"args": args}
        if place == "env":
            texts = {"env": {f"N{number}": text for number, text in enumerate(args)}}
        run = draw.choice([make_run, make_unmanaged])(**texts)
        settings = make_settings(run, operators=Operators())
        passes = not found(settings)
        outcomes.add(passes)
        if passes:
            inputs = Inputs(wrapper="print()", commit="c" * 40, images={})
            longest, data, size = largest(StackObjects(settings, inputs).manifests())
            assert longest <= LONGEST
            assert data <= MEBIBYTE
            assert size <= MEBIBYTE * 3 // 2
    assert True in outcomes
