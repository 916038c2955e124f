"""Which states the engine refuses, and the repair that doctor names. The engine said so of the same states."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from trainstack.lifecycle.recovery.diagnosis import diagnose_refused
from trainstack.lifecycle.recovery.integrity import find_state_faults, parse_engine_fault
from trainstack.lifecycle.recovery.lock_problems import StateFiles, StateLock
from trainstack.lifecycle.recovery.problem import RecoveryCommands
from trainstack.lifecycle.recovery.restore_advice import Backup

URN = "urn:pulumi:lab::trainstack::"
STACK, RUNS = f"{URN}pulumi:pulumi:Stack::trainstack-lab", f"{URN}trainstack:training:Runs::runs"
PROVIDER = f"{URN}pulumi:providers:kubernetes::cluster"
JOB, LEDGER = (
    f"{URN}trainstack:training:Runs$kubernetes:{kind}" for kind in ("batch/v1:Job::lab/a", "core/v1:ConfigMap::lab/b")
)
RECOVERY = RecoveryCommands("lab")
RESTORED = ("mv -- /s.json /s.json.unreadable", "cp -- /s.json.bak /s.json", RECOVERY.refresh, RECOVERY.up)


def make_deployment() -> dict[str, Any]:
    """Return a state with a launch and its ledger."""
    held = {"custom": True, "parent": RUNS, "provider": f"{PROVIDER}::p1"}
    resources = [
        {"urn": STACK, "type": "pulumi:pulumi:Stack"},
        {"urn": PROVIDER, "type": "pulumi:providers:kubernetes", "custom": True, "id": "p1", "parent": STACK},
        {"urn": RUNS, "type": "trainstack:training:Runs", "parent": STACK},
        {"urn": JOB, "type": "kubernetes:batch/v1:Job", "id": "lab/a", **held},
        {
            "urn": LEDGER,
            "type": "kubernetes:core/v1:ConfigMap",
            "id": "lab/b",
            "dependencies": [JOB],
            "propertyDependencies": {"data": [JOB], "metadata": None},
            **held,
        },
    ]
    magic = hashlib.sha256(b"v3.250.0").hexdigest()
    return {"manifest": {"magic": magic, "version": "v3.250.0"}, "resources": resources}


def without(urn: str) -> Callable[[dict[str, Any]], None]:
    """Remove a resource."""

    def edit(deployment: dict[str, Any]) -> None:
        deployment["resources"] = [one for one in deployment["resources"] if one["urn"] != urn]

    return edit


def reverse(deployment: dict[str, Any]) -> None:
    """Reverse the order."""
    deployment["resources"].reverse()


def duplicate(deployment: dict[str, Any]) -> None:
    """Add a launch again."""
    deployment["resources"].append(deployment["resources"][3])


def forge(deployment: dict[str, Any]) -> None:
    """Change the version in the manifest, from which its checksum is made."""
    deployment["manifest"]["version"] = "v3.251.0"


def forget_type(deployment: dict[str, Any]) -> None:
    """Remove the type of a launch."""
    del deployment["resources"][3]["type"]


def add_nonsense(deployment: dict[str, Any]) -> None:
    """Add what is not a resource."""
    deployment["resources"].append(5)


def identify_component(deployment: dict[str, Any]) -> None:
    """Give a component an id."""
    deployment["resources"][2]["id"] = "x"


def delete_with_nothing(deployment: dict[str, Any]) -> None:
    """Let a launch be deleted with a resource that is missing."""
    deployment["resources"][3] |= {"deletedWith": f"{URN}a:b:C::gone", "replaceWith": [f"{URN}a:b:C::gone"]}


@pytest.mark.parametrize(
    ("edit", "message", "commands"),
    [
        (without(JOB), "the dependency of ConfigMap lab/b, Job lab/a, is missing", (RECOVERY.repair, RECOVERY.up)),
        (reverse, "the dependency of ConfigMap lab/b, Job lab/a, follows it (and", (RECOVERY.repair, RECOVERY.up)),
        (delete_with_nothing, "the dependency of Job lab/a, C gone, is missing", (RECOVERY.repair, RECOVERY.up)),
        (without(RUNS), "the parent of Job lab/a, Runs runs, is missing (and 1 more)", RESTORED),
        (without(PROVIDER), "the provider of Job lab/a, kubernetes cluster::p1, is missing", RESTORED),
        (duplicate, "it has Job lab/a 2 times", RESTORED),
        (forge, "its manifest was edited", RESTORED),
        (forget_type, f"a resource has no type ({JOB})", RESTORED),
        (add_nonsense, "it has values of unexpected types", RESTORED),
        (identify_component, "Runs runs has an id, but no object", RESTORED),
    ],
)
def test_a_state_that_the_engine_refuses(
    edit: Callable[[dict[str, Any]], None], message: str, commands: tuple[str, ...]
) -> None:
    """`state repair` sorts, and removes references. A launch without its parent would be another one, and deleted."""
    deployment = make_deployment()
    assert find_state_faults(deployment) == ()
    edit(deployment)
    diagnosis = diagnose_refused(
        find_state_faults(deployment), "/s.json", None, Backup("/s.json", is_usable=True), "lab"
    )
    (problem,) = diagnosis.problems
    assert (problem.id, problem.what) == ("state-refused", "/s.json")
    assert problem.message.startswith(f"the engine refuses the state: {message}")
    assert diagnosis.commands == commands


@pytest.mark.parametrize("deployment", [None, {}, {"resources": None, "manifest": None}, {"resources": []}])
def test_an_empty_state_is_accepted(deployment: Any) -> None:
    """It is that of a new stack."""
    assert find_state_faults(deployment) == ()


def test_what_a_replacement_has_not_deleted_yet_is_no_duplicate() -> None:
    """The former objects have the URN of the new one; a pending one may have lost its provider."""
    deployment = make_deployment()
    old = {**deployment["resources"][3], "delete": True}
    deployment["resources"] += [old, {**old, "provider": f"{PROVIDER}::p0", "pendingReplacement": True}]
    assert find_state_faults(deployment) == ()


def test_a_lock_is_removed_before_the_repair() -> None:
    """The engine does not write a locked state."""
    lock = StateLock("/lock.json", 7, "ann", "here", is_alive=False)
    deployment = make_deployment()
    without(JOB)(deployment)
    diagnosis = diagnose_refused(find_state_faults(deployment), "/s.json", StateFiles(locks=(lock,)), None, "lab")
    assert diagnosis.commands == (RECOVERY.cancel, RECOVERY.repair, RECOVERY.up)


def test_a_state_without_a_usable_backup_is_created_again() -> None:
    """A state elsewhere has versions instead."""
    found = (parse_engine_fault("error: failed to load checkpoint:\n json: cannot unmarshal number"),)
    diagnosis = diagnose_refused(found, "/s.json", None, Backup("/s.json", is_usable=False), "lab")
    assert diagnosis.commands == ("mv -- /s.json /s.json.unreadable", "pulumi stack init lab", RECOVERY.up)
    assert "refuses the state: failed to load checkpoint: json: cannot" in diagnosis.problems[0].message
    diagnosis = diagnose_refused(found, "stack lab", None, None, "lab")
    assert diagnosis.commands == ()
    assert "pulumi stack export --version" in diagnosis.problems[0].message


@pytest.mark.parametrize(
    "message",
    [
        "error: failed to load checkpoint: unsupported checkpoint version 99",
        "error: failed to load checkpoint: this stack's deployment needs support for the following features: tomorrow",
    ],
)
def test_a_state_of_a_newer_engine_is_not_replaced(message: str) -> None:
    """Its backup is older, and nothing is lost."""
    diagnosis = diagnose_refused(
        (parse_engine_fault(message),), "/s.json", None, Backup("/s.json", is_usable=True), "lab"
    )
    assert diagnosis.commands == ()
    assert "Use the release of Pulumi that wrote it, or a newer one" in diagnosis.problems[0].message
