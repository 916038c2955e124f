"""Fixtures of the real cluster and its `dev` environment, and the scheduling of tests to processes.

Each process that needs a cluster has its own, in its own folder, and removes it at the end.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# The process that distributes the unit tests loads this file and must start quickly. The imports of the cluster's
# fixtures take a second, so they are in the fixtures.
if TYPE_CHECKING:
    from tests.cluster.inventory import ObjectKey
    from tests.cluster.project import Project
    from trainstack.local_cluster.cluster import LocalCluster

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LocalCluster"]:
    """Yield the cluster of all tests that do not need their own."""
    from tests.local_clusters import cluster_for_dev, kept_state  # noqa: PLC0415 (see above)

    with cluster_for_dev(tmp_path_factory.mktemp("cluster"), kept=kept_state()) as running:
        yield running


@pytest.fixture(scope="session")
def checkout(cluster: "LocalCluster", tmp_path_factory: pytest.TempPathFactory) -> "Project":
    """Return a copy of the project that finds the cluster only by KUBECONFIG."""
    from tests.cluster.project import Project  # noqa: PLC0415

    return Project.copy(tmp_path_factory.mktemp("dev"), cluster)


@pytest.fixture(scope="session")
def before(checkout: "Project") -> "frozenset[ObjectKey]":
    """Return the objects of the cluster before the dev environment is installed."""
    from tests.cluster.inventory import all_objects  # noqa: PLC0415

    return all_objects(checkout)


@pytest.fixture(scope="session")
def installed(checkout: "Project", before: "frozenset[ObjectKey]") -> "Project":
    """Install the dev environment without its run, and with the training operator, for the runs of the lab."""

    def edit(config: dict[str, Any]) -> None:
        config.pop("trainstack:workloads")
        config["trainstack:operators"]["trainingOperator"] = {"requests": {"cpu": "50m", "memory": "128Mi"}}

    checkout.edit_stack(edit)
    done = checkout.up(seconds=420)
    assert done.code == 0, done.text
    return checkout


@pytest.fixture(scope="session")
def dev(checkout: "Project", before: "frozenset[ObjectKey]") -> "Project":
    """Install the dev environment with `trainstack up`, which follows its run to the end."""
    # In a single process the tests of the lab have removed the run from the file.
    shutil.copy(ROOT / "Pulumi.dev.yaml", checkout.root)
    done = checkout.trainstack("up", "--yes", seconds=420)
    assert done.code == 0, done.text
    (checkout.root / "up.log").write_text(done.text)
    return checkout


LAB = {
    "test_code",
    "test_compare",
    "test_components",
    "test_daytwo",
    "test_dependencies",
    "test_kinds",
    "test_pins",
    "test_private_registry",
    "test_rights",
    "test_runs",
    "test_stacks",
    "test_sweep_faults",
    "test_sweeps",
}
"""The files of tests/cluster whose tests use the lab. They are half of the tests that need the operators of `dev`, so
another process can run them with its own cluster."""
SITES = {"test_gpu_products", "test_sites", "test_systems", "test_upstream"}
"""The files of tests/cluster whose tests share the cluster of the reference systems."""
SEPARATE = {
    "test_local_cluster",
    "test_local_cluster_traces",
    "test_digits_image",
    "test_escalations",
    "test_fresh_installs",
    "test_image_commands",
    "test_images",
    "test_kind",
    "test_kube_score",
    "test_multikueue",
    "test_plan",
    "test_staging",
    "test_sweep_scale",
    "test_trainer",
}
"""The files of tests/cluster that start their own cluster, or none."""
JUDGED = {"test_judge", "test_kueue_fields", "test_placement", "test_tables"}
"""The files of tests/admission that need no cluster, because they run Kueue's own code."""
SHARED = {
    "cluster": {"lab", "dev"},
    "installed": {"lab"},
    "lab": {"lab"},
    "dev": {"dev"},
    "sites": {"sites"},
    "servers": {"stateful"},
}
"""The session fixtures that start a cluster or install on it, and the groups whose tests may use them."""
LARGE = ("lab", "dev", "sites", "test_kills", "admission", "stateful", "test_plan", "test_local_cluster")
"""The groups that start first, ordered by duration: a long group that starts last would run alone at the end.

The tests of `dev` remove it at the end, so `dev` follows `lab` when one process runs both.
"""


def group_of(nodeid: str) -> str:
    """Return the group of a test. Tests of one group run in one process, which starts their cluster once."""
    file = Path(nodeid.partition("::")[0])
    if file.stem in JUDGED:
        return "judged"
    if file.parts[1] in ("admission", "integration", "stateful"):
        return "/".join(file.parts[1:-1])
    if file.parent.name == "cluster" and file.stem in LAB:
        return "lab"
    if file.stem in SITES:
        return "sites"
    if file.stem == "test_second_up" or (file.parent.name == "cluster" and file.stem not in SEPARATE):
        return "dev"
    return file.stem


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Assigns whole groups to processes. Markers of groups have no effect in xdist 3.8 with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Schedule by groups with `--dist loadscope`; the unit tests are distributed one by one."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the seconds of each group and of its files, for decisions on the division and order of groups."""
    if config.getoption("dist") != "loadscope":
        return
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0].removeprefix("tests/")
                seconds[group_of(report.nodeid)][file] += report.duration
    terminalreporter.write_sep("=", "seconds of each group")
    for group, files in sorted(seconds.items(), key=lambda item: -sum(item[1].values())):
        listed = ", ".join(f"{file} {files[file]:.0f}" for file in sorted(files, key=lambda file: -files[file]))
        terminalreporter.write_line(f"{sum(files.values()):6.0f} {group}: {listed}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the large groups first, and run tests that destroy their environment last in their group.

    Raises UsageError if a test uses the cluster of another group.
    """
    ranks: dict[pytest.Item, int] = {}
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "unit"):
            continue
        group = group_of(item.nodeid)
        used = SHARED.keys() & {*getattr(item, "fixturenames", ())}
        if group != "admission" and (others := [name for name in used if group not in SHARED[name]]):
            raise pytest.UsageError(
                f"{item.nodeid} of group {group} uses {others}: correct group_of in tests/conftest.py"
            )
        ranks[item] = LARGE.index(group) if group in LARGE else len(LARGE)
    items.sort(key=lambda item: (ranks.get(item, -1), item.get_closest_marker("last") is not None))
