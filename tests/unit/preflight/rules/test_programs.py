"""What the wrapper refuses, and what nothing expands, is found before anything is queued."""

import random
from typing import Any

import pytest

from tests.unit.make import (
    make_distributed,
    make_expansion,
    make_run,
    make_settings,
    make_space,
    make_sweeps,
)
from tests.unit.preflight.cases import ROOT
from tests.unit.runs.manifests.test_job import environment
from trainstack.preflight import file_checks
from trainstack.preflight.file_checks import check
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.wrapper.run import WrapperError, parse_command
from trainstack.settings.model import Settings
from trainstack.settings.sections.secrets import SecretValue
from trainstack.settings.sections.workloads import ReplicatedJob, Role, Workload
from trainstack.stack_objects.stack_objects import StackObjects

RULES = ("program-refused", "variable-unexpanded")
SPELLINGS = ("${}", "${{{}}}", "$({})")
KNOWN = ("TRAINSTACK_OUTPUT", "TRAINSTACK_CHECKPOINT", "TRAINSTACK_RESUME", "TRAINSTACK_RUN_ID")


def found(settings: Settings) -> list[Finding]:
    """Return the findings of these rules alone."""
    checks = [file_checks.RULES[rule] for rule in RULES]
    context = RuleContext(StackObjects(settings), ROOT)
    return [Finding.from_violation(each.rule, violation) for each in checks for violation in each.find(context)]


def places(run: Workload) -> list[tuple[str, str, str]]:
    """Return the rule, severity and path of the findings about a run."""
    return [(finding.id, finding.severity, finding.path) for finding in found(make_settings(run))]


def make_unmanaged(**changes: Any) -> Workload:
    return make_run(**{"managed": False, "record": None, **changes})


def refused(place: str) -> list[tuple[str, str, str]]:
    return [("program-refused", "error", f"workloads.runs[train].{place}")]


def unexpanded(place: str, severity: str = "error") -> list[tuple[str, str, str]]:
    return [("variable-unexpanded", severity, f"workloads.runs[train].{place}")]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_promised_variables_may_be_written_in_every_spelling(spelling: str) -> None:
    """In command and arguments, alone or within a text, with and without a shell."""
    for name in (*KNOWN, "TRAINSTACK_SEED"):
        text = f"--x={spelling.format(name)}/y"
        assert places(make_run(args=(text,), seed=1)) == []
        assert places(make_run(command=("python3", text), seed=1)) == []
        assert places(make_run(command=("sh", "-c", f"exec python3 train.py {text}"), seed=1)) == []


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["TRAINSTACK_OUTPTU", "TRAINSTACK_OUTPUTS", "TRAINSTACK_SEED", "TRAINSTACK_POD"])
def test_what_the_wrapper_does_not_know_is_refused(spelling: str, name: str) -> None:
    """The run has no seed. A shell does not help: the wrapper reads its script, too."""
    text = spelling.format(name)
    assert places(make_run(args=(text,))) == refused("args")
    assert places(make_run(command=("sh", "-c", f"train {text}"))) == refused("command")
    roles = {"Master": Role(), "Worker": Role(replicas=2, args=(text,))}
    assert places(make_distributed(roles=roles)) == refused("roles.Worker.args")
    (finding,) = found(make_settings(make_run(args=(text,))))
    assert finding.message.startswith(f"unknown variables in the command: ${name}; valid are $TRAINSTACK_OUTPUT")


def test_a_reference_that_kubernetes_makes_counts() -> None:
    """It replaces `$$` by `$`, and `$(NAME)` by the value of a variable."""
    assert places(make_run(args=("$$TRAINSTACK_OUTPTU",))) == refused("args")
    assert places(make_run(args=("$(TO)",), env={"TO": "$$TRAINSTACK_OUTPTU"}))[:1] == refused("args")
    assert places(make_run(args=("$$(TRAINSTACK_OUTPUT)",))) == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TRAINSTACK_DATA_TIMEOUT", "soon"), ("TRAINSTACK_STALE_SECONDS", "1m"), ("RANK", "one"), ("RANK", "")],
)
def test_variables_that_the_wrapper_reads_have_valid_values(variable: str, value: str) -> None:
    expected = [] if value == "" else refused("env")
    assert places(make_run(env={variable: value})) == expected
    assert places(make_run(env={variable: "7"})) == []


@pytest.mark.parametrize("name", ["TRAINSTACK_TRIALS", "TRAINSTACK_SWEEP", "TRAINSTACK_DATA", "TRAINSTACK_ANYTHING"])
def test_other_variables_of_that_prefix_are_reserved(name: str) -> None:
    """The wrapper of a run without data or a sweep would take them for the stack's."""
    findings = check(make_settings(make_run(env={name: "x"})), ROOT)
    assert [(finding.id, finding.path) for finding in findings] == [("env-reserved", "workloads.runs[train].env")]
    assert check(make_settings(make_unmanaged(env={name: "x"})), ROOT) == []


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_unmanaged_run_has_no_variables_of_the_wrapper(spelling: str) -> None:
    """With a default a shell has a value; and the run may set the variable itself."""
    text = spelling.format("TRAINSTACK_OUTPUT")
    assert places(make_unmanaged(args=(text,))) == unexpanded("args")
    assert places(make_unmanaged(command=("sh", "-c", f"train {text}"))) == unexpanded("command")
    assert places(make_unmanaged(command=("sh", "-c", "train ${TRAINSTACK_OUTPUT:-/tmp}"))) == []
    own = make_unmanaged(command=("sh", "-c", f"train {text}"), env={"TRAINSTACK_OUTPUT": "/tmp"})
    assert places(own) == []


@pytest.mark.parametrize("managed", [True, False])
def test_every_program_has_the_seed_of_its_workload(*, managed: bool) -> None:
    """An unmanaged one as a variable of its pod, which a shell or Kubernetes expands."""
    make = make_run if managed else make_unmanaged
    assert environment(make(seed=7))["TRAINSTACK_SEED"] == "7"
    assert "TRAINSTACK_SEED" not in environment(make(env={"A": "b"}))
    for spelling in SPELLINGS:
        text = spelling.format("TRAINSTACK_SEED")
        assert places(make(command=("sh", "-c", f"train {text}"), seed=7)) == []
        plain = places(make(args=(text,), seed=7))
        assert plain == ([] if managed or spelling == "$({})" else unexpanded("args"))
    assert environment(make_unmanaged(seed=7, env={"TRAINSTACK_SEED": "8"}))["TRAINSTACK_SEED"] == "8"


def test_only_a_shell_knows_operators() -> None:
    """A managed program without one gets the text."""
    text = "${TRAINSTACK_OUTPUT%/}/model"
    assert places(make_run(command=("bash", "-ec", f"train {text}"))) == []
    assert places(make_run(args=(text,))) == unexpanded("args")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_variables_in_variables_are_not_replaced(spelling: str) -> None:
    """The stack's variables are set after the run's own."""
    run = make_run(env={"TO": spelling.format("TRAINSTACK_OUTPUT")})
    assert places(run) == unexpanded("env.TO")
    roles = {"Master": Role(), "Worker": Role(replicas=2, env={"TO": spelling.format("TRAINSTACK_RUN_ID")})}
    assert places(make_distributed(roles=roles)) == unexpanded("roles.Worker.env.TO")


@pytest.mark.parametrize(
    ("env", "finding"),
    [
        ({"A": "x", "B": "$(A)/y"}, []),
        ({"B": "$(A)/y", "A": "x"}, unexpanded("env.B", "warning")),
        ({"A": "x", "B": "$A/y"}, unexpanded("env.B", "warning")),
        ({"A": "x", "B": "${A}/y"}, unexpanded("env.B", "warning")),
        ({"PATH": "$(PATH):/opt"}, unexpanded("env.PATH", "warning")),
        ({"B": "$$(A)", "A": "x"}, []),
        ({"B": "costs 5$"}, []),
        ({"B": "$HOME"}, []),
    ],
)
def test_kubernetes_replaces_earlier_variables_in_variables(env: dict[str, str], finding: list[object]) -> None:
    assert places(make_run(env=env)) == finding


def ranked(command: tuple[str, ...], **changes: Any) -> Workload:
    """Return a distributed run."""
    return make_distributed(command=command, **changes)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
@pytest.mark.parametrize("kind", ["PyTorchJob", "TrainJob", "JobSet"])
def test_the_ranks_of_a_distributed_run_need_a_shell_or_kubernetes(kind: str, name: str) -> None:
    """Their operators, or the stack, set them in the pods."""
    jobs = (ReplicatedJob(name="node", parallelism=2),) if kind == "JobSet" else ()
    changes: dict[str, Any] = {"kind": kind, "replicated_jobs": jobs}
    if jobs:
        changes["roles"] = {}
    for spelling in SPELLINGS[:2]:
        assert places(ranked(("python3", spelling.format(name)), **changes)) == unexpanded("command")
        assert places(ranked(("bash", "-c", f"train {spelling.format(name)}"), **changes)) == []
    assert places(ranked(("python3", f"$({name})"), **changes)) == []
    assert places(make_run(command=("python3", f"${name}"))) == []


def test_variables_of_ones_own_may_be_expanded_by_the_program() -> None:
    """It is only a warning, and none in a shell or where the image's entrypoint, which may be one, is the program."""
    assert places(make_run(args=("$DATA",), env={"DATA": "/x"})) == unexpanded("args", "warning")
    secret = make_run(args=("${KEY}",), secret_env={"KEY": SecretValue(secret="s", key="k")})
    assert places(secret) == unexpanded("args", "warning")
    assert places(make_run(args=("$(DATA)",), env={"DATA": "/x"})) == []
    assert places(make_unmanaged(command=(), args=("$DATA",), env={"DATA": "/x"})) == []
    assert places(make_run(args=("$OTHER",), env={"DATA": "/x"})) == []


def of_sweep(form: str, *, managed: bool = True, **run: Any) -> list[tuple[str, str]]:
    """Return the rule and path of the findings about a sweep."""
    base: dict[str, Any] = {"name": "search", "managed": managed}
    if not managed:
        base["record"] = None
    changes: dict[str, Any] = {"form": form, "run": make_run(**base, **run)}
    if form == "indexed":
        changes["parallelism"] = 2
    return [(finding.id, finding.path) for finding in found(make_settings(sweeps=make_sweeps(**changes)))]


@pytest.mark.parametrize("form", ["jobs", "indexed"])
def test_the_number_of_a_trial_is_expanded_by_a_shell(form: str) -> None:
    """Kubernetes knows it in form `jobs` alone: in form `indexed` the wrapper sets it in the pod."""
    path = "sweeps.sweeps[search].run.args"
    assert of_sweep(form, args=("$JOB_ID",)) == [("variable-unexpanded", path)]
    assert of_sweep(form, args=("${JOB_ID}",)) == [("variable-unexpanded", path)]
    assert of_sweep(form, command=("sh", "-c", "train $JOB_ID ${JOB_ID}")) == []
    assert of_sweep(form, args=("$(JOB_ID)",)) == ([] if form == "jobs" else [("variable-unexpanded", path)])
    if form == "jobs":
        assert of_sweep(form, managed=False, args=("$JOB_ID",)) == [("variable-unexpanded", path)]
        assert of_sweep(form, managed=False, args=("$(JOB_ID)",)) == []
        env_path = "sweeps.sweeps[search].run.env.N"
        assert of_sweep(form, managed=False, env={"N": "$(JOB_ID)"}) == [("variable-unexpanded", env_path)]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("--to=$TRAINSTACK_OUTPUT/${parameters.batch_size}", False),
        ("--to=$TRAINSTACK_OUTPTU/${parameters.batch_size}", True),
        ("--to=$TRAINSTACK_OUTPUT${parameters.batch_size}", True),
        ("--seed=$TRAINSTACK_SEED ${parameters.batch_size}", True),
    ],
)
def test_the_arguments_of_a_set_are_checked(text: str, refusal: bool) -> None:
    """In an Indexed Job the wrapper reads them only in the pod."""
    space = make_space(args=(text,))
    sweeps = make_sweeps(space=space, expansion=make_expansion(space=space))
    paths = [finding.path for finding in found(make_settings(sweeps=sweeps))]
    assert paths == (["sweeps.sweeps[search].space.args"] if refusal else [])


def test_the_variables_of_a_set_are_not_expanded() -> None:
    """Neither the wrapper nor a shell reads them."""
    space = make_space(env={"TO": "$TRAINSTACK_OUTPUT/${parameters.batch_size}", "N": "${parameters.batch_size}"})
    sweeps = make_sweeps(space=space, expansion=make_expansion(space=space))
    assert [(finding.id, finding.path) for finding in found(make_settings(sweeps=sweeps))] == [
        ("variable-unexpanded", "sweeps.sweeps[search].space.env.TO")
    ]


def test_other_containers_do_not_have_the_programs_variables() -> None:
    sidecar = {"name": "sidecar", "image": "x", "args": ["$TRAINSTACK_OUTPUT"]}
    assert places(make_run(pod_patch={"spec": {"containers": [sidecar]}})) == unexpanded("podPatch")
    own = {**sidecar, "env": [{"name": "TRAINSTACK_OUTPUT", "value": "/x"}]}
    assert places(make_run(pod_patch={"spec": {"initContainers": [own]}})) == []


@pytest.mark.parametrize("seed", range(10))
def test_the_check_refuses_what_the_wrapper_refuses(seed: int) -> None:
    """For drawn commands: by the wrapper's own check of the program that the pod gets."""
    draw = random.Random(seed)
    refusals = []
    names = [*KNOWN, "TRAINSTACK_SEED", "TRAINSTACK_X", "TRAINSTACK_RUN", "HOME", "A"]
    for _ in range(50):
        parts = [draw.choice([*SPELLINGS, "$${}", "{}", "${{{}%x}}"]).format(draw.choice(names)) for _ in range(3)]
        text = draw.choice(["", "/", " ", "_", "x"]).join(parts)
        run = make_run(args=(text,), env={"A": "/a"}, **({"seed": 1} if draw.random() < 0.5 else {}))
        by_kubernetes = text.replace("$$", "$")
        for name, value in environment(run).items():
            by_kubernetes = by_kubernetes.replace(f"$({name})", value) if "$$(" not in text else by_kubernetes
        try:
            parse_command(["--", by_kubernetes], environment(run))
            refusal = False
        except WrapperError:
            refusal = True
        assert any(finding.id == "program-refused" for finding in found(make_settings(run))) is refusal, text
        refusals.append(refusal)
    assert {*refusals} == {True, False}


def test_each_role_and_job_has_its_own_path() -> None:
    """A finding about a role's program is at the role, and one about the shared program at the run."""
    own = Role(replicas=2, args=("--fast",))
    shared = make_distributed(args=("$TRAINSTACK_X",), roles={"Master": Role(), "Worker": own})
    assert places(shared) == refused("args")
    worker = Role(replicas=2, args=("$TRAINSTACK_X",), env={"A": "$TRAINSTACK_OUTPUT"})
    assert places(make_distributed(roles={"Master": Role(args=("x",)), "Worker": worker})) == [
        *refused("roles.Worker.args"),
        *unexpanded("roles.Worker.env.A"),
    ]
    jobs = (ReplicatedJob(name="a", command=("sh", "-c", "$RANK")), ReplicatedJob(name="b", command=("train", "$RANK")))
    run = make_unmanaged(kind="JobSet", replicated_jobs=jobs, env={"RANK": "1"})
    assert places(run) == unexpanded("replicatedJobs[b].command", "warning")


def test_a_patch_may_take_values_from_elsewhere() -> None:
    """They are not in the files."""
    source = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    sidecar = {"name": "sidecar", "image": "x", "env": [source, {"name": "TO", "value": "$(KEY) $TRAINSTACK_OUTPUT"}]}
    assert places(make_run(pod_patch={"spec": {"containers": [sidecar]}})) == unexpanded("podPatch")
    main = {"name": "training", "env": [{"name": "TO", "value": "$TRAINSTACK_OUTPUT"}]}
    assert places(make_run(pod_patch={"spec": {"containers": [main]}})) == unexpanded("podPatch")


def test_only_the_arguments_of_managed_trials_need_the_wrapper() -> None:
    """The seed is one of the sweep's run."""
    space = make_space(args=("--seed=$TRAINSTACK_SEED ${parameters.batch_size}",))
    expansion = make_expansion(space=space)
    for seed, managed, rules in (
        (None, True, ["program-refused"]),
        (1, True, []),
        (None, False, ["variable-unexpanded"]),
    ):
        run = make_run(name="search", seed=seed) if managed else make_unmanaged(name="search", seed=seed)
        settings = make_settings(sweeps=make_sweeps(space=space, expansion=expansion, run=run))
        assert [finding.id for finding in found(settings)] == rules
