"""Names at their limits."""

import pytest

from tests.unit.make import make_distributed, make_run
from trainstack.runs.errors import WorkloadError
from trainstack.runs.names import check, launch_name, longest_child, object_name, run_id
from trainstack.settings.sections.workloads import ReplicatedJob, Role, Workload

DIGEST = "0123456789abcdef"


def name_of(workload: str) -> str:
    """The name of a launch of this workload."""
    return launch_name(run_id(workload, DIGEST), DIGEST)


def test_names_carry_the_beginning_of_their_digests() -> None:
    """Ten digits for the run, six for the launch."""
    assert name_of("digits") == "digits-0123456789-012345"


def test_the_longest_child_of_each_kind() -> None:
    """What the controllers make of a launch's name."""
    roles = {"Master": Role(), "Worker": Role(replicas=100)}
    assert longest_child(make_distributed(), "x") == "x-master-0"
    assert longest_child(make_distributed(roles=roles), "x") == "x-worker-99"
    assert longest_child(make_distributed(kind="TrainJob", roles=roles), "x") == "x-node-0-100-xxxxx"
    jobs = (ReplicatedJob(name="driver"), ReplicatedJob(name="a", replicas=1001, parallelism=1001))
    assert longest_child(make_run(kind="JobSet", managed=False, replicated_jobs=jobs), "x") == "x-a-1000-1000-xxxxx"
    assert longest_child(make_run(), "x") == "x-xxxxx"
    assert longest_child(make_run(completions=11), "x") == "x-10-xxxxx"
    assert longest_child(make_run(completions=11, managed=False), "x") == "x-xxxxx"


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
    """One character more is refused, with the limit and the remedy."""
    check(workload, name_of("n" * limit))
    with pytest.raises(WorkloadError, match=r"has 64 characters, but Kubernetes allows 63; shorten .* by 1$"):
        check(workload, name_of("n" * (limit + 1)))


@pytest.mark.parametrize("kind", ["PyTorchJob", "TrainJob"])
def test_what_gets_a_service_must_begin_with_a_letter(kind: str) -> None:
    """Operators name Services after it; a Job may begin with a digit."""
    check(make_run(), name_of("3d"))
    with pytest.raises(WorkloadError, match="put a letter before the workload's name"):
        check(make_distributed(kind=kind), name_of("3d"))


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
def test_what_an_object_is_called(workload: Workload, number: int | None, name: str) -> None:
    """Of a generated name the length is known. A label holds the launch's own name, whatever the object's is."""
    assert object_name(workload, "x", number) == name


@pytest.mark.parametrize(
    ("workload", "limit"),
    [
        (make_distributed(naming="fixed"), 45),
        (make_distributed(naming="generated"), 45),
        (make_run(naming="fixed", kind="Pod"), 45),
    ],
)
def test_a_fixed_name_may_be_as_long_as_the_label_of_its_launch_allows(workload: Workload, limit: int) -> None:
    """The name, two hashes and two dashes."""
    longest = workload.model_copy(update={"name": "n" * limit})
    check(longest, name_of(longest.name))
    assert longest_child(longest, name_of(longest.name)) == name_of(longest.name)
    longer = workload.model_copy(update={"name": "n" * (limit + 1)})
    with pytest.raises(WorkloadError, match=r"has 64 characters, but Kubernetes allows 63; shorten .* by 1$"):
        check(longer, name_of(longer.name))
