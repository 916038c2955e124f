"""The API server accepts in dry runs the objects of every random environment that `trainstack check` accepts."""

from collections.abc import Iterator

import hypothesis
import pytest

from tests.dryrun.draws import BASE, Change, apply_changes, changes
from tests.dryrun.dry_run_project import SEED, SUPPRESSED, DryRunProject
from tests.dryrun.server import dry_run_server

pytestmark = pytest.mark.cluster

IN_CI, IN_SLOW = 60, 4000


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DryRunProject]:
    """Run an API server, and create a project for the random environments."""
    folder = tmp_path_factory.mktemp("drawn")
    with dry_run_server(tmp_path_factory.mktemp("server")) as server:
        yield DryRunProject(folder, server)


def draw(project: DryRunProject, count: int) -> None:
    """Test this number of environments. Fails with the smallest that check accepts and the API server refuses."""

    @hypothesis.seed(SEED)
    @hypothesis.settings(max_examples=count, deadline=None, database=None, suppress_health_check=SUPPRESSED)
    @hypothesis.given(changes())
    def agree(listed: list[Change]) -> None:
        refusals = project.refusals(apply_changes(listed))
        assert not refusals, (listed, refusals)

    agree()


def test_the_environment_that_is_changed_is_accepted(project: DryRunProject) -> None:
    """Every refusal is therefore due to a random value."""
    assert project.refusals(BASE) == []
    assert project.counts["accepted"] == 1


def test_what_check_accepts_the_api_server_accepts(project: DryRunProject) -> None:
    """Check accepts enough of some random environments for the comparison."""
    before = project.counts["accepted"]
    draw(project, IN_CI)
    assert project.counts["accepted"] - before >= IN_CI // 10


@pytest.mark.slow
def test_what_check_accepts_the_api_server_accepts_in_a_long_series(project: DryRunProject) -> None:
    """The test runs thousands of random environments and prints the counts."""
    draw(project, IN_SLOW)
    print(f"\n{dict(project.counts)}, {project.server.dry_run_count} dry runs")
