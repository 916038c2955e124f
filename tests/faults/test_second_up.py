"""A second `up --refresh` changes nothing in any state of the runs, and no run is trained twice.

The tests run with `make faults`. `test_up_does_not_change_runs_of_any_kind_at_any_stage` in tests/cluster/test_runs.py
covers one configuration in every run of the suite.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.people import Person
from tests.cluster.project import Project
from tests.faults.configurations import COUNT, ENVIRONMENTS, SWEEPS, Environment, draw
from tests.faults.configured_stacks import ConfiguredStack, configured_stacks
from tests.faults.course import clean_up, run_course
from tests.faults.files import write_sweeps
from tests.seeds import chosen_seed
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.settings.search_space.hyperparams import sweep_folder

pytestmark = pytest.mark.cluster

CONCURRENT = 4
"""The configurations that are in the cluster at the same time, each a stack with its own queue."""
SERIES = [
    pytest.param(environment, range(first, first + CONCURRENT), id=f"{environment}-{first}", marks=pytest.mark.slow)
    for environment in ENVIRONMENTS
    for first in range(0, COUNT, CONCURRENT)
]


@pytest.fixture(scope="module")
def seed() -> int:
    """Return the seed of all drawn configurations."""
    return chosen_seed("TRAINSTACK_FAULTS_SEED")


@pytest.fixture(scope="module")
def project(dev: Project) -> Iterator[Project]:
    """Return the project of the dev environment, with the sweeps of the drawn environments."""
    write_sweeps(dev.root)
    yield dev
    for name in SWEEPS:
        shutil.rmtree(dev.root / sweep_folder(name))


@pytest.mark.parametrize(("environment", "numbers"), SERIES)
def test_a_second_up_changes_nothing_in_any_state(
    project: Project, cluster: LocalCluster, seed: int, environment: Environment, numbers: range
) -> None:
    """The states are queued, admitted, partially admitted, running, preempted, completed, and removed by a TTL. The
    records on the volume show that every run is trained once.
    """
    drawn = [draw(seed, environment, number) for number in numbers]
    print(f"TRAINSTACK_FAULTS_SEED={seed}", *(configuration.description for configuration in drawn), sep="\n")
    with configured_stacks(drawn, project, Person(cluster.kubeconfig), cluster.state) as stacks:
        with ThreadPoolExecutor(len(stacks)) as pool:
            ends = [pool.submit(_whole_course, stack) for stack in stacks]
        failed = [error for end in ends if (error := end.exception()) is not None]
        if failed:
            raise BaseExceptionGroup(f"with TRAINSTACK_FAULTS_SEED={seed}", failed)


def _whole_course(stack: ConfiguredStack) -> None:
    try:
        run_course(stack)
    finally:
        clean_up(stack)
