"""The API server accepts in dry runs the objects of every random environment that `trainstack check` accepts."""

from collections.abc import Iterator

import hypothesis
import pytest

from tests.dryrun.course import SEED, SUPPRESSED, Course
from tests.dryrun.draws import BASE, Change, changed, changes
from tests.dryrun.server import dry_run_server

pytestmark = pytest.mark.cluster

IN_CI, IN_SLOW = 60, 4000


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """Run an API server, and create a project for the random environments."""
    folder = tmp_path_factory.mktemp("drawn")
    with dry_run_server(tmp_path_factory.mktemp("server")) as server:
        yield Course(folder, server)


def draw(course: Course, count: int) -> None:
    """Test this number of environments. Fails with the smallest that check accepts and the API server refuses."""

    @hypothesis.seed(SEED)
    @hypothesis.settings(max_examples=count, deadline=None, database=None, suppress_health_check=SUPPRESSED)
    @hypothesis.given(changes())
    def agree(listed: list[Change]) -> None:
        refusals = course.refusals(changed(listed))
        assert not refusals, (listed, refusals)

    agree()


def test_the_environment_that_is_changed_is_accepted(course: Course) -> None:
    """Every refusal is therefore due to a random value."""
    assert course.refusals(BASE) == []
    assert course.counts["accepted"] == 1


def test_what_check_accepts_the_api_server_accepts(course: Course) -> None:
    """Check accepts enough of some random environments for the comparison."""
    before = course.counts["accepted"]
    draw(course, IN_CI)
    assert course.counts["accepted"] - before >= IN_CI // 10


@pytest.mark.slow
def test_what_check_accepts_the_api_server_accepts_in_a_long_series(course: Course) -> None:
    """The test runs thousands of random environments and prints the counts."""
    draw(course, IN_SLOW)
    print(f"\n{dict(course.counts)}, {course.server.asked} dry runs")
