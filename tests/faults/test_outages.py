"""Parts of the cluster go away in the middle of `up` and of training: nothing is lost, and nothing is done twice.

Moments are drawn from TRAINSTACK_FAULTS_SEED, which every test prints.
"""

import random
import time
from collections.abc import Callable

import pytest

from tests.cluster.lab import await_end, uids
from tests.cluster.project import Project, eventually
from tests.faults import injection, outages
from tests.faults.outages import MOST_MOMENTS, Record
from tests.seeds import chosen_seed
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

REPEATS = 10
AWAY_SECONDS = 30
SEED = chosen_seed("TRAINSTACK_FAULTS_SEED")
Fault = Callable[[Project, LocalCluster], None]


def control_plane_killed(_: Project, cluster: LocalCluster) -> None:
    """API server and etcd die together."""
    injection.kill(injection.component_processes(cluster, "apiserver", "etcd"))


def api_server_restarted(_: Project, cluster: LocalCluster) -> None:
    """It dies alone."""
    injection.kill(injection.component_processes(cluster, "apiserver"))


def api_server_away(_: Project, cluster: LocalCluster) -> None:
    """Connections are refused."""
    outages.keep_api_server_down(cluster, AWAY_SECONDS)


def api_server_hangs(_: Project, cluster: LocalCluster) -> None:
    """Connections stand, and nobody answers."""
    with injection.paused(injection.component_processes(cluster, "apiserver")):
        time.sleep(AWAY_SECONDS)


def etcd_killed(_: Project, cluster: LocalCluster) -> None:
    """It comes back with what it had written."""
    injection.kill(injection.component_processes(cluster, "etcd"))


def controllers_away(project: Project, cluster: LocalCluster) -> None:
    """Kueue and the training operator, and with them the webhooks."""
    injection.keep_down(outages.controllers(project, cluster), AWAY_SECONDS)


def node_restarted(project: Project, cluster: LocalCluster) -> None:
    """With every pod on it."""
    outages.restart_node(project, cluster)


FAULTS: tuple[Fault, ...] = (
    api_server_restarted,
    api_server_away,
    api_server_hangs,
    etcd_killed,
    controllers_away,
    node_restarted,
)


def assert_survives(platform: Project, cluster: LocalCluster, fault: Fault, number: int) -> None:
    """A run trains, a change is made, and in the middle of both the fault comes."""
    moment = random.Random(f"{SEED} {fault.__name__} {number}").randint(1, MOST_MOMENTS)
    print(f"TRAINSTACK_FAULTS_SEED={SEED}, {fault.__name__} {number}: moment {moment}")
    claim = f"{fault.__name__}-{number}".replace("_", "-")
    project = outages.team(platform, claim)
    try:
        done = project.up(seconds=outages.SECONDS)
        assert done.code == 0, done.text
        record = Record(project, cluster, claim)
        record.await_epoch(3)
        before = uids(project)
        outages.add_objects(project)

        done = outages.up_with_fault(project, moment, lambda: fault(project, cluster))
        assert "Traceback" not in done.text
        print(f"up ended with {done.code}")
        eventually("the cluster is well again", lambda: outages.is_cluster_ready(project), outages.SECONDS)
        print(f"needed: {outages.run_recovery_commands(project)}")

        outages.assert_consistent(project)
        assert before.items() <= uids(project).items(), "a run was replaced"
        record.assert_expected_result()
        if fault is node_restarted:
            assert record.attempts() > 1
    finally:
        eventually("the cluster is well again", lambda: outages.is_cluster_ready(project), outages.SECONDS)
        outages.remove_stack(project)


def test_a_control_plane_that_dies_costs_nothing(platform: Project, dedicated_cluster: LocalCluster) -> None:
    """API server and etcd, in the middle of `up` and of training."""
    assert_survives(platform, dedicated_cluster, control_plane_killed, 0)


@pytest.mark.parametrize("number", range(REPEATS))
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_goes_away_nothing_is_lost(
    platform: Project, dedicated_cluster: LocalCluster, fault: Fault, number: int
) -> None:
    """Ten moments of each; what is launched meanwhile waits for Kueue, and goes through the operator's webhook."""
    assert_survives(platform, dedicated_cluster, fault, number)


@pytest.mark.parametrize("number", range(REPEATS))
def test_a_run_whose_disk_is_full_resumes_when_there_is_room(
    platform: Project, dedicated_cluster: LocalCluster, number: int
) -> None:
    """It fails in words, keeps its checkpoint, and the next attempt goes on."""
    epoch = random.Random(f"{SEED} full {number}").randint(3, outages.EPOCHS // 2)
    print(f"TRAINSTACK_FAULTS_SEED={SEED}, full disk {number}: epoch {epoch}")
    claim = f"full-{number}"
    project = outages.team(platform, claim, first=True)
    try:
        done = project.up(seconds=outages.SECONDS)
        assert done.code == 0, done.text
        folder = outages.volume_folder(project, claim)
        await_end(project, "first", "Complete")
        with injection.small_disk(dedicated_cluster, folder, 8 << 20) as disk:
            project = outages.team(platform, claim)
            done = project.up(seconds=outages.SECONDS)
            assert done.code == 0, done.text
            record = Record(project, dedicated_cluster, claim)
            record.await_epoch(epoch)
            with outages.full_disk(disk):
                eventually("it says so", lambda: "No space left on device" in outages.logs(project), outages.SECONDS)
            record.assert_expected_result()
            assert record.attempts() > 1
            outages.assert_consistent(project)
    finally:
        outages.remove_stack(project)
