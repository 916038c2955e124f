"""The limits of names of launches."""

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.sweeps.planned_sweeps import make_planned
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import PLACEHOLDER_FACTS
from trainstack.runs.manifests.build import check_names, longest_derived_name, plan_launch
from trainstack.runs.names import launch_name, object_name, prefix_of_run, run_id, run_prefix
from trainstack.settings.sections.workloads import ReplicatedJob, Role, Workload

DIGEST = "0123456789abcdef"


def name_of(workload: str) -> str:
    """Return the name of a launch of this workload."""
    return launch_name(run_id(workload, DIGEST), DIGEST)


def test_names_have_the_prefix_of_their_digests() -> None:
    """Ten digits of the run, six of the launch."""
    assert name_of("digits") == "digits-0123456789-012345"


def test_the_longest_child_of_each_kind() -> None:
    """Controllers derive names of children from a launch's name."""
    roles = {"Master": Role(), "Worker": Role(replicas=100)}
    assert longest_derived_name(make_distributed(), "x") == "x-master-0"
    assert longest_derived_name(make_distributed(roles=roles), "x") == "x-worker-99"
    assert longest_derived_name(make_distributed(kind="TrainJob", roles=roles), "x") == "x-node-0-100-xxxxx"
    jobs = (ReplicatedJob(name="driver"), ReplicatedJob(name="a", replicas=1001, parallelism=1001))
    assert (
        longest_derived_name(make_run(kind="JobSet", managed=False, replicated_jobs=jobs), "x") == "x-a-1000-1000-xxxxx"
    )
    assert longest_derived_name(make_run(), "x") == "x-xxxxx"
    assert longest_derived_name(make_run(completions=11), "x") == "x-10-xxxxx"
    assert longest_derived_name(make_run(completions=11, managed=False), "x") == "x-xxxxx"


@pytest.mark.parametrize(
    ("workload", "limit"),
    [
        (make_run(), 39),
        (make_run(completions=11), 36),
        (make_distributed(), 36),
        (make_distributed(workers=11), 35),
        (make_distributed(roles={"Master": Role()}), 36),
        (make_distributed(kind="TrainJob"), 30),
        (make_run(kind="JobSet", replicated_jobs=(ReplicatedJob(name="node"),)), 30),
    ],
)
def test_a_name_may_be_as_long_as_its_longest_child_allows(workload: Workload, limit: int) -> None:
    """A longer name is refused with the limit and the remedy."""
    check_names(workload, name_of("n" * limit))
    with pytest.raises(WorkloadError, match=r"with 64 characters, and Kubernetes allows 63; shorten .* by 1$"):
        check_names(workload, name_of("n" * (limit + 1)))


@pytest.mark.parametrize("kind", ["PyTorchJob", "TrainJob"])
def test_the_name_of_a_run_with_a_service_must_start_with_a_letter(kind: str) -> None:
    """Operators name Services after it. The name of a Job may start with a digit."""
    check_names(make_run(), name_of("3d"))
    with pytest.raises(WorkloadError, match="put a letter before the workload's name"):
        check_names(make_distributed(kind=kind), name_of("3d"))


@pytest.mark.parametrize(
    ("workload", "number", "name"),
    [
        (make_run(naming="derived"), None, "x"),
        (make_run(naming="derived"), 3, "x"),
        (make_run(naming="fixed"), None, "train"),
        (make_run(naming="fixed"), 3, "train-3"),
        (make_run(naming="generated"), None, "train-xxxxx"),
        (make_run(naming="generated"), 3, "train-xxxxx"),
    ],
)
def test_the_name_of_an_object(workload: Workload, number: int | None, name: str) -> None:
    """Only the length of a generated name is known. A label has the launch's name, which may differ."""
    assert object_name(workload, "x", number) == name


@pytest.mark.parametrize(
    ("workload", "limit"),
    [
        (make_distributed(naming="fixed"), 54),
        (make_distributed(naming="generated"), 48),
        (make_run(naming="fixed", kind="Pod"), 63),
        (make_run(naming="fixed"), 57),
    ],
)
def test_a_name_without_hashes_is_limited_by_the_names_derived_from_it_alone(workload: Workload, limit: int) -> None:
    """The label of the launch contains only the beginning of a long name."""
    longest = workload.model_copy(update={"name": "n" * limit})
    launch = plan_launch(longest, "dev", PLACEHOLDER_FACTS)
    assert len(launch.name) == 63
    assert len(longest_derived_name(longest, launch.name)) == 63
    if limit < 63:
        longer = workload.model_copy(update={"name": "n" * (limit + 1)})
        with pytest.raises(WorkloadError, match=r"with 64 characters, and Kubernetes allows 63; shorten .* by 1$"):
            plan_launch(longer, "dev", PLACEHOLDER_FACTS)


def test_long_names_with_the_same_beginning_have_different_runs() -> None:
    first, second = (make_run(naming="fixed", name=f"{'n' * 50}-{suffix}") for suffix in ("a", "b"))
    ids = [plan_launch(run, "dev", PLACEHOLDER_FACTS).run_id for run in (first, second)]
    assert len({*ids}) == 2
    assert {prefix_of_run(run) for run in ids} == {run_prefix(first)} == {"n" * 45}


def test_the_name_of_a_sweep_is_not_shortened() -> None:
    """Its trials and their files are found by it."""
    planned = make_planned(name="s" * 46, run=make_run(name="s" * 46, naming="fixed"))
    with pytest.raises(WorkloadError, match="with 64 characters"):
        planned.job_ledger(next(iter(planned.trials)))
