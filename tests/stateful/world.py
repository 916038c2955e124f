"""A stack that several people use on several clusters, and its invariants."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

from tests.apiserver import ApiServer, Event, User, write_kubeconfig
from tests.permissions import permit_all
from tests.stateful import cluster
from tests.stateful.checkout import Checkout, make_checkout
from tests.stateful.child import Operation
from tests.stateful.cluster import Launch, Status
from tests.stateful.json_values import Body
from tests.stateful.provider import DELETION_TIMEOUT_MESSAGE
from tests.stateful.session import Session
from tests.stateful.state import State
from trainstack.live import paths
from trainstack.objects.labels import LEDGER, RUN, STACK
from trainstack.runs.names import ledger_name

_NUMBERS = count(1)
HOME, AWAY = "home", "away"
"""The contexts of a kubeconfig: two clusters."""
ReplyTo = Callable[[int, str, str], str]


class InvariantError(AssertionError):
    """An invariant does not hold."""


@dataclass
class World:
    """Two checkouts of one stack."""

    servers: dict[str, ApiServer]
    profile: str
    number: int
    namespaces: list[str]
    people: dict[str, Checkout]
    launches: dict[str, Launch] = field(default_factory=dict)
    """By uid; those that are gone too."""
    succeeded: set[tuple[str, str]] = field(default_factory=set)
    """Server and run id."""
    forgotten: set[tuple[str, str]] = field(default_factory=set)
    """Those of which a person removed the ledger, or an `up` did because the files no longer declare the run."""
    unowned: set[str] = field(default_factory=set)
    """The uids of launches from which a person removed the label of their stack."""
    edited: set[str] = field(default_factory=set)
    """The names of runs that an edit removed or made another run."""
    creators: dict[tuple[str, str, str, str], str] = field(default_factory=dict)
    """By server, resource, namespace and name: who made the object that is there."""
    writers: set[tuple[str, str, str]] = field(default_factory=set)
    """Who has ever written to which namespace of which server: person, server, namespace."""
    launched_unaware: set[str] = field(default_factory=set)
    """The uids of launches by tenants who could not see the launches of the same run."""
    first_servers: dict[str, str] = field(default_factory=dict)
    """By checkout: the server that it first wrote to."""
    copies: set[str] = field(default_factory=set)
    """The uids of launches that people made by hand."""
    offsets: dict[str, int] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    """What was done, for who reads a failure."""
    up_results: list[bool] = field(default_factory=list)
    """Of every finished `up`: whether it went well."""

    # People

    def session(self, who: str, mode: str, *, refresh: bool = False, plain: bool = True) -> Session:
        """Return the person's command at its first moment; `plain`: `pulumi destroy --run-program`, not ours."""
        person = self.people[who]
        person.write()
        permitted: AbstractContextManager[Mapping[str, str]] = nullcontext({})
        if not plain:
            resources = [asdict(resource) for resource in State.load(person.state).resources]
            permitted = permit_all(person.root, person.stack, resources)
        # Before the first moment the program has used the permission up.
        with permitted as variables:
            operation = Operation(
                root=person.root,
                stack=person.stack,
                mode=mode,
                state=person.state,
                kubeconfig=person.kubeconfig,
                refresh=refresh,
                clock_seconds=person.clock_seconds,
                variables={**variables},
            )
            return Session(operation, self.collect_garbage).start()

    def command(
        self, who: str, mode: str, reply_to: ReplyTo | None = None, *, refresh: bool = False, plain: bool = True
    ) -> Session:
        """Run a person's command to its end, and look whether everything holds."""
        session = self.session(who, mode, refresh=refresh, plain=plain)
        try:
            session.finish(reply_to)
        finally:
            session.close()
        self.check_invariants({who: session})
        return session

    def up(self, who: str, reply_to: ReplyTo | None = None, *, refresh: bool = False) -> Session:
        """`pulumi up`."""
        return self.command(who, "up", reply_to, refresh=refresh)

    def up_concurrently(self, turns: Iterator[bool]) -> dict[str, Session]:
        """Run both people's `up` at the same time; `turns` is the order of their moments."""
        sessions = {who: self.session(who, "up") for who in self.people}
        try:
            while running := [who for who, session in sessions.items() if not session.is_finished]:
                chosen = running[-1] if next(turns) else running[0]
                sessions[chosen].resume()
        finally:
            for session in sessions.values():
                session.close()
        self.check_invariants(sessions)
        return sessions

    def use_context(self, who: str, context: str) -> None:
        """`kubectl config use-context`."""
        person = self.people[who]
        contexts = {name: server.access(user_of(person, self.profile)) for name, server in self.servers.items()}
        write_kubeconfig(person.kubeconfig, contexts, context)

    # The clusters

    def collect_garbage(self) -> None:
        """Run the garbage collector."""
        for server in self.servers.values():
            cluster.collect_garbage(server, self.namespaces)

    def live_launches(self) -> list[Launch]:
        """The launches that are there."""
        return [launch for launch in self.launches.values() if not launch.deleted]

    def server(self, launch: Launch) -> ApiServer:
        """The one that a launch is on."""
        return self.servers[launch.server]

    def set_status(self, launch: Launch, status: Status) -> None:
        """A launch runs, waits, or ends."""
        cluster.set_status(self.server(launch), launch.path, status)
        self.record_objects()

    def remove(self, launch: Launch) -> None:
        """A person, or the TTL, deletes a launch."""
        launch.deleted_externally = True
        cluster.delete(self.server(launch), launch.path)
        self.record_objects()

    def copy(self, launch: Launch) -> None:
        """A person makes another launch of the same run, by the labels that it has."""
        self.copies.add(cluster.copy(self.server(launch), launch.path))
        self.record_objects()

    def remove_label(self, launch: Launch, label: str = STACK) -> None:
        """A person removes a label of a launch."""
        if label == STACK:
            self.unowned.add(launch.uid)
        cluster.remove_label(self.server(launch), launch.path, label)

    def remove_config_map(self, mark: str, number: int) -> None:
        """A person deletes a ledger or a wrapper."""
        for name, server in self.servers.items():
            stack = self.people["ann"].stack
            found = cluster.config_maps(server, self.namespaces, stack, mark)
            if found:
                chosen = found[number % len(found)]
                if mark == LEDGER:
                    self.forgotten.add((name, chosen["metadata"]["labels"].get(RUN, "")))
                cluster.delete(server, paths.location(chosen))
                return

    def claims(self) -> list[tuple[ApiServer, Body]]:
        """The open claims of the stack, with their servers."""
        stack = self.people["ann"].stack
        servers = self.servers.values()
        return [(server, body) for server in servers for body in cluster.claims(server, self.namespaces, stack)]

    def arrive(self, earlier: Collection[str] = ()) -> None:
        """The requests of claimed launches take effect, although their answers were lost; not those of earlier claims.

        `earlier`: the versions of their ledgers.
        """
        for server, claim in self.claims():
            if claim["metadata"]["resourceVersion"] not in earlier:
                cluster.arrive(server, claim)
        self.record_objects()

    # What must hold

    def record_objects(self) -> None:
        """Record the objects of the clusters."""
        for name, server in self.servers.items():
            here: set[str] = set()
            for body in cluster.launches(server, self.namespaces):
                metadata = body["metadata"]
                uid = metadata["uid"]
                here.add(uid)
                if uid not in self.launches:
                    run_id = metadata.get("labels", {}).get(RUN, "")
                    self.launches[uid] = Launch(name, uid, run_id, paths.location(body))
                found = self.launches[uid]
                found.status = cluster.status_of(body)
                found.deleted = "deletionTimestamp" in metadata
                if found.status == "succeeded":
                    self.succeeded.add((name, found.run_id))
            for launch in self.launches.values():
                if launch.server == name and launch.uid not in here:
                    launch.deleted = True

    def check_invariants(self, sessions: dict[str, Session]) -> None:
        """Check the invariants after these commands. Raises InvariantError."""
        before = {uid: (launch.active, launch.deleted) for uid, launch in self.launches.items()}
        succeeded = set(self.succeeded)
        self.record_objects()
        if any(session.operation.mode == "destroy" for session in sessions.values()):
            # Ledgers go with their stack.
            self.forgotten |= succeeded | self.succeeded
        events = {name: self._news(name) for name in self.servers}
        self._forget(events)
        trespasses = [*self._trespasses(events)]
        self._note_elsewhere({*before}, events)
        faults = [
            *self._crashes(sessions),
            *self._ended(before, sessions),
            *self._twice(),
            *self._again(before, succeeded),
            *trespasses,
            *self._written(events, sessions),
        ]
        if faults:
            raise InvariantError("\n".join([*faults, "after:", *self.steps]))

    def _news(self, name: str) -> list[Event]:
        server = self.servers[name]
        offset, self.offsets[name] = self.offsets.get(name, 0), server.offset()
        users = {person.user for person in self.people.values()}
        return [event for event in server.events(offset) if event.user in users]

    def _forget(self, events: dict[str, list[Event]]) -> None:
        """Forget runs whose ledger was deleted with them: they train again if they are declared again."""
        deleted = {(name, event.name) for name, news in events.items() for event in news if event.verb == "delete"}
        for launch in self.launches.values():
            gone = (launch.server, ledger_name(launch.run_id)) in deleted
            if gone and launch.run_id.rpartition("-")[0] in self.edited:
                self.forgotten.add((launch.server, launch.run_id))

    def _note_elsewhere(self, before: set[str], events: dict[str, list[Event]]) -> None:
        """A tenant's state sees the namespaces that its files name, and those that it wrote to."""
        for launch in self.launches.values() if self.profile == "tenant" else ():
            others = {
                other.namespace for other in self.launches.values() if other.uid in before and other.is_same_run(launch)
            }
            makers = {news.user for news in events[launch.server] if news.created(launch.namespace, launch.name)}
            for person in self.people.values():
                named = person.config["trainstack:environment"]["existing"].get("namespaces", ())
                seen = {*named, *(namespace for name, _, namespace in self.writers if name == person.name)}
                if launch.uid not in before and person.user in makers and others and not seen & others:
                    self.launched_unaware.add(launch.uid)

    def _crashes(self, sessions: dict[str, Session]) -> Iterator[str]:
        for who, session in sessions.items():
            if session.ended is None:
                continue
            if session.operation.mode == "up":
                self.up_results.append(session.ended.ok)
            if "unhandled exception" in session.ended.text or "stand-in:" in session.ended.text:
                yield f"crash: {session.operation.mode} of {who}: {session.ended.text}"

    def _ended(self, before: dict[str, tuple[bool, bool]], sessions: dict[str, Session]) -> Iterator[str]:
        """Check that only named runs are stopped."""
        named = {run for who in sessions for run in self.people[who].stop}
        ends = any(session.operation.variables for session in sessions.values())
        for uid, (active, _) in before.items():
            launch = self.launches[uid]
            if active and launch.deleted and not launch.deleted_externally and launch.run_id not in named and not ends:
                yield f"an active run was ended: {launch.path} (run {launch.run_id})"

    def _twice(self) -> Iterator[str]:
        """Check that no run has two active launches.

        Where people removed both the label of its stack and the ledger of a launch, another state cannot find it; nor
        can a tenant's state that knows no namespace of it.
        """
        active: dict[tuple[str, str], list[str]] = {}
        for launch in self.launches.values():
            hidden = launch.uid in self.unowned and (launch.server, launch.run_id) in self.forgotten
            if launch.active and launch.run_id and launch.uid not in self.copies | self.launched_unaware and not hidden:
                active.setdefault((launch.server, launch.run_id), []).append(launch.path)
        for (_, run_id), found in active.items():
            if len(found) > 1:
                yield f"two active launches of run {run_id}: {', '.join(found)}"

    def _again(self, before: dict[str, tuple[bool, bool]], succeeded: set[tuple[str, str]]) -> Iterator[str]:
        """Check that no run is launched again after its success."""
        for uid, launch in self.launches.items():
            known = (launch.server, launch.run_id) in succeeded - self.forgotten
            if uid not in before and known and uid not in self.launched_unaware:
                yield f"launched after it succeeded: {launch.path} (run {launch.run_id})"

    def _trespasses(self, events: dict[str, list[Event]]) -> Iterator[str]:
        """Check that no command writes to a cluster or an object that does not belong to the stack."""
        owners = {person.user: who for who, person in self.people.items()}
        for name, news in events.items():
            for event in news:
                if not event.is_write:
                    continue
                who = owners[event.user]
                if self.first_servers.setdefault(who, name) != name:
                    yield f"{who} wrote to another cluster: {event.verb} {event.resource} {event.name}"
                self.writers.add((who, name, event.namespace))
                key = (name, event.resource, event.namespace, event.name)
                maker = self.creators.get(key)
                if event.code == 201 or event.verb == "create":
                    self.creators[key] = who
                elif maker not in (None, who):
                    yield f"{who} wrote to what {maker} made: {event.verb} {event.resource} {event.name}"
                if event.verb == "delete":
                    self.creators.pop(key, None)

    def _written(self, events: dict[str, list[Event]], sessions: dict[str, Session]) -> Iterator[str]:
        """Check that a refused change wrote nothing, and that a preview only made dry runs."""
        for who, session in sessions.items():
            ended = session.ended
            # What ends a stack declares nothing, and has written before a deletion takes too long.
            refused = (
                ended is not None
                and not ended.ok
                and ended.declared == 0
                and DELETION_TIMEOUT_MESSAGE not in ended.text
            )
            if session.operation.mode != "preview" and not (refused and not session.operation.refresh):
                continue
            user = self.people[who].user
            for event in (item for news in events.values() for item in news if item.user == user and item.is_write):
                kind = "a preview" if session.operation.mode == "preview" else "a refused change"
                yield f"{kind} of {who} wrote: {event.verb} {event.resource} {event.name}"


def user_of(person: Checkout, profile: str) -> User:
    """Return the user name of a person on an API server."""
    return User(person.user, ("system:masters",) if profile == "owner" else ())


def make_world(servers: dict[str, ApiServer], folder: Path, profile: str, *, foreign: bool = True) -> World:
    """Return two people with their own checkouts and states of one environment.

    `foreign`: on the other cluster somebody else has namespaces of the same names.
    """
    number = next(_NUMBERS)
    stack = f"s{number:04d}"
    namespaces = [f"{stack}-one", f"{stack}-two"]
    people = {who: make_checkout(who, folder / f"{stack}-{who}", stack, profile, namespaces) for who in ("ann", "bob")}
    world = World(servers, profile, number, namespaces, people)
    for name, server in servers.items():
        for namespace in namespaces if profile == "tenant" or (foreign and name == AWAY) else ():
            server.make_namespace(namespace)
        for person in people.values() if profile == "tenant" else ():
            cluster.grant_tenant_role(server, person.user, namespaces)
        world.offsets[name] = server.offset()
    for who in people:
        world.use_context(who, HOME)
    return world
