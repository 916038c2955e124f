"""A person does what `trainstack doctor` says."""

import json
import shlex
import subprocess
from typing import Any

from tests.stateful.commands import DOCTOR
from tests.stateful.invariants import InvariantError
from tests.stateful.state import State
from tests.stateful.world import World
from trainstack.local_cluster.supervisor_process import find_program

ROUNDS = 3
"""One repair may make another fault visible, such as a state that can be read again."""
REASONS = (
    "has been running for",
    "has been queued for",
    "active launches",
    "belong to another state",
    "created by another owner",
    "no longer declared",
    "Restore them: kubectl label",
)
"""Of a change that is refused although the doctor finds nothing: active runs, other owners, volumes with data; and
labels of a run, whose repair is in the refusal."""


def repair(world: World, who: str) -> None:
    """Do what the doctor says until it says nothing more. The next `up` then goes well, or is refused in whole."""
    world.lift_quotas()
    world.settle_claims()
    found = _do_as_it_says(world, who)
    ended = world.up(who).ended
    assert ended is not None
    if ended.ok:
        return
    if ended.declared:
        raise _broken(world, f"the doctor of {who} finds nothing, and the next up fails: {ended.text}")
    if not found["problems"] and not any(reason in ended.text for reason in REASONS):
        raise _broken(world, f"the doctor of {who} finds nothing, and the next up is refused: {ended.text}")


def _do_as_it_says(world: World, who: str) -> dict[str, Any]:
    """Return what the doctor says last, which names no commands."""
    for _ in range(ROUNDS):
        found = diagnose(world, who)
        if not found["commands"]:
            return found
        if world.context(who) != world.first_servers.get(who, world.context(who)):
            raise _broken(world, f"the doctor of {who} repairs another cluster's objects: {json.dumps(found)}")
        for command in found["commands"]:
            world.steps.append(f"… {command}")
            follow(world, who, command)
    raise _broken(world, f"the doctor of {who} repeats itself: {json.dumps(found)}")


def diagnose(world: World, who: str) -> dict[str, Any]:
    """Return what the doctor prints."""
    ended = world.command_on_locked(who, DOCTOR, as_json=True).ended
    assert ended is not None
    if not ended.text.startswith("{"):
        raise _broken(world, f"the doctor of {who} fails: {ended.text}")
    found: dict[str, Any] = json.JSONDecoder().raw_decode(ended.text)[0]
    return found


def follow(world: World, who: str, command: str) -> None:
    """Run one command of the doctor."""
    words = shlex.split(command)
    if words[:2] == ["pulumi", "cancel"]:
        world.cancel(who)
    elif words[:2] == ["pulumi", "refresh"]:
        world.command_on_locked(who, "refresh")
    elif words[:2] == ["pulumi", "up"]:
        world.command_on_locked(who, "up")
    elif words[:3] == ["pulumi", "state", "delete"]:
        urn = next(word for word in words[3:] if word.startswith("urn:"))
        world.edit_state(who, lambda state: state.delete(urn))
    elif words[:3] == ["pulumi", "state", "repair"]:
        world.edit_state(who, lambda state: state.repair())
    elif words[:3] == ["pulumi", "stack", "init"]:
        State(world.people[who].state).save()
    elif words[0] in ("mv", "cp", "rm"):
        subprocess.run(words, check=True, timeout=60)
    elif words[0] == "kubectl":
        server = world.servers[world.context(who)]
        words = [str(find_program("kubectl")), "--kubeconfig", str(server.kubeconfig), *words[1:]]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        world.steps.append(f"… {done.stdout}{done.stderr}".strip())
    else:
        raise _broken(world, f"the doctor of {who} names another command: {command}")


def _broken(world: World, message: str) -> InvariantError:
    return InvariantError("\n".join([message, "after:", *world.steps]))
