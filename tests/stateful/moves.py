"""Moves of several steps, and those with the engine's less usual commands and options."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful import cluster, repair
from tests.stateful.checkout import make_run
from tests.stateful.commands import DESTROY, QUESTION, UP
from tests.stateful.goal import Selection
from tests.stateful.machine import CHANGES, KINDS, NAMES, PEOPLE, WRITES, Machine, at_moment, make_drawn_run
from tests.stateful.network import LATE
from tests.stateful.owners import MARKS, OTHERS_STATE
from tests.stateful.provider import RequestFailedError
from tests.stateful.world import HOME, STRANGER
from trainstack.live import paths
from trainstack.objects.labels import STACK, STATE

OBJECT = st.integers(0, 31)
"""One of all objects, or of all resources of a state."""
MARK = st.tuples(st.sampled_from(MARKS), st.booleans())
"""What a person removes from an object, or changes."""
PARTS = st.sampled_from(
    [
        "batch/v1:Job",
        "batch/v1:Job",
        "core/v1:Pod",
        "ConfigMap",
        "PersistentVolumeClaim",
        "NetworkPolicy",
        "Namespace",
        "one",
    ]
)
"""Of the URNs of the resources that a command is to take, or leave out; `one`: of a single resource."""
LAUNCHED = st.sampled_from(["expiring", "expiring", "derived", "generated", "fixed", "pod"])
"""Kinds of new runs: those that are removed when they have ended are most."""
CLAIM = "data"
CLOCKS = st.sampled_from([-600, 0, 600, 7200])
"""Seconds by which a machine is ahead."""


class Search(Machine):
    """One sequence of all moves."""

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, number=OBJECT, mark=MARK, then=st.sampled_from(["nothing", "up", "undeclare", "destroy"]))
    def lose_mark(self, who: str, number: int, mark: tuple[str, bool], then: str) -> None:
        """A person removes or changes what an object's owner is known by; perhaps the files drop the object then."""
        self._do(f"object {number} loses {mark}", lambda: self._lose_mark(number, *mark))
        self._do(f"then {then} of {who}", lambda: self._then(self._person(who), then))

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, change=st.sampled_from(["declare", "declare", "drop"]), bound=st.booleans())
    def claim(self, who: str, change: str, bound: bool) -> None:
        """Declare a claim beside those of runs, or drop it; perhaps it has data."""
        self._do(f"claim of {who}: {change}, bound={bound}", lambda: self._claim(self._person(who), change, bound))

    @precondition(lambda self: not self.is_finished)
    @rule(kind=st.sampled_from(["claim", "claim", "namespace"]), bound=st.booleans(), refresh=st.booleans())
    def hand_over(self, kind: str, bound: bool, refresh: bool) -> None:
        """Another stack adopts an object, and the first one drops it from its files."""
        self._do(
            f"hand-over of a {kind}, bound={bound}, refresh={refresh}", lambda: self._hand_over(kind, bound, refresh)
        )

    @precondition(lambda self: not self.is_finished)
    @rule(kind=st.sampled_from(["derived", "pod"]))
    def drop_namespace(self, kind: str) -> None:
        """The files drop a namespace in which another stack has an active run."""
        self._do(f"a namespace with another stack's {kind} is dropped", lambda: self._drop_namespace(kind))

    @precondition(lambda self: not self.is_finished)
    @rule(
        who=PEOPLE,
        command=st.sampled_from([(UP, False), (DESTROY, False), (DESTROY, True)]),
        between=st.sampled_from(["up", "edit", "edit", "mark", "hand-over", "kill"]),
        name=NAMES,
        kind=KINDS,
        number=OBJECT,
        stop=st.booleans(),
    )
    def question(
        self, who: str, command: tuple[str, bool], between: str, name: str, kind: str, number: int, stop: bool
    ) -> None:
        """Trainstack's `up` or `destroy`; before its question is answered something else happens."""
        description = f"{command} of {who}, stop={stop}; before its answer: {between}, {name}, {kind}, {number}"
        self._do(description, lambda: self._question(self._person(who), command, between, name, kind, number, stop))

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, kind=LAUNCHED, write=st.one_of(st.none(), st.integers(0, 9)), early=st.booleans())
    def late_write(self, who: str, kind: str, write: int | None, early: bool) -> None:
        """A request of an `up`, by default that of a launch, has no answer and takes effect later, and all runs end."""
        self._do(
            f"late write {write} of a new run ({kind}) of {who}, early={early}",
            lambda: self._late(self._person(who), kind, write, early),
        )

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, kind=LAUNCHED, ahead=CLOCKS, later=CLOCKS)
    def interrupted_launch(self, who: str, kind: str, ahead: int, later: int) -> None:
        """An `up` is killed when it has made a launch, which ends and expires; clocks differ."""
        description = f"launch of a new run ({kind}) by {who}, {ahead} s ahead, is interrupted and ends; then {later} s"
        self._do(description, lambda: self._interrupted(self._person(who), kind, ahead, later))

    @precondition(lambda self: not self.is_finished)
    @rule(
        who=PEOPLE,
        option=st.sampled_from(["target", "exclude", "exclude", "replace", "replace"]),
        part=PARTS,
        number=OBJECT,
        name=NAMES,
        change=CHANGES,
    )
    def selected_up(self, who: str, option: str, part: str, number: int, name: str, change: str) -> None:
        """An edit, and `pulumi up` with `--target`, `--exclude` or `--replace`."""
        self._do(f"edit of {who}: {name}, {change}", lambda: self._edit(who, name, change, "derived", number))
        self._do(
            f"up of {who} with {option} of {part} {number}",
            lambda: self._selected_up(self._person(who), option, part, number),
        )

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE, change=st.sampled_from(["delete", "export", "export", "import", "rename"]), number=OBJECT)
    def edit_state(self, who: str, change: str, number: int) -> None:
        """`pulumi state delete`, `stack export`, `stack import`, `stack rename`."""
        self._do(f"state of {who}: {change} {number}", lambda: self._edit_state(self._person(who), change, number))

    @precondition(lambda self: not self.is_finished)
    @rule(who=PEOPLE)
    def repair(self, who: str) -> None:
        """A person does what the doctor says."""
        self._do(f"{who} does what the doctor says", lambda: repair.repair(self._world, self._person(who)))

    # What the rules do

    def _lose_mark(self, number: int, mark: str, is_changed: bool) -> None:
        objects = cluster.all_objects(self._world.servers[HOME], self._world.namespaces)
        by_kind: dict[str, list[str]] = {}
        for body in objects:
            if STACK in body["metadata"].get("labels", {}):
                by_kind.setdefault(body["kind"], []).append(paths.object_path(body))
        if by_kind:
            kind = sorted(by_kind)[number % len(by_kind)]
            path = sorted(by_kind[kind])[number // len(by_kind) % len(by_kind[kind])]
            value = {STACK: "another", STATE: OTHERS_STATE}[mark] if is_changed else None
            self._world.edit_mark(path, mark, value)

    def _then(self, who: str, then: str) -> None:
        person = self._world.people[who]
        active = [launch.run_id for launch in self._world.live_launches() if launch.active]
        if then == "undeclare":
            self._world.edited |= {run["name"] for run in person.runs}
            person.runs.clear()
            person.claims.clear()
            person.stop.extend(active)
        if then == "destroy":
            self._world.command(who, DESTROY, keep_platform=True, stop=active)
        elif then != "nothing":
            self._world.up(who)
            person.stop.clear()

    def _claim(self, who: str, change: str, bound: bool) -> None:
        claims = self._world.people[who].claims
        if change == "drop":
            claims.pop(CLAIM, None)
        else:
            claims.setdefault(CLAIM, False)
        self._world.up(who)
        if bound:
            self._world.bind_claims()

    def _hand_over(self, kind: str, bound: bool, refresh: bool) -> None:
        ann, cat = self._world.people["ann"], self._world.people[STRANGER]
        if kind == "claim":
            self._claim("ann", "declare", bound)
            cat.claims[CLAIM] = True
            self._world.up(STRANGER)
            ann.claims.pop(CLAIM)
            self._world.up("ann", refresh=refresh)
        elif self._world.profile == "owner":
            namespace = {"name": self._world.namespaces[1]}
            self._world.up("ann")
            cat.config["trainstack:environment"] |= {"profile": "owner", "namespaces": [{**namespace, "adopt": True}]}
            self._world.up(STRANGER)
            self._drop(namespace["name"], refresh=refresh)

    def _drop_namespace(self, kind: str) -> None:
        if self._world.profile == "owner":
            namespace = self._world.namespaces[1]
            self._world.up("ann")
            if not (cat := self._world.people[STRANGER]).runs:
                cat.runs.append(make_run("other", namespace, kind="Pod" if kind == "pod" else "Job"))
            self._world.up(STRANGER)
            self._drop(namespace, refresh=False)

    def _drop(self, namespace: str, *, refresh: bool) -> None:
        """Drop a namespace from the files of its stack."""
        ann = self._world.people["ann"]
        environment = ann.config["trainstack:environment"]
        environment["namespaces"] = [entry for entry in environment["namespaces"] if entry["name"] != namespace]
        self._world.up("ann", refresh=refresh)
        environment["namespaces"] = [{"name": name} for name in self._world.namespaces]

    def _question(
        self, who: str, command: tuple[str, bool], between: str, name: str, kind: str, number: int, stop: bool
    ) -> None:
        mode, keep_platform = command
        active = [launch.run_id for launch in self._world.live_launches() if launch.active]
        options = {"keep_platform": keep_platform, "stop": active if stop else []}

        def reply_to(_: int, moment: str, __: str) -> str:
            if moment == QUESTION:
                self._world.steps.append("… its question")
                self._between(who, between, name, kind, number)
                return "kill" if between == "kill" else "go"
            return "go"

        self._world.command(who, mode, reply_to, **(options if mode == DESTROY else {"wait": False}))

    def _between(self, who: str, between: str, name: str, kind: str, number: int) -> None:
        if between == "edit":
            self._edit(who, name, "args", kind, number)
        if between in ("edit", "up"):
            self._world.up(who)
        elif between == "mark":
            self._lose_mark(number, MARKS[number % 2], is_changed=number % 4 > 1)
        elif between == "hand-over" and CLAIM in self._world.people[who].claims:
            self._world.people[STRANGER].claims[CLAIM] = True
            self._world.up(STRANGER)

    def _late(self, who: str, kind: str, write: int | None, early: bool) -> None:
        name = self._add_run(who, kind)

        def launch_is_late(_: int, moment: str, resource: str) -> str:
            return self._inject(who, LATE, 0, moment) if moment == "create" and f"/{name}-" in resource else "go"

        any_is_late = at_moment(write or 0, WRITES, lambda moment: self._inject(who, LATE, 0, moment))
        self._world.up(who, launch_is_late if write is None else any_is_late)
        if early:
            self._world.deliver()
            self._end_all()
        self._world.command_on_locked(who, "up", self._deliver_at_first)
        self._end_all()
        self._world.up(who)
        self._world.settle_claims()

    def _deliver_at_first(self, index: int, _: str, __: str) -> str:
        """Let what is late arrive when the next command has decided."""
        if index == 0:
            self._world.deliver()
        return "go"

    def _add_run(self, who: str, kind: str) -> str:
        """Declare a run that nobody has had before. Returns its name."""
        name = f"extra{len(self._world.steps)}"
        self._world.people[who].runs.append(make_drawn_run(name, kind, self._world.namespaces[0]))
        return name

    def _end_all(self) -> None:
        for launch in self._world.live_launches():
            self._world.set_status(launch, "succeeded")
            self._world.expire(launch)

    def _interrupted(self, who: str, kind: str, ahead: int, later: int) -> None:
        person, name = self._world.people[who], self._add_run(who, kind)
        person.clock_seconds = ahead

        def reply_to(_: int, moment: str, resource: str) -> str:
            return "kill" if moment == "create done" and f"/{name}-" in resource else "go"

        self._world.up(who, reply_to)
        self._end_all()
        person.clock_seconds = later
        self._world.up(who)
        self._world.settle_claims()

    def _selected_up(self, who: str, option: str, part: str, number: int) -> None:
        if part == "one":
            resources = self._world.resources(who)
            part = resources[number % len(resources)] if resources else "none"
        self._world.up(who, selection=Selection(**{option: part}))

    def _edit_state(self, who: str, change: str, number: int) -> None:
        resources = self._world.resources(who)
        edits: dict[str, Any] = {
            "export": lambda: self._world.export(who),
            "import": lambda: self._world.import_older(who, number),
            "rename": lambda: self._world.rename(who),
        }
        if change in edits:
            edits[change]()
        elif resources:
            urn = resources[number % len(resources)]
            try:
                self._world.edit_state(who, lambda state: state.delete(urn))
            except RequestFailedError as error:
                self._world.steps.append(f"… refused: {error}")
