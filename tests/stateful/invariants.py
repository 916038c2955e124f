"""The invariants of a stack that several people use on several clusters."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.apiserver import ApiServer, Event
from tests.stateful import cluster
from tests.stateful.checkout import Checkout
from tests.stateful.cluster import Launch
from tests.stateful.owners import Owners
from tests.stateful.provider import DELETION_TIMEOUT_MESSAGE
from tests.stateful.session import Session
from trainstack.live import paths
from trainstack.objects.labels import KIND, LEDGER, RUN
from trainstack.runs.ledgers import LAUNCHED
from trainstack.runs.names import ledger_name


class InvariantError(AssertionError):
    """An invariant does not hold."""


@dataclass
class Observed:
    """What was seen of the people and the clusters, and the invariants over it."""

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
    owners: Owners = field(default_factory=Owners)
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
                    ttl_seconds = body["spec"].get("ttlSecondsAfterFinished")
                    launch = Launch(name, uid, run_id, paths.object_path(body), ttl_seconds=ttl_seconds)
                    self.launches[uid] = launch
                found = self.launches[uid]
                found.status = cluster.status_of(body)
                if found.status in ("succeeded", "failed") and found.ended_at is None:
                    found.ended_at = time.monotonic()
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
        if any("destroy" in session.operation.mode for session in sessions.values()):
            # Ledgers go with their stack.
            self.forgotten |= succeeded | self.succeeded
        events = {name: self._news(name) for name in self.servers}
        self._forget(events)
        trespasses = [*self._trespasses(events, sessions)]
        self._note_elsewhere({*before}, events)
        faults = [
            *self._crashes(sessions),
            *self._ended(before, sessions),
            *self._twice(),
            *self._again(before, succeeded),
            *trespasses,
            *self._counted(),
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
            if session.operation.mode == "up" and not session.operation.selection.exclude:
                self.up_results.append(session.ended.ok)
            if "unhandled exception" in session.ended.text or "stand-in:" in session.ended.text:
                yield f"crash: {session.operation.mode} of {who}: {session.ended.text}"

    def _ended(self, before: dict[str, tuple[bool, bool]], sessions: dict[str, Session]) -> Iterator[str]:
        """Check that only named runs are stopped."""
        named = {run for who in sessions for run in self.people[who].stop}
        named |= {run for session in sessions.values() for run in session.operation.arguments.get("stop") or ()}
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

    def _trespasses(self, events: dict[str, list[Event]], sessions: dict[str, Session]) -> Iterator[str]:
        """Check that no command writes to a cluster or an object that does not belong to the stack."""
        people = {person.user: who for who, person in self.people.items()}
        active = [launch for launch in self.launches.values() if launch.active]
        for name, news in events.items():
            for event in news:
                if not event.is_write:
                    continue
                who = people[event.user]
                if self.first_servers.setdefault(who, name) != name:
                    yield f"{who} wrote to another cluster: {event.verb} {event.resource} {event.name}"
                self.writers.add((who, name, event.namespace))
                destroys = who in sessions and "destroy" in sessions[who].operation.mode
                yield from self.owners.isolation(name, event, who, active)
                yield from self.owners.trespasses(name, event, who, self.people, destroys=destroys)
            self.owners.forget_restored(name, self.servers[name])

    def _counted(self) -> Iterator[str]:
        """Check that no run is recorded as launched that never was."""
        for name, server in self.servers.items():
            launched = {launch.run_id for launch in self.launches.values() if launch.server == name}
            for ledger in cluster.config_maps(server, self.namespaces, "", LEDGER):
                data = ledger.get("data") or {}
                if KIND in ledger["metadata"]["labels"]:
                    continue  # the objects of further kinds are not looked at
                if LAUNCHED in data and data.get("run") not in launched:
                    yield f"recorded as launched, but never was: {data.get('run')} ({paths.object_path(ledger)})"

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
