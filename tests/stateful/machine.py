"""Drawn sequences of actions by people, clusters and accidents on one stack; moves.py has further ones.

No precondition depends on the clusters: their timing varies, and Hypothesis stops where a repeated sequence has other
rules to choose from. A rule that finds nothing to act on does nothing.
"""

from collections.abc import Callable, Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.apiserver import ApiServer
from tests.stateful import cluster
from tests.stateful.checkout import main_container_of, make_manifest_run, make_run
from tests.stateful.commands import DESTROY
from tests.stateful.json_values import Body
from tests.stateful.network import FAULTS
from tests.stateful.session import Session
from tests.stateful.world import AWAY, HOME, ReplyTo, World, make_world
from trainstack.objects.labels import LAUNCH, LEDGER, RUN, STACK, WRAPPER

WRITES = frozenset({"create", "update", "delete", "program writes"})
"""Moments at which a write is about to be sent, and can be refused."""
PEOPLE = st.sampled_from(["ann", "ann", "ann", "bob"])
"""Most is done by one of them."""
NAMES = st.sampled_from(["first", "second", "third"])
NUMBER = st.integers(0, 7)
ACCIDENTS = st.one_of(
    st.none(),
    st.tuples(st.sampled_from(["kill", "deny", "end", "unmark", "switch", *FAULTS]), st.integers(0, 27), NUMBER),
)
"""What happens during a command: what, at which moment, and to which launch."""
CHANGES = st.sampled_from(["args", "args", "memory", "namespace", "naming", "attempt", "remove"])
KINDS = st.sampled_from(["derived", "generated", "fixed", "pod", "managed", "expiring", "manifest"])
TTL_SECONDS = 1
DENIAL = (
    'resource "denied" was not successfully created by the Kubernetes API server: admission webhook "search" denied '
    "the request: nothing may be written now"
)
Accident = tuple[str, int, int]


class Machine(RuleBasedStateMachine):
    """One sequence."""

    servers: ClassVar[Mapping[str, ApiServer]] = {}
    folder: ClassVar[Path] = Path()
    people: ClassVar[int] = 2
    """How many people there are."""
    failures: ClassVar[list[tuple[World, str]] | None] = None
    """Takes what is broken instead of failing; the sequence then goes no further."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.is_finished = False

    @initialize(profile=st.sampled_from(["owner", "tenant"]), kind=KINDS, number=NUMBER)
    def begin(self, profile: str, kind: str, number: int) -> None:
        """An environment with a run."""
        self.world = make_world(dict(self.servers), self.folder, profile)
        for person in self.world.colleagues:
            person.runs.append(make_drawn_run("first", kind, self.world.namespaces[0]))
        self.world.steps.append(f"an environment of a {profile} with a run {kind}")

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, accident=ACCIDENTS, refresh=st.booleans())
    def up(self, who: str, accident: Accident | None, refresh: bool) -> None:
        """`pulumi up`, perhaps with an accident."""
        self._do(f"up of {who}, {accident}, refresh={refresh}", lambda: self._up(who, accident, refresh=refresh))

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE)
    def plain_up(self, who: str) -> None:
        """`pulumi up` without an accident."""
        self._do(f"up of {who}", lambda: self._up(who, None, refresh=False))

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, name=NAMES, change=CHANGES, kind=KINDS, number=NUMBER, accident=ACCIDENTS)
    def edited_up(self, who: str, name: str, change: str, kind: str, number: int, accident: Accident | None) -> None:
        """An edit, and `pulumi up`."""
        description = f"edit of {who}: {name}, {change}, {kind}, {number}"
        self._do(description, lambda: self._edit(who, name, change, kind, number))
        self._do(f"up of {who}, {accident}", lambda: self._up(who, accident, refresh=False))

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE)
    def preview(self, who: str) -> None:
        """`pulumi preview`."""
        self._do(f"preview of {who}", lambda: self._world.command(self._person(who), "preview"))

    @precondition(lambda self: not self.is_finished and self.people > 1)
    @rule(turns=st.lists(st.booleans(), min_size=4, max_size=60))
    def up_at_once(self, turns: list[bool]) -> None:
        """Two people's `up` at the same time."""
        steady = chain(turns, repeat(False))
        self._do(
            f"up of both, {''.join(str(int(turn)) for turn in turns)}", lambda: self._world.up_concurrently(steady)
        )

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, plain=st.booleans())
    def destroy(self, who: str, plain: bool) -> None:
        """`pulumi destroy --run-program`, or `trainstack destroy`."""
        if len(self._world.steps) > 5:
            self._do(f"destroy of {who}, plain={plain}", lambda: self._destroy(self._person(who), plain=plain))

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, name=NAMES, change=CHANGES, kind=KINDS, number=NUMBER)
    def edit(self, who: str, name: str, change: str, kind: str, number: int) -> None:
        """Add a run, or edit one."""
        self._do(
            f"edit of {who}: {name}, {change}, {kind}, {number}", lambda: self._edit(who, name, change, kind, number)
        )

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, number=NUMBER, clear=st.booleans())
    def stop(self, who: str, number: int, clear: bool) -> None:
        """Name a run to be stopped, or nobody any more."""
        self._do(f"stop of {who}: {number}, clear={clear}", lambda: self._stop(who, number, clear))

    @precondition(lambda self: not self.is_finished)
    @rule(number=NUMBER, status=st.sampled_from(["running", "succeeded", "succeeded", "failed", "suspended"]))
    def status(self, number: int, status: cluster.Status) -> None:
        """A launch runs, waits, or ends."""
        self._do_to(number, f"launch {number} is {status}", lambda launch: self._world.set_status(launch, status))

    @precondition(lambda self: not self.is_finished)
    @rule()
    def expire(self) -> None:
        """The TTL of a finished launch expires."""
        ended = [launch for launch in self._world.live_launches() if not launch.active]
        self._do("ended launches expire", lambda: self._expire(ended))

    @precondition(lambda self: not self.is_finished)
    @rule(number=NUMBER, label=st.sampled_from([STACK, RUN, LAUNCH]))
    def unmark(self, number: int, label: str) -> None:
        """A person removes a label of a launch."""
        self._do_to(number, f"launch {number} loses {label}", lambda launch: self._world.remove_label(launch, label))

    @precondition(lambda self: not self.is_finished)
    @rule(kind=st.sampled_from(["launch", LEDGER, WRAPPER]), number=NUMBER)
    def remove(self, kind: str, number: int) -> None:
        """A person deletes an object."""
        self._do(f"{kind} {number} is deleted", lambda: self._remove(kind, number))

    @precondition(lambda self: not self.is_finished)
    @rule(
        who=PEOPLE,
        change=st.sampled_from(["quota", "quota", "context", "clock", "garbage"]),
        resource=st.sampled_from([None, "count/configmaps", "count/jobs.batch"]),
        context=st.sampled_from([HOME, HOME, AWAY]),
        number=NUMBER,
    )
    def surroundings(self, who: str, change: str, resource: str | None, context: str, number: int) -> None:
        """A quota, the kubeconfig's context, the clock, the garbage collector."""
        namespace, hours = self._world.namespaces[number % 2], 24 * (number - 4)
        description, work = {
            "quota": (f"quota of {namespace}: {resource}", lambda: self._quota(namespace, resource)),
            "context": (f"{who} uses {context}", lambda: self._world.use_context(self._person(who), context)),
            "clock": (f"clock of {who}: {hours} h", lambda: self._clock(who, hours)),
            "garbage": ("garbage is collected", self._world.collect_garbage),
        }[change]
        self._do(description, work)

    @precondition(lambda self: self.is_finished)
    @rule()
    def nothing(self) -> None:
        """A sequence with a known fault ends."""

    # What the rules do

    @property
    def _world(self) -> World:
        assert self.world is not None
        return self.world

    def _person(self, who: str) -> str:
        return who if self.people > 1 else "ann"

    def _do(self, description: str, work: Callable[[], Any]) -> None:
        if self.is_finished:
            return
        self._world.steps.append(description)
        try:
            work()
        except AssertionError as error:
            if self.failures is None:
                raise
            self.failures.append((self._world, str(error)))
            self.is_finished = True

    def _do_to(self, number: int, description: str, work: Callable[[cluster.Launch], Any]) -> None:
        if self._world.live_launches():
            self._do(description, lambda: work(self._launch(number)))

    def _up(self, who: str, accident: Accident | None, *, refresh: bool) -> Session:
        who = self._person(who)
        if accident is None:
            return self._world.up(who, refresh=refresh)
        fault, moment_index, number = accident
        moments = WRITES if fault in ("deny", *FAULTS) else None
        reply_to = at_moment(moment_index, moments, lambda moment: self._inject(who, fault, number, moment))
        return self._world.up(who, reply_to, refresh=refresh)

    def _destroy(self, who: str, *, plain: bool) -> None:
        if plain:
            self._world.command(who, "destroy")
        else:
            self._world.command(who, DESTROY, keep_platform=True)

    def _inject(self, who: str, fault: str, number: int, moment: str) -> str:
        self._world.steps.append(f"… {fault} at {moment}")
        if fault in ("kill", "deny", *FAULTS):
            return DENIAL if fault == "deny" else fault
        if fault == "switch":
            self._world.use_context(self._person(who), AWAY)
        elif self._world.live_launches():
            launch = self._launch(number)
            if fault == "end":
                cluster.set_status(self._world.server(launch), launch.path, "succeeded")
                launch.status = "succeeded"
            else:
                self._world.remove_label(launch)
        return "go"

    def _expire(self, ended: list[cluster.Launch]) -> None:
        for launch in ended:
            self._world.expire(launch)

    def _launch(self, number: int) -> cluster.Launch:
        alive = self._world.live_launches()
        return alive[number % len(alive)]

    def _edit(self, who: str, name: str, change: str, kind: str, number: int) -> None:
        person, namespaces = self._world.people[self._person(who)], self._world.namespaces
        run = person.run(name)
        if change in ("remove", "args", "attempt"):
            self._world.edited.add(name)
        if run is None:
            person.runs.append(make_drawn_run(name, kind, namespaces[number % 2]))
        elif change == "remove":
            person.runs.remove(run)
        elif change == "args":
            main_container_of(run)["args"] = [str(number)]
        elif change == "memory":
            main_container_of(run)["resources"]["requests"]["memory"] = f"{64 + number}Mi"
        elif change == "attempt":
            run["attempt"] = 1 + number % 3
        elif change == "naming" and run["kind"] == "Job":
            run["naming"] = ("derived", "generated", "fixed")[number % 3]
        elif change == "namespace" and not run["managed"]:
            run["namespace"] = namespaces[number % 2]

    def _stop(self, who: str, number: int, clear: bool) -> None:
        person = self._world.people[self._person(who)]
        person.stop.clear()
        if not clear and self._world.live_launches():
            person.stop.append(self._launch(number).run_id)

    def _remove(self, kind: str, number: int) -> None:
        if kind == "launch":
            if self._world.live_launches():
                self._world.remove(self._launch(number))
        else:
            self._world.remove_config_map(kind, number)

    def _quota(self, namespace: str, resource: str | None) -> None:
        server = self._world.servers[HOME]
        if server.get(f"/api/v1/namespaces/{namespace}"):
            cluster.set_quota(server, namespace, resource)

    def _clock(self, who: str, hours: int) -> None:
        self._world.people[self._person(who)].clock_seconds = hours * 3600.0


def make_drawn_run(name: str, kind: str, namespace: str) -> Body:
    """Make a run of one of KINDS."""
    if kind == "pod":
        return make_run(name, namespace, kind="Pod")
    if kind == "managed":
        record = {"record": {"volume": "records"}, "volumes": [{"volume": "records", "mountPath": "/mnt/records"}]}
        return make_run(name, namespace.replace("-two", "-one"), managed=True, **record)
    if kind == "manifest":
        return make_manifest_run(name, namespace)
    if kind == "expiring":
        return make_run(name, namespace, ttlSecondsAfterFinished=TTL_SECONDS)
    return make_run(name, namespace, naming=kind)


def at_moment(index: int, moments: frozenset[str] | None, happen: Callable[[str], str]) -> ReplyTo:
    """Reply at one of the moments of a command, of any kind if `moments` is None."""
    seen = 0

    def reply_to(_: int, moment: str, name: str) -> str:
        nonlocal seen
        counted = moments is None or moment in moments
        chosen = counted and seen == index
        seen += counted
        return happen(f"{moment} {name}") if chosen else "go"

    return reply_to
