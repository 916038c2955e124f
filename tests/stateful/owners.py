"""To whom objects belong: who made each of them, and which of them a command can no longer know as its own."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.apiserver import ApiServer, Event
from tests.stateful.checkout import Checkout
from tests.stateful.cluster import Launch
from trainstack.objects.labels import STACK, STATE

OTHERS_STATE = "f" * 32
"""The identity of a state that nobody here has."""
CLAIM = re.compile(r"/persistentvolumeclaims/[^/]+$")
Key = tuple[str, str]
"""Server, and path of an object."""


@dataclass
class Owners:
    """The owners of the objects of all servers."""

    makers: dict[Key, str] = field(default_factory=dict)
    """Who made the object, or adopted it."""
    unmarked: dict[Key, tuple[str, str]] = field(default_factory=dict)
    """The objects whose mark a person removed or changed: the mark, and its value before."""
    with_data: set[Key] = field(default_factory=set)
    """The claims that have a volume."""

    def lose_mark(self, key: Key, mark: str, old: str | None, new: str | None) -> None:
        """A person has removed or changed a mark. An object without a state's identity still belongs to its state."""
        if old is not None and old != new and not (mark == STATE and new is None):
            self.unmarked.setdefault(key, (mark, old))

    def forget_restored(self, name: str, server: ApiServer) -> None:
        """Forget the objects that have their mark again, or are gone."""
        for key, (mark, old) in list(self.unmarked.items()):
            if key[0] == name:
                metadata = (server.get(key[1]) or {}).get("metadata")
                field_name = "annotations" if mark == STATE else "labels"
                if metadata is None or (metadata.get(field_name) or {}).get(mark) == old:
                    del self.unmarked[key]

    def trespasses(
        self, name: str, event: Event, who: str, people: Mapping[str, Checkout], *, destroys: bool
    ) -> Iterator[str]:
        """Check one write of a person's command."""
        key = (name, path_of(event))
        what = f"{event.verb} {event.resource} {event.namespace}/{event.name}"
        maker = self.makers.get(key)
        if event.code == 201 or event.verb == "create":
            self.makers[key] = who
        elif maker not in (None, who):
            if not adopts(people[who], event):
                yield f"{who} wrote to what {maker} made: {what}"
            self.makers[key] = who
        if key in self.unmarked:
            mark, _ = self.unmarked[key]
            yield f"{who} wrote to an object whose {mark} a person removed or changed: {what}"
        if event.verb == "delete":
            if key in self.with_data and not destroys:
                yield f"{who} deleted a claim with data, which discard does not name: {what}"
            self.makers.pop(key, None)
            self.with_data.discard(key)

    def isolation(self, name: str, event: Event, who: str, launches: Iterable[Launch]) -> Iterator[str]:
        """Check that a namespace keeps its isolation while another owner's pod is active there.

        No controller makes pods of Jobs here.
        """
        if event.verb != "delete" or not event.resource.startswith("networkpolicies"):
            return
        for launch in launches:
            maker = self.makers.get((name, launch.path))
            is_there = launch.server == name and launch.namespace == event.namespace and "/pods/" in launch.path
            if is_there and maker not in (None, who):
                yield f"{who} deleted {event.resource} {event.name} under {launch.path}, which {maker} made"


def path_of(event: Event) -> str:
    """The path of the object of a write."""
    path = event.uri.partition("?")[0]
    return f"{path}/{event.name}" if event.verb == "create" else path


def adopts(person: Checkout, event: Event) -> bool:
    """Return whether a person's files take over an object of another owner."""
    if event.resource == "persistentvolumeclaims":
        return event.namespace == person.first and person.claims.get(event.name, False)
    named = person.config["trainstack:environment"].get("namespaces", ())
    return event.resource == "namespaces" and {"name": event.name, "adopt": True} in named


MARKS = (STACK, STATE)
"""What an object's owner is known by."""
