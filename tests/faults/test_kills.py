"""The commands that `doctor` prints repair a stack after a kill of the engine, its language host or its provider.

Kills are drawn from TRAINSTACK_FAULTS_SEED, which every failure names; the number of a test is
the number of its kill, so `-k "kill-042"` repeats one.
"""

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.project import Project, await_empty
from tests.faults import engine, killed_commands, kills
from tests.faults.bucket import bucket
from tests.faults.clusters import own_cluster
from tests.faults.killed_commands import Command, CommandKill
from tests.faults.kills import Kill, Operation, Victim
from tests.seeds import chosen_seed
from trainstack.guards.other_states import IDENTITY_RESOURCE_NAME
from trainstack.lifecycle.recovery.problem import RecoveryCommands
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import helpers, operators
from trainstack.objects.labels import STACK, STATE

pytestmark = pytest.mark.cluster

KILLS = 100
COMMAND_KILLS = 60
"""The number of kills of whole commands."""
QUICK = 2
"""The number of kills in the CI tier, one of each operation."""
SEED = chosen_seed("TRAINSTACK_FAULTS_SEED")


@pytest.fixture(scope="module")
def dedicated_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a cluster with Kueue's image and a small one."""
    with own_cluster(tmp_path_factory, "kills", [*operators(["kueue"]), *helpers()]) as running:
        yield running


@pytest.fixture(scope="module")
def victim(dedicated_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield the stack, not deployed yet, on a platform that is never killed."""
    project = Project.copy(tmp_path_factory.mktemp("killed"), dedicated_cluster, "dev")
    platform = project.other_stack("platform", kills.platform())
    done = platform.up()
    assert done.code == 0, done.text
    victim = project.other_stack("victim", kills.victim_config())
    yield victim
    victim.take_down()
    platform.take_down()
    done = platform.kubectl("delete", "namespace", kills.NAMESPACE, "--timeout=120s")
    assert done.code == 0, done.text


@pytest.fixture(scope="module")
def moment_counts(victim: Project) -> dict[Operation, int]:
    """Return the number of moments of each undisturbed operation."""
    found: dict[Operation, int] = {}
    operations: tuple[Operation, ...] = ("up", "destroy")
    for operation in operations:
        ended = kills.run(victim, operation, victim.root / f"{operation}.log")
        assert ended.done.code == 0, ended.done.text
        found[operation] = ended.moments
    assert_removed(victim)
    return found


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=f"kill-{number:03d}", marks=() if number < QUICK else pytest.mark.slow)
        for number in range(KILLS)
    ],
)
def test_the_commands_of_doctor_repair_a_killed_operation(
    victim: Project, moment_counts: dict[Operation, int], number: int
) -> None:
    """At most three commands are needed. The state matches the cluster, and no run was replaced or launched twice."""
    kill = Kill.draw(SEED, number, moment_counts)
    description = f"TRAINSTACK_FAULTS_SEED={SEED}, number {number}: {kill}"
    print(description)
    prepare_stack(victim, kill.operation)

    inject = partial(kills.kill, kill.victim)
    ended = kills.run(victim, kill.operation, victim.root / "killed.log", kill.moment, inject)
    try:
        assert ended.fault_injected, f"{description}: it ended before: {ended.done.text}"
        alive = kills.launch_uids(kills.live_uids(victim))
        commands = run_recovery_commands(victim, kill.operation)
        print(f"{description}: {commands}")
        assert len(commands) <= 3, f"{description}: {commands}"
        if kill.operation == "destroy":
            assert_removed(victim)
        else:
            assert_consistent(victim)
            now = kills.launch_uids(kills.live_uids(victim))
            assert {name: now.get(name) for name in alive} == alive, description
    finally:
        engine.end_leftovers(ended.session)


@pytest.mark.parametrize(
    "part", [kills.VICTIMS[0], *(pytest.param(part, marks=pytest.mark.slow) for part in kills.VICTIMS[1:])]
)
def test_the_commands_of_doctor_repair_a_state_in_an_object_store(
    victim: Project, moment_counts: dict[Operation, int], monkeypatch: pytest.MonkeyPatch, part: Victim
) -> None:
    """`doctor` cannot see its lock. The engine's message has the command that removes it."""
    kill = replace(Kill.draw(SEED, 0, moment_counts), victim=part)
    description = f"TRAINSTACK_FAULTS_SEED={SEED}: {kill}"
    print(description)
    prepare_stack(victim, "up")
    with bucket() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        victim.write_stack("stored", kills.victim_config())
        project = victim.environment("stored", victim.kubeconfig)
        ended = kills.run(project, "up", project.root / "killed.log", kill.moment, partial(kills.kill, part))
        try:
            assert ended.fault_injected, f"{description}: it ended before: {ended.done.text}"
            alive = kills.launch_uids(kills.live_uids(project))
            commands = run_recovery_commands(project, "up")
            print(f"{description}: {commands}")
            assert len(commands) <= 3, f"{description}: {commands}"
            # Unless it is killed itself, the engine removes its lock.
            assert (commands[0] == RecoveryCommands(project.stack).cancel) == (part == "cli")
            assert_consistent(project, unchecked=1)
            assert alive.items() <= kills.launch_uids(kills.live_uids(project)).items(), description
        finally:
            engine.end_leftovers(ended.session)
            project.take_down()


@pytest.mark.slow
@pytest.mark.parametrize("part", kills.VICTIMS)
def test_a_killed_teardown_is_continued_by_the_same_command(
    victim: Project, moment_counts: dict[Operation, int], part: Victim
) -> None:
    """The commands of `doctor`, and then the same command again, delete everything."""
    prepare_stack(victim, "destroy")
    moment = random.Random(f"{SEED} teardown {part}").randint(1, moment_counts["destroy"])
    print(f"TRAINSTACK_FAULTS_SEED={SEED}: {part}, moment {moment}")
    stops = active(victim)
    # The fifth run may have finished.
    assert len(stops) >= 4
    victim.edit_stack(lambda config: config["trainstack:workloads"].update(stop=stops))
    # Without the word that makes it `trainstack destroy`, the engine's destroy is a teardown.
    words, inject = kills.COMMANDS["destroy"], partial(kills.kill, part)
    ended = engine.run(victim, *words, log=victim.root / "killed.log", moment=moment, inject=inject)
    try:
        assert ended.fault_injected, f"it ended before: {ended.done.text}"
        for command in doctor(victim)["commands"]:
            if command != interrupted_command(victim, "up"):
                done = victim.run(["sh", "-c", command])
                assert done.code == 0, f"{command}: {done.text}"
        done = victim.trainstack("destroy", "--yes", *(word for run in active(victim) for word in ("--stop", run)))
        assert done.code == 0, done.text
        assert_removed(victim)
    finally:
        engine.end_leftovers(ended.session)
        victim.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))


def active(victim: Project) -> list[str]:
    """Return the runs that a teardown would stop."""
    stops: list[str] = json.loads(victim.trainstack("destroy", "--json").out)["stops"]
    return stops


@pytest.fixture(scope="module")
def temporary(victim: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of the commands' temporary files: of those that are killed, and of those that follow."""
    folder = tmp_path_factory.mktemp("temporary")
    victim.variables["TMPDIR"] = str(folder)
    yield folder
    del victim.variables["TMPDIR"]


@pytest.fixture(scope="module")
def durations(victim: Project, temporary: Path) -> dict[Command, float]:
    """Return how long each undisturbed command takes."""
    prepare_stack(victim, "up")
    found: dict[Command, float] = {}
    for command in ("up", "upload", "fetch", "sweep", "destroy"):
        words = killed_commands.words(victim, command, active(victim) if command == "destroy" else ())
        found[command] = killed_commands.duration(victim, words)
    print(f"durations: {found}")
    return found


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, id=f"command-{number:02d}", marks=pytest.mark.slow) for number in range(COMMAND_KILLS)],
)
def test_a_killed_command_is_repaired_by_doctor_and_leaves_no_secret(
    victim: Project, durations: dict[Command, float], temporary: Path, number: int
) -> None:
    """Its commands, and then the interrupted one again, are enough. What was left on this machine is gone by then."""
    kill = CommandKill.draw(SEED, number)
    description = f"TRAINSTACK_FAULTS_SEED={SEED}, command {number}: {kill}"
    print(description)
    prepare_stack(victim, "up" if kill.command == "up" else "destroy")
    if kill.command == "fetch":
        # The volume may be new, and the target has what an earlier kill left.
        killed_commands.duration(victim, killed_commands.words(victim, "upload"))
        shutil.rmtree(killed_commands.transfer_folders(victim)[1], ignore_errors=True)
    words = killed_commands.words(victim, kill.command, active(victim) if kill.command == "destroy" else ())
    process = killed_commands.start(victim, words)
    killed = killed_commands.kill(process, kill.moment * durations[kill.command], everything=kill.everything)
    alive = kills.launch_uids(kills.live_uids(victim))
    secrets = killed_commands.secrets_of(victim.kubeconfig)
    assert killed_commands.files_with(secrets, temporary) == [], description

    repaired = repair(victim, process.pid)
    print(f"{description}: killed {killed}, {repaired}")
    assert (killed_commands.leftovers(victim, temporary), killed_commands.files_with(secrets, temporary)) == ([], [])
    words = killed_commands.words(victim, kill.command, active(victim) if kill.command == "destroy" else ())
    again = killed_commands.start(victim, words)
    assert again.wait(600) == 0, f"{description}: {(victim.root / 'killed-command.txt').read_text()}"
    assert killed_commands.leftovers(victim, temporary) == []
    assert_complete(victim, kill.command)
    if kill.command == "up":
        now = kills.launch_uids(kills.live_uids(victim))
        assert {name: now.get(name) for name in alive} == alive, description


def repair(victim: Project, session: int) -> list[str]:
    """Run the commands of `doctor`, until it prints none, and return them; the last `up` is left to the caller."""
    ran: list[str] = []
    up = interrupted_command(victim, "up")
    while commands := [command for command in doctor(victim)["commands"] if command != up]:
        assert len(ran) < 10, ran
        done = victim.run(["sh", "-c", commands[0]])
        assert done.code == 0, f"{commands[0]}: {done.text}"
        ran.append(commands[0])
    killed_commands.await_orphans(session)
    return ran


def assert_complete(victim: Project, command: Command) -> None:
    """Check the result of a command that was run to its end after a kill."""
    source, target = killed_commands.transfer_folders(victim)
    match command:
        case "up":
            assert_consistent(victim)
        case "destroy":
            assert_removed(victim)
        case "upload":
            listed = json.loads(victim.trainstack("ls", killed_commands.PLACE, "--json").out)
            assert {*listed} == {path.name for path in source.iterdir()}
        case "fetch":
            fetched = {path.name: path.read_bytes() for path in target.iterdir()}
            assert fetched == {path.name: path.read_bytes() for path in source.iterdir()}
        case "sweep":
            done = victim.run(["sweep", "expand", killed_commands.SWEEP, "--check"], trainstack=True)
            assert done.code == 0, done.text


def test_doctor_prints_no_repair_during_an_operation(victim: Project, moment_counts: dict[Operation, int]) -> None:
    """`doctor` names the running process, and prints no command that would allow a second operation."""
    prepare_stack(victim, "up")
    calls = []

    def look(session: int) -> bool:
        # Stopped, because an `up` this small would end before `doctor` starts.
        os.kill(session, signal.SIGSTOP)
        calls.append((session, victim.trainstack("doctor", "--json")))
        os.kill(session, signal.SIGCONT)
        return True

    ended = kills.run(victim, "up", victim.root / "at-work.log", 1, look)
    assert (ended.done.code, ended.fault_injected) == (0, True), ended.done.text
    ((session, done),) = calls
    found = json.loads(done.out)
    assert [problem["id"] for problem in found["problems"]] == ["operation-running"], done.text
    assert found["commands"] == [f"tail --pid={session} -f /dev/null"]
    assert_consistent(victim)


def test_a_sidecar_that_a_kill_left_empty_is_found_and_removed(victim: Project) -> None:
    """The engine cannot read a state with an empty sidecar; the printed command repairs it."""
    state = kills.state_uids(victim)
    stacks = victim.root / ".trainstack" / "backend" / ".pulumi" / "stacks" / "trainstack"
    assert list(stacks.glob("*.attrs")) == []
    (stacks / "victim.json.attrs").touch()
    done = victim.pulumi("stack", "export")
    assert (done.code != 0, "EOF" in done.text) == (True, True), done.text
    found = doctor(victim)
    assert [problem["id"] for problem in found["problems"]] == ["sidecar-unreadable"], found
    for command in found["commands"]:
        assert victim.run(["sh", "-c", command]).code == 0
    assert kills.state_uids(victim) == state


def test_a_marked_object_without_a_state_is_found_and_removed(victim: Project) -> None:
    """All other marked objects are in the state. For an object of another state no deletion is printed."""
    words = ("configmap", "strange", "-n", kills.NAMESPACE)
    assert victim.kubectl("create", *words).code == 0
    assert victim.kubectl("label", *words, f"{STACK}={victim.stack}").code == 0
    (problem,) = doctor(victim)["problems"]
    assert (problem["id"], problem["commands"]) == ("object-of-another-state", [])
    resources = json.loads(victim.pulumi("stack", "export").out)["deployment"]["resources"]
    (own,) = (
        resource["outputs"]["output"]
        for resource in resources
        if resource["urn"].endswith(f"::{IDENTITY_RESOURCE_NAME}")
    )
    assert victim.kubectl("annotate", *words, f"{STATE}={own}").code == 0
    found = doctor(victim)
    assert [(item["id"], item["what"]) for item in found["problems"]] == [
        ("object-orphaned", f"ConfigMap {kills.NAMESPACE}/strange")
    ]
    (command,) = found["commands"]
    assert victim.run(["sh", "-c", command]).code == 0
    assert doctor(victim)["problems"] == []


def doctor(victim: Project) -> dict[str, Any]:
    """Return the JSON output of `doctor`."""
    done = victim.trainstack("doctor", "--json")
    found: dict[str, Any] = json.loads(done.out)
    assert done.code == (4 if found["problems"] else 0), done.text
    return found


def interrupted_command(victim: Project, operation: Operation) -> str:
    """Return the interrupted command as `doctor` prints it; a destroy stops the runs that are active when it starts."""
    recovery = RecoveryCommands(victim.stack)
    if operation == "up":
        return recovery.up
    words = "import json, sys; print(*(word for run in json.load(sys.stdin)['stops'] for word in ('--stop', run)))"
    return f'{recovery.destroy} $(trainstack destroy -s {victim.stack} --json | python3 -c "{words}")'


def prepare_stack(victim: Project, operation: Operation) -> None:
    """Bring the stack into the state in which the operation starts."""
    is_up = bool(kills.state_uids(victim))
    if is_up == (operation == "up"):
        done = victim.run(["sh", "-c", interrupted_command(victim, "destroy" if is_up else "up")])
        assert done.code == 0, done.text
    if operation == "up":
        assert_removed(victim)


def run_recovery_commands(victim: Project, interrupted: Operation) -> list[str]:
    """Run the commands of `doctor` and then the interrupted command, and return all of them.

    The command in the engine's error message removes a lock that `doctor` cannot see.
    """
    findings = doctor(victim)
    commands = [
        *(command for command in findings["commands"] if command != interrupted_command(victim, "up")),
        interrupted_command(victim, interrupted),
    ]
    ran: list[str] = []
    while commands:
        done = victim.run(["sh", "-c", commands[0]])
        if done.code and findings["unchecked"] and not ran:
            assert "the stack is currently locked by 1 lock" in done.text
            assert "pulumi cancel" in done.text
            commands.insert(0, RecoveryCommands(victim.stack).cancel)
            done = victim.run(["sh", "-c", commands[0]])
        assert done.code == 0, f"{commands[0]}: {done.text}; doctor found {findings}"
        ran.append(commands.pop(0))
    return ran


def assert_consistent(victim: Project, *, unchecked: int = 0) -> None:
    """Check that state and cluster have the same objects, with each run once, and that nothing is left to do."""
    state, cluster = kills.state_uids(victim), kills.live_uids(victim)
    assert state == cluster
    assert len(kills.launch_uids(cluster)) == 5
    found = doctor(victim)
    assert (found["problems"], found["commands"], len(found["unchecked"])) == ([], [], unchecked)
    done = victim.up("--refresh", "--expect-no-changes")
    assert done.code == 0, done.text
    assert kills.live_uids(victim) == cluster


def assert_removed(victim: Project) -> None:
    """Check that no marked object exists and the state is empty."""
    assert kills.state_uids(victim) == {}
    await_empty("what was deleted", lambda: kills.live_uids(victim), 120)
