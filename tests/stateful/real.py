"""The real engine and the stand-in with the same environment, edits and commands, each on its own server."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.apiserver import ApiServer, Body, Event
from tests.cluster.project import Project
from tests.permissions import permit_all
from tests.stateful import cluster
from tests.stateful.goal import Selection
from tests.stateful.session import COLLECTION_SECONDS
from tests.stateful.world import AWAY, HOME, World
from trainstack.objects.labels import CLAIM, FIELD_MANAGER, STATE

_CHOSEN = re.compile(r"-[a-z0-9]{5}$")
"""The end of a name that the API server chose."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)")
_DIFFERENT = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink")
Write = tuple[str, str, str, str, bool, bool]
"""Verb, resource, namespace, name, whether it was a dry run, and whether it went well."""


@dataclass
class EnginePair:
    """One environment twice: ann's checkout on `home` by the stand-in, and the real one on `away`."""

    world: World
    project: Project

    @property
    def servers(self) -> dict[str, ApiServer]:
        """By context."""
        return self.world.servers

    def command(
        self, mode: str, *, refresh: bool = False, selection: Mapping[str, str] = {}
    ) -> dict[str, tuple[bool, list[Write]]]:
        """Run a command by both; whether it went well, and what was written, by server.

        `selection`: `target`, `exclude` or `replace`, with a part of URNs.
        """
        ann = self.world.people["ann"]
        offsets = {name: server.offset() for name, server in self.servers.items()}
        plain, chosen = mode != "destroy", Selection(**selection)
        session = self.world.session("ann", mode, refresh=refresh, plain=plain, selection=chosen).finish()
        assert session.ended is not None
        self.project.write_stack(ann.stack, ann.config)
        with garbage_collector(self.servers[AWAY], self.world.namespaces):
            succeeded = self._real(mode, selection, refresh=refresh)
        self.world.collect_garbage()
        found = {HOME: session.ended.ok, AWAY: succeeded}
        return {name: (found[name], self._writes(name, offset)) for name, offset in offsets.items()}

    def _real(self, mode: str, selection: Mapping[str, str], *, refresh: bool) -> bool:
        if mode == "destroy":
            words = ("destroy", "--yes", "--skip-preview", "--run-program")
            with permit_all(self.project.root, self.project.stack, self.project.resources()) as variables:
                done = self.project.pulumi(*words, environment=variables)
        elif mode == "preview":
            done = self.project.pulumi("preview")
        else:
            options = [word for option, part in selection.items() for word in (f"--{option}", f"**{part}**")]
            done = self.project.up(*(("--refresh",) if refresh else ()), *options)
        return done.code == 0

    def for_each_launch(self, work: Any) -> None:
        """Do something with each launch, on both servers."""
        for server in self.servers.values():
            for body in cluster.launches(server, self.world.namespaces):
                work(server, body)

    def _writes(self, name: str, offset: int) -> list[Write]:
        user = self.world.people["ann"].user
        found = [event for event in self.servers[name].events(offset) if event.user == user]
        return sorted(
            _write(event) for event in found if event.verb in ("create", "update", "patch", "delete") and _counts(event)
        )

    def objects(self, name: str) -> dict[str, Body]:
        """Return the objects in the namespaces by path, without fields that differ between servers."""
        found: dict[str, Body] = {}
        for body in cluster.all_objects(self.servers[name], self.world.namespaces):
            metadata = body["metadata"]
            launched = metadata["name"]
            path = f"{body['kind']} {metadata.get('namespace', '')}/{_CHOSEN.sub('', launched)}"
            found[path] = _comparable(body)
        return found


def _counts(event: Event) -> bool:
    return "reviews" not in event.resource


def _write(event: Event) -> Write:
    name = _CHOSEN.sub("", event.name)
    return event.verb, event.resource, event.namespace, name, event.dry_run, event.code < 300


def _comparable(body: Body) -> Body:
    """An object without what each server sets for itself."""
    kept = json.loads(_TIME.sub("(a time)", json.dumps(body)))
    for key in _DIFFERENT:
        kept["metadata"].pop(key, None)
    annotations = kept["metadata"].get("annotations", {})
    for key in {CLAIM, STATE, FIELD_MANAGER} & annotations.keys():
        annotations[key] = "(a state)"
    for metadata in (kept["metadata"], kept.get("spec", {}).get("template", {}).get("metadata", {})):
        for labels in (metadata.get("labels", {}), kept.get("spec", {}).get("selector", {}).get("matchLabels", {})):
            labels.pop("controller-uid", None)
            labels.pop("batch.kubernetes.io/controller-uid", None)
            if "generateName" in kept["metadata"]:
                labels.pop("job-name", None)
                labels.pop("batch.kubernetes.io/job-name", None)
    kept["metadata"].pop("name")
    kept.pop("status", None)
    return dict(kept)


@contextmanager
def garbage_collector(server: ApiServer, namespaces: list[str]) -> Iterator[None]:
    """Play the garbage collector meanwhile."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(COLLECTION_SECONDS):
            cluster.collect_garbage(server, namespaces)

    collector = threading.Thread(target=work)
    collector.start()
    try:
        yield
    finally:
        over.set()
        collector.join()
