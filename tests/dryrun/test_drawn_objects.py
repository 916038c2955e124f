"""The API server accepts in dry runs the objects of every random environment that `trainstack check` accepts.

It also accepts the launch of every random manifest that it accepts.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.dryrun.draws import BASE, Change, apply_changes, changes
from tests.dryrun.dry_run_project import SEED, SUPPRESSED, DryRunProject
from tests.dryrun.manifest_results import differences_of_launch, original_result
from tests.dryrun.server import Manifest, dry_run_server
from tests.dryrun.templates import Field, all_fields, drawn_fields, templates
from tests.rendered_manifests import QUEUE
from trainstack.preflight.pod_validation import find_pod_faults

pytestmark = pytest.mark.cluster

IN_CI, IN_SLOW = 60, 4000
MANIFESTS_IN_CI, MANIFESTS_IN_SLOW = 100, 2000


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


def draw_manifests(project: DryRunProject, folder: Path, count: int) -> set[Field]:
    """Launch this number of Jobs with random pods, and return the fields of those that the API server accepts.

    Fails with the smallest Job that check or the API server refuses as a launch only, or whose result differs.
    """
    fields, counts = set[Field](), Counter[bool]()

    @hypothesis.seed(SEED)
    @hypothesis.settings(max_examples=count, deadline=None, database=None, suppress_health_check=SUPPRESSED)
    @hypothesis.given(templates(), st.sampled_from(({}, {"queue": QUEUE})))
    def agree(template: Manifest, settings: dict[str, str]) -> None:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template}}
        accepted = original_result(project.server, job)
        counts[accepted.code < 300] += 1
        if accepted.code < 300:
            fields.update(drawn_fields(template))
            assert not find_pod_faults(template), template
            found = differences_of_launch(project.server, folder, job, accepted, **settings)
            assert not found, (template, found)

    agree()
    assert counts[True] > count // 2, counts
    return fields


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


def test_what_the_api_server_accepts_it_accepts_as_launched(project: DryRunProject, tmp_path: Path) -> None:
    """The results are equal except for the additions of decision 0032."""
    draw_manifests(project, tmp_path, MANIFESTS_IN_CI)


@pytest.mark.slow
def test_every_field_of_pods_reaches_the_api_server_as_launched(project: DryRunProject, tmp_path: Path) -> None:
    """The fields are those of the pinned Kubernetes."""
    assert all_fields() - draw_manifests(project, tmp_path, MANIFESTS_IN_SLOW) == set()
