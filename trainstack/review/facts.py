"""What a change means for people: runs, volumes, quota and queues, told from the objects before and after."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from trainstack.objects.labels import LAUNCH, RUN, SET, SWEEP, Manifest
from trainstack.platform.tenants import TENANT
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.settings.values.quantities import amount, canonical

Op = Literal["create", "update", "replace", "delete"]
Meaning = Literal[
    "volume-lost",
    "volume-lost-replaced",
    "namespace-lost",
    "kind-lost",
    "run-stopped",
    "run-dropped",
    "run-removed",
    "trial-removed",
    "sweep-edited",
    "run-launched",
    "run-declared",
    "run-edited",
    "volume-kept",
    "volume-kept-replaced",
    "volume-resized",
    "volume-edited",
    "volume-made",
    "queue-closed",
    "queue-moved",
    "queue-opened",
    "quota-removed",
    "quota-moved",
    "quota-made",
    "rights-taken",
    "rights-given",
    "controller-removed",
    "controller-changed",
    "controller-installed",
]
"""The kinds of facts, the gravest first."""

WORDS: Mapping[Meaning, str] = {
    "volume-lost": "**Deletes volume {} and its data.**",
    "volume-lost-replaced": "**Replaces volume {}: its data is deleted.**",
    "namespace-lost": "**Deletes namespace {} with everything in it.**",
    "kind-lost": "**Deletes the kind {}, and with it every team's objects of that kind.**",
    "run-stopped": "**Stops run {}**, which `stop` names ({} {}).",
    "run-dropped": "No longer declares run {} ({} {}); while it waits or runs, `up` refuses unless `stop` names it.",
    "run-removed": "Removes {} {} of run {}, which has ended; its record stays on its volume.",
    "trial-removed": "Removes {} {} of trial {}: it has ended, or it is queued and its set is taken out.",
    "sweep-edited": "Changes the sets of sweep {}, or what they run: trials that are new are launched, and no others.",
    "run-launched": "Launches run {} ({} {}): {}.",
    "run-declared": "Declares run {} ({} {}), launched unless it was before: {}.",
    "run-edited": "Edits run {} ({} {}); a launch that waits or runs stays as it is, and the next one has the edit.",
    "volume-kept": "Lets go of volume {}; it stays in the cluster with its data.",
    "volume-kept-replaced": "Replaces volume {}; the old one stays in the cluster with its data.",
    "volume-resized": "Resizes volume {} from {} to {}.",
    "volume-edited": "Edits volume {}.",
    "volume-made": "Makes volume {} of {}.",
    "queue-closed": "Closes queue {}: nothing can be queued there any more.",
    "queue-moved": "Points queue {} at {} instead of {}.",
    "queue-opened": "Opens queue {}, with the quota of {}.",
    "quota-removed": "Removes quota {}: {}.",
    "quota-moved": "Moves quota {}: {} from {} to {}.",
    "quota-made": "Makes quota {}: {}.",
    "rights-taken": "Takes the rights in namespace {} from {}.",
    "rights-given": "Gives rights in namespace {} to {}.",
    "controller-removed": "Removes controller {}.",
    "controller-changed": "Changes controller {}, which restarts.",
    "controller-installed": "Installs controller {}.",
}
"""Each `{}` is one of the fact's names."""

_ORDER: Mapping[str, int] = {meaning: place for place, meaning in enumerate(get_args(Meaning))}
_LIMITS = {"nominalQuota": "", "borrowingLimit": " borrowing limit", "lendingLimit": " lending limit"}
_BESIDE_RUNS = ("ConfigMap", "TrainingRuntime")
"""Kinds of what goes with a launch: it says nothing that the launch does not."""
_VOLUMES = ("PersistentVolumeClaim", "PersistentVolume")


@dataclass(frozen=True)
class Fact:
    """One thing that people notice."""

    meaning: Meaning
    names: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One object that changes, before and after."""

    op: Op
    old: Manifest | None
    new: Manifest | None
    retained: bool = False
    """True when a delete leaves the object in the cluster."""


@dataclass(frozen=True)
class View:
    """How much is known of what runs."""

    live: bool
    """True for a preview, which has read the cluster and refuses what would stop an active run by accident."""
    stop: Collection[str] = ()
    """The run ids that the environment lets this change stop."""


def facts(steps: Iterable[Step], view: View) -> list[Fact]:
    """What the steps mean, the gravest first."""
    found = [fact for step in steps for fact in _of_step(step, view)]
    return sorted(found, key=lambda fact: (_ORDER[fact.meaning], fact.names))


def _of_step(step: Step, view: View) -> Iterator[Fact]:
    body = step.new or step.old or {}
    kind = str(body.get("kind"))
    if RUN in _labels(body) and kind not in _BESIDE_RUNS:
        yield from _run(step, view)
    elif kind in _READERS:
        yield from _READERS[kind](step)


def _run(step: Step, view: View) -> Iterator[Fact]:
    if step.old is not None and step.new is not None and _of_many(step.old) and _of_many(step.new):
        # All trials of the files, as one Job: which of them are new only a cluster tells.
        yield Fact("sweep-edited", (_labels(step.new)[SWEEP],))
        return
    if step.old is not None and step.new is not None and _labels(step.old)[RUN] == _labels(step.new).get(RUN):
        yield Fact("run-edited", (_labels(step.new)[RUN], step.new["kind"], _name(step.new)))
        return
    if step.old is not None and step.op in ("delete", "replace"):
        run, sweep = _labels(step.old)[RUN], _labels(step.old).get(SWEEP)
        if run in view.stop or sweep in view.stop:
            yield Fact("run-stopped", (run, step.old["kind"], _name(step.old)))
        elif view.live and sweep is not None:
            yield Fact("trial-removed", (step.old["kind"], _name(step.old), run))
        elif view.live:
            yield Fact("run-removed", (step.old["kind"], _name(step.old), run))
        else:
            yield Fact("run-dropped", (run, step.old["kind"], _name(step.old)))
    if step.new is not None and step.op in ("create", "replace"):
        meaning: Meaning = "run-launched" if view.live else "run-declared"
        yield Fact(meaning, (_labels(step.new)[RUN], step.new["kind"], _name(step.new), _size(step.new)))


def _of_many(body: Manifest) -> bool:
    """Whether a launch is the Indexed Job of a sweep's trials."""
    return SWEEP in _labels(body) and SET not in _labels(body)


def _volume(step: Step) -> Iterator[Fact]:
    name = _name(step.new or step.old or {})
    if step.op == "create":
        yield Fact("volume-made", (name, _capacity(step.new)))
    elif step.op == "delete":
        yield Fact("volume-kept" if step.retained else "volume-lost", (name,))
    elif step.op == "replace":
        yield Fact("volume-kept-replaced" if step.retained else "volume-lost-replaced", (name,))
    elif _capacity(step.old) != _capacity(step.new):
        yield Fact("volume-resized", (name, _capacity(step.old), _capacity(step.new)))
    else:
        yield Fact("volume-edited", (name,))


def _cluster_queue(step: Step) -> Iterator[Fact]:
    name = _name(step.new or step.old or {})
    old, new = _quota(step.old), _quota(step.new)
    if step.op in ("create", "delete"):
        meaning: Meaning = "quota-made" if step.op == "create" else "quota-removed"
        held = new if step.op == "create" else old
        yield Fact(meaning, (name, ", ".join(f"{what} {value}" for what, value in held.items()) or "nothing"))
        return
    for what in dict.fromkeys((*old, *new)):
        before, after = old.get(what, "none"), new.get(what, "none")
        if before != after:
            yield Fact("quota-moved", (name, what, before, after))


def _local_queue(step: Step) -> Iterator[Fact]:
    name = _name(step.new or step.old or {})
    old, new = (str((body or {}).get("spec", {}).get("clusterQueue")) for body in (step.old, step.new))
    if step.op == "create":
        yield Fact("queue-opened", (name, new))
    elif step.op == "delete":
        yield Fact("queue-closed", (name,))
    elif old != new:
        yield Fact("queue-moved", (name, new, old))


def _rights(step: Step) -> Iterator[Fact]:
    """Of teams alone: who else is bound to a role is a controller."""
    body = step.new or step.old or {}
    if not _name(body).rpartition("/")[2].startswith(TENANT):
        return
    old, new = ([_subject(each) for each in (one or {}).get("subjects") or ()] for one in (step.old, step.new))
    place = str(body["metadata"].get("namespace"))
    if lost := [each for each in old if each not in new]:
        yield Fact("rights-taken", (place, ", ".join(lost)))
    if won := [each for each in new if each not in old]:
        yield Fact("rights-given", (place, ", ".join(won)))


def _subject(subject: Mapping[str, Any]) -> str:
    return f"{subject['kind']} {subject['name']}"


def _namespace(step: Step) -> Iterator[Fact]:
    if step.op in ("delete", "replace") and not step.retained:
        yield Fact("namespace-lost", (_name(step.old or {}),))


def _definition(step: Step) -> Iterator[Fact]:
    if step.op in ("delete", "replace") and not step.retained:
        yield Fact("kind-lost", (_name(step.old or {}),))


def _controller(step: Step) -> Iterator[Fact]:
    meanings: Mapping[Op, Meaning] = {"create": "controller-installed", "delete": "controller-removed"}
    yield Fact(meanings.get(step.op, "controller-changed"), (_name(step.new or step.old or {}),))


_READERS: Mapping[str, Callable[[Step], Iterator[Fact]]] = {
    **dict.fromkeys(_VOLUMES, _volume),
    "ClusterQueue": _cluster_queue,
    "LocalQueue": _local_queue,
    "Namespace": _namespace,
    "RoleBinding": _rights,
    "CustomResourceDefinition": _definition,
    "Deployment": _controller,
}


def _labels(body: Manifest) -> Mapping[str, str]:
    return body.get("metadata", {}).get("labels") or {}


def _name(body: Manifest) -> str:
    metadata = body.get("metadata", {})
    # The API server chooses the end of a generated name; the launch is known beforehand.
    name = metadata.get("name") or _labels(body).get(LAUNCH)
    return "/".join(part for part in (metadata.get("namespace"), name) if part)


def _capacity(body: Manifest | None) -> str:
    spec = (body or {}).get("spec", {})
    held = spec.get("capacity") or spec.get("resources", {}).get("requests") or {}
    return str(held.get("storage", "unknown size"))


def _quota(body: Manifest | None) -> dict[str, str]:
    """Each quota and limit by what it is of: `cpu on flavor a100`."""
    return {
        f"{resource['name']}{word} on flavor {flavor['name']}": str(resource[limit])
        for group in (body or {}).get("spec", {}).get("resourceGroups", ())
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        for limit, word in _LIMITS.items()
        if limit in resource
    }


def _size(launch: Manifest) -> str:
    """How many pods stand at once, and what all of them ask for."""
    total: Counter[str] = Counter()
    exact: dict[str, Fraction] = {}
    for alike in launched_pods(launch):
        total["pods"] += alike.count
        for container in alike.spec["containers"]:
            resources = container.get("resources", {})
            for name, text in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
                exact[name] = exact.get(name, Fraction(0)) + alike.count * amount(str(text))
    pods = total["pods"]
    asked = [f"{name} {_spelt(name, value)}" for name, value in sorted(exact.items())]
    return ", ".join([f"{pods} pod{'' if pods == 1 else 's'}", *asked])


def _spelt(name: str, value: Fraction) -> str:
    if "memory" in name or "storage" in name:
        mebibytes = value / 1024**2
        return canonical(f"{mebibytes}Mi") if mebibytes.denominator == 1 else f"{float(mebibytes):.1f}Mi"
    return canonical(f"{int(value * 1000)}m")
