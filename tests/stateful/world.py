"""A stack that several people use on several clusters, and its invariants."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver import ApiServer, User, write_kubeconfig
from tests.permissions import permit_all
from tests.stateful import cluster
from tests.stateful.checkout import Checkout, make_checkout
from tests.stateful.child import Operation
from tests.stateful.cluster import Launch, Status
from tests.stateful.goal import EVERYTHING, Selection
from tests.stateful.invariants import Observed
from tests.stateful.json_values import Body
from tests.stateful.network import LateRequest
from tests.stateful.provider import connect
from tests.stateful.session import Session
from tests.stateful.state import State, locks, state_path
from trainstack.live import paths
from trainstack.objects.labels import CLAIM, LEDGER, RUN, STACK
from trainstack.runs.ledgers import LAUNCHED
from trainstack.runs.names import ledger_name

_NUMBERS = count(1)
HOME, AWAY = "home", "away"
"""The contexts of a kubeconfig: two clusters."""
COLLEAGUES, STRANGER = ("ann", "bob"), "cat"
"""Two people with states of one stack, and one with another stack in the same namespaces."""
TTL_RESOLUTION_SECONDS = 1.0
"""Of the times of the API server."""
ReplyTo = Callable[[int, str, str], str]


@dataclass
class World(Observed):
    """Two checkouts of one stack, and one of another stack."""

    late: list[tuple[str, LateRequest]] = field(default_factory=list)
    """The requests that have not arrived yet, and who sent them."""
    exports: dict[str, list[Path]] = field(default_factory=dict)
    """The states that each person has exported."""

    # People

    @property
    def colleagues(self) -> list[Checkout]:
        """Those with the same stack."""
        return [self.people[who] for who in COLLEAGUES]

    def session(
        self,
        who: str,
        mode: str,
        *,
        refresh: bool = False,
        plain: bool = True,
        selection: Selection = EVERYTHING,
        **arguments: Any,
    ) -> Session:
        """Return the person's command at its first moment; `plain`: `pulumi destroy --run-program`, not ours."""
        person = self.people[who]
        person.write()
        permitted: AbstractContextManager[Mapping[str, str]] = nullcontext({})
        if not plain:
            resources = State.load(person.state).exported()["resources"]
            permitted = permit_all(person.root, person.stack, resources)
        # Before the first moment the program has used the permission up.
        with permitted as variables:
            operation = Operation(
                root=person.root,
                stack=person.stack,
                mode=mode,
                backend=person.backend,
                kubeconfig=person.kubeconfig,
                refresh=refresh,
                clock_seconds=person.clock_seconds,
                variables={**variables},
                selection=selection,
                arguments=arguments,
            )
            return Session(operation, self.collect_garbage).start()

    def command(self, who: str, mode: str, reply_to: ReplyTo | None = None, **options: Any) -> Session:
        """Run a person's command to its end, and look whether everything holds. `options`: those of `session`."""
        self.cancel(who)
        self.deliver()
        return self.command_on_locked(who, mode, reply_to, **options)

    def command_on_locked(self, who: str, mode: str, reply_to: ReplyTo | None = None, **options: Any) -> Session:
        """Run a command as `command` does, also on a stack that a killed one has left locked."""
        session = self.session(who, mode, **options)
        try:
            session.finish(reply_to)
        finally:
            session.close()
        self.late += [(who, request) for request in session.late]
        self.check_invariants({who: session})
        return session

    def claims(self) -> list[tuple[ApiServer, Body]]:
        """The open claims, with their servers."""
        return [(server, body) for server in self.servers.values() for body in cluster.claims(server, self.namespaces)]

    def arrive(self) -> None:
        """The requests of claimed launches take effect, although their answers were lost."""
        for server, claim in self.claims():
            cluster.arrive(server, claim)
        self.record_objects()

    def settle_claims(self) -> None:
        """People confirm the claims of launches that an interrupted `up` has made, and delete the others."""
        self.deliver()
        for name, server in self.servers.items():
            launched = {launch.run_id for launch in self.launches.values() if launch.server == name}
            for claim in cluster.claims(server, self.namespaces):
                if claim["data"]["run"] in launched:
                    unclaimed = {"metadata": {"annotations": {CLAIM: None}}}
                    server.send("PATCH", paths.object_path(claim), unclaimed, cluster.MERGE).checked()
                else:
                    cluster.delete(server, paths.object_path(claim))

    def up(self, who: str, reply_to: ReplyTo | None = None, **options: Any) -> Session:
        """`pulumi up`."""
        return self.command(who, "up", reply_to, **options)

    def up_concurrently(self, turns: Iterator[bool]) -> dict[str, Session]:
        """Run both people's `up` at the same time; `turns` is the order of their moments."""
        for who in COLLEAGUES:
            self.cancel(who)
        self.deliver()
        sessions = {who: self.session(who, "up") for who in COLLEAGUES}
        try:
            while running := [who for who, session in sessions.items() if not session.is_finished]:
                chosen = running[-1] if next(turns) else running[0]
                sessions[chosen].resume()
        finally:
            for session in sessions.values():
                session.close()
        self.check_invariants(sessions)
        return sessions

    def context(self, who: str) -> str:
        """The context that a person's kubeconfig leads to."""
        return str(yaml.safe_load(self.people[who].kubeconfig.read_text())["current-context"])

    def use_context(self, who: str, context: str) -> None:
        """`kubectl config use-context`."""
        person = self.people[who]
        contexts = {name: server.access(user_of(person, self.profile)) for name, server in self.servers.items()}
        write_kubeconfig(person.kubeconfig, contexts, context)

    # The engine's commands on states

    def cancel(self, who: str) -> None:
        """`pulumi cancel`."""
        for lock in locks(self.people[who].state):
            lock.unlink()

    def resources(self, who: str) -> list[str]:
        """The URNs of the objects in a person's state."""
        state = State.load(self.people[who].state)
        return [resource.urn for resource in state.resources if resource.type.startswith("kubernetes:")]

    def edit_state(self, who: str, edit: Callable[[State], None]) -> None:
        """Change a person's state, as `pulumi state` does."""
        edit(State.load(self.people[who].state))

    def export(self, who: str) -> None:
        """`pulumi stack export`."""
        person, kept = self.people[who], self.exports.setdefault(who, [])
        if person.state.exists():
            file = person.root / f"export-{len(kept)}.json"
            shutil.copy(person.state, file)
            kept.append(file)

    def import_older(self, who: str, number: int) -> None:
        """`pulumi stack import` of an export of the same stack's name."""
        person = self.people[who]
        if kept := self.exports.get(who):
            shutil.copy(kept[number % len(kept)], person.state)

    def rename(self, who: str) -> None:
        """`pulumi stack rename`, there and back again."""
        person = self.people[who]
        new = person.stack.removesuffix("x") if person.stack.endswith("x") else f"{person.stack}x"
        if person.state.exists():
            State.load(person.state).rename(state_path(person.backend, new))
            (person.root / f"Pulumi.{person.stack}.yaml").unlink(missing_ok=True)
            person.stack = new
            self.exports.pop(who, None)

    # The clusters

    def deliver(self) -> None:
        """Let the late requests arrive."""
        if not self.late:
            return
        late, self.late = self.late, []
        for who, request in late:
            name = next(name for name, server in self.servers.items() if request.url.startswith(server.server))
            client = connect(str(self.people[who].kubeconfig), name).client
            with client:
                client.request(request.method, request.url, headers=request.headers, content=request.content)
        self.check_invariants({})

    def collect_garbage(self) -> None:
        """Run the garbage collector."""
        for server in self.servers.values():
            cluster.collect_garbage(server, self.namespaces)

    def lift_quotas(self) -> None:
        """Allow any number of objects again."""
        for namespace, server in product(self.namespaces, self.servers.values()):
            if server.get(f"/api/v1/namespaces/{namespace}"):
                cluster.set_quota(server, namespace, None)

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

    def expire(self, launch: Launch) -> None:
        """The TTL of an ended launch passes; a person deletes one without a TTL."""
        if launch.ttl_seconds is None or launch.ended_at is None:
            self.remove(launch)
            return
        left = launch.ended_at + launch.ttl_seconds + TTL_RESOLUTION_SECONDS - time.monotonic()
        time.sleep(max(left, 0))
        launch.deleted_externally = True
        cluster.delete(self.server(launch), launch.path)
        self.record_objects()

    def remove(self, launch: Launch) -> None:
        """A person deletes a launch. Where it was only claimed, nothing remembers it."""
        launch.deleted_externally = True
        path = f"/api/v1/namespaces/{launch.namespace}/configmaps/{ledger_name(launch.run_id)}"
        ledger = self.server(launch).get(path) or {}
        if LAUNCHED not in (ledger.get("data") or {}):
            self.forgotten.add((launch.server, launch.run_id))
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

    def edit_mark(self, path: str, mark: str, value: str | None) -> None:
        """A person removes or changes what an object's owner is known by."""
        server = self.servers[HOME]
        if mark == STACK:
            self.unowned |= {launch.uid for launch in self.launches.values() if launch.path == path}
        self.owners.lose_mark((HOME, path), mark, cluster.edit_mark(server, path, mark, value), value)

    def bind_claims(self) -> None:
        """The claims that people declare get volumes with data."""
        for namespace in self.namespaces:
            folder = paths.collection_path("v1", "PersistentVolumeClaim", namespace)
            for claim in (self.servers[HOME].get(folder) or {}).get("items", []):
                path = f"{folder}/{claim['metadata']['name']}"
                if cluster.bind(self.servers[HOME], path):
                    self.owners.with_data.add((HOME, path))

    def remove_config_map(self, mark: str, number: int) -> None:
        """A person deletes a ledger or a wrapper."""
        for name, server in self.servers.items():
            stack = self.people["ann"].stack
            found = cluster.config_maps(server, self.namespaces, stack, mark)
            if found:
                chosen = found[number % len(found)]
                if mark == LEDGER:
                    self.forgotten.add((name, chosen["metadata"]["labels"].get(RUN, "")))
                cluster.delete(server, paths.object_path(chosen))
                return


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
    people = {who: make_checkout(who, folder / f"{stack}-{who}", stack, profile, namespaces) for who in COLLEAGUES}
    people[STRANGER] = make_checkout(STRANGER, folder / f"{stack}-{STRANGER}", f"{stack}-other", "tenant", namespaces)
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
