"""Which runs a command is about, what they are doing, and `trainstack wait`."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeVar, get_args

import typer

from trainstack.cli.console import err, fail, show_json
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.live.client import ClusterError, PermanentError
from trainstack.live.progress import view_runs
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.objects.labels import SET
from trainstack.runs.launches import LiveLaunch, Phase, live_launch, utc_now
from trainstack.runs.records import Ledger, wrapper_of
from trainstack.runs.status.run_view import RunView, bare_view

T = TypeVar("T")

PAUSE_SECONDS = 1.0
"""Between two looks at the cluster."""
MANY = 20
"""Of more launches than these the trials of sweeps are looked at no closer than their own objects tell: whoever looks
again and again at queue, pods and log of hundreds keeps a cluster from its work."""
MOST_SECONDS = 366 * 24 * 3600
"""Of `wait --timeout`."""
PATIENCE_SECONDS = 300
"""How long `wait` waits for a cluster that does not answer; a control plane's upgrade takes minutes."""

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id or its beginning, a workload, an object, a trial: search-3.")
]


OptionalRun = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", help="A run's id or its beginning, a workload, an object, a trial: search-3; none: all runs."
    ),
]


def as_data(view: RunView) -> dict[str, Any]:
    """A run for programs: what was read, and `done` from 0 to 1."""
    return asdict(view) | {"done": view.done_fraction}


def views(session: Session, run: str | None = None, *, with_usage: bool = False) -> list[RunView]:
    """The launches of a run, or all of the environment, as they are now. Ends the command when there is none to read.

    `with_usage`: ask what pods, nodes and volumes use too, which only an owner may.
    """
    try:
        return look(session, run, with_usage=with_usage)
    except ClusterError as error:
        return fail(str(error))


def look(session: Session, run: str | None = None, *, with_usage: bool = False) -> list[RunView]:
    """As `views`, but raises ClusterError."""
    return _viewed(session, launch_bodies(session, run), with_usage=with_usage)


def _look_if_there(session: Session, run: str | None) -> list[RunView]:
    """As `look`, but a run that has no object is no fault."""
    bodies = _bodies(session)
    return _viewed(session, bodies_of(matching([live_launch(body) for body in bodies], run), bodies))


def _viewed(session: Session, found: Sequence[Mapping[str, Any]], *, with_usage: bool = False) -> list[RunView]:
    settings = session.settings
    owner = settings.environment.profile == "owner"
    many = len(found) > MANY
    close = [body for body in found if not (many and SET in body["metadata"]["labels"])]
    views = view_runs(close, settings.cluster.context, utc_now(), cluster_wide=owner, with_usage=with_usage)
    return [*views, *(bare_view(body) for body in found if many and SET in body["metadata"]["labels"])]


def launch_bodies(session: Session, run: str | None) -> list[Mapping[str, Any]]:
    """The live objects of a run's launches, or of all. Raises ClusterError; ends the command when the run has none."""
    bodies = _bodies(session)
    return bodies_of(chosen([live_launch(body) for body in bodies], run), bodies)


def _bodies(session: Session) -> list[dict[str, Any]]:
    settings = session.settings
    return read_launches(settings.stack, run_namespaces(settings), settings.cluster.context)


def bodies_of(launches: Sequence[LiveLaunch], bodies: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The objects of these launches."""
    return [body for body in bodies if live_launch(body) in launches]


def chosen(launches: Sequence[LiveLaunch], run: str | None) -> list[LiveLaunch]:
    """The launches of one run, or all. Ends the command when the run has none."""
    found = matching(launches, run)
    if run is not None and not found:
        fail(_none(launches, run))
    return found


def _none(launches: Sequence[LiveLaunch], run: str) -> str:
    known = ", ".join(sorted({launch.run_id for launch in launches})) or "none"
    return f"no run {run!r} has an object in the cluster (there are: {known}); its record is on its volume"


def gone(session: Session, run_ids: Iterable[str]) -> str:
    """What there is to say of runs whose objects went away before one saw their end: whether a record tells it."""
    try:
        ledgers = {ledger.run_id: ledger for ledger in read_runs(session.settings).ledgers}
    except ClusterError as error:
        return f"{', '.join(run_ids)}: the object is gone, and its end was not seen; {error}"
    return "\n".join(_unseen(session, run_id, ledgers.get(run_id)) for run_id in run_ids)


def _unseen(session: Session, run_id: str, ledger: Ledger | None) -> str:
    if ledger is None:
        left = "nothing remembers its launch either: it was stopped, or destroyed"
    elif wrapper_of(ledger.objects) is None:
        left = "an unmanaged run keeps no record"
    else:
        left = f"its record tells how it ended: trainstack fetch {run_id} -s {session.stack}"
    return f"{run_id}: its object is gone, and its end was not seen; {left}"


def _without_object(session: Session, run: str) -> str:
    """What there is to say of a run that was named and has no object. Raises ClusterError."""
    known = read_runs(session.settings)
    launched = [each for each in known.ledgers if each.workload == run]
    launched = launched or [each for each in known.ledgers if each.run_id.startswith(run)]
    return "\n".join(_unseen(session, each.run_id, each) for each in launched) or _none(known.live, run)


def matching(launches: Sequence[LiveLaunch], run: str | None) -> list[LiveLaunch]:
    """The launches that a word on the command line names; all for None."""
    if run is None:
        return list(launches)
    # `digits` is every run of that workload, and none of `digits-small`.
    found = [launch for launch in launches if launch.run_id.rpartition("-")[0] == run]
    # `search-3` is the third trial, and not that of the run id `search-3f0c9a1b2d`.
    found = found or [launch for launch in launches if run in (launch.name, _numbered(launch))]
    return found or [launch for launch in launches if launch.run_id.startswith(run)]


def _numbered(launch: LiveLaunch) -> str | None:
    """A trial by its sweep and the number that it was launched with; None for what is no single trial."""
    sweep = launch.sweep
    return f"{sweep.name}-{sweep.number}" if sweep and sweep.number is not None else None


def wait(
    run: OptionalRun = None,
    stack: StackOption = "dev",
    timeout: Annotated[int, typer.Option(min=0, max=MOST_SECONDS, help="Seconds to wait at most.")] = 24 * 3600,
    *,
    as_json: JsonOption = False,
) -> None:
    """Wait until a run, or all of them, has ended; fail when one did.

    A Pod with restartPolicy Always never ends: it is waited for until its program has succeeded once.

    --json prints how they ended as `status --json` does, those that failed among them.

    Examples:

      trainstack wait -s dev

      trainstack wait digits-0f3c9a1b2d -s dev --timeout 600

      trainstack wait digits -s dev --json
    """
    session = Session.open(stack)
    found, faults = _ended(session, run, timeout)
    if as_json:
        show_json([as_data(view) for view in found])
    if faults:
        fail("\n".join(faults))


def tell(line: str) -> None:
    """Say something on the way."""
    err.print(f"  {line}", markup=False)


@dataclass
class Patience:
    """What those who watch make of a cluster that does not answer: they say so once and ask again.

    The runs go on without us, so that ends no watch, but for what will not mend itself: a missing kubeconfig or right.
    """

    session: Session
    seconds: float | None = None
    """How long it may be silent; None: for ever."""
    tell: Callable[[str], None] = tell
    _since: float | None = field(default=None, init=False)
    _said: str = field(default="", init=False)

    def missed(self, error: ClusterError) -> None:
        """There was no answer. Ends the command where it is of no use, or too late, to ask again."""
        if isinstance(error, PermanentError):
            fail(str(error))
        self._since = self._since or time.monotonic()
        if self.seconds is not None and time.monotonic() - self._since > self.seconds:
            fail(f"{error}; the runs go on without us. Look again with: trainstack status -s {self.session.stack}")
        if self._said != str(error):
            self._said = str(error)
            self.tell(f"{error}; asking again")

    def heard(self) -> None:
        """There was one."""
        self._since, self._said = None, ""

    def ask(self, question: Callable[[], T]) -> T:
        """The answer, as soon as there is one."""
        while True:
            try:
                answer = question()
            except ClusterError as error:
                self.missed(error)
                time.sleep(PAUSE_SECONDS)
            else:
                self.heard()
                return answer


def ending(session: Session, found: Sequence[RunView]) -> list[RunView]:
    """Those launches that end by themselves: a data loader is there to be used, whatever its command waits with."""
    loaders = {each.name for each in session.settings.workloads.runs if each.kind == "DataLoader"}
    return [view for view in found if view.launch.run_id.rpartition("-")[0] not in loaders]


def follow(session: Session, run: str | None, timeout: int) -> list[RunView]:
    """Show every change until all chosen launches have ended. Ends the command when one failed or time is up."""
    found, faults = _ended(session, run, timeout)
    if faults:
        fail("\n".join(faults))
    return found


def _ended(session: Session, run: str | None, timeout: int) -> tuple[list[RunView], list[str]]:
    """Show every change until all chosen launches have ended: how they are then, and what did not end well.

    Ends the command when time is up. A cluster that does not answer for a while is told once and asked again. A run
    whose object goes away before its end was seen did not end well: it may have failed. A data loader only waits to be
    used, so nobody waits for it; a Pod that is restarted always counts as ended once an attempt has succeeded.
    """
    end = time.monotonic() + timeout
    said: dict[str, str] = {}
    seen: dict[str, None] = {}
    """The runs that were active at some look, in order."""
    patience = Patience(session, PATIENCE_SECONDS)
    while True:
        here = patience.ask(lambda: _look_if_there(session, run))
        found = ending(session, here)
        if run is not None and here and not found:
            fail(f"{run} is a data loader: it waits until it is deleted, or its deadline ends it")
        if run is not None and not here and not seen:
            fail(patience.ask(lambda: _without_object(session, run)))
        seen |= dict.fromkeys(view.launch.run_id for view in found if view.launch.awaited)
        for name, line in _lines(found):
            if said.get(name) != line:
                said[name] = line
                tell(line)
        if not any(view.launch.awaited for view in found):
            break
        if time.monotonic() > end:
            fail(
                f"not ended within {timeout} s; it goes on in the cluster. Look again with: "
                f"trainstack status -s {session.stack}"
            )
        time.sleep(PAUSE_SECONDS)
    return found, _faults(session, found, seen)


def _lines(found: Sequence[RunView]) -> Iterator[tuple[str, str]]:
    """What each launch does, by its name; of many launches the trials of a sweep are counted."""
    counts: dict[str, Counter[str]] = {}
    for view in found:
        launch, done = view.launch, view.done_fraction
        if len(found) > MANY and launch.sweep is not None and launch.sweep.set_id:
            counts.setdefault(launch.sweep.name, Counter())[launch.phase] += 1
        else:
            yield launch.name, f"{launch.run_id}: {'' if done is None else f'{done:.0%} '}{view.summary()}"
    for name, phases in counts.items():
        yield name, f"{name}: {', '.join(f'{phases[phase]} {phase}' for phase in get_args(Phase) if phases[phase])}"


def _faults(session: Session, found: Sequence[RunView], seen: Iterable[str]) -> list[str]:
    """What did not end well: of the launches that are there, and of the runs that were active at some look."""
    faults = []
    failed = [view for view in found if view.launch.phase == "failed"]
    if failed:
        reasons = [f"{view.launch.run_id} ({view.failure or 'no reason given'})" for view in failed]
        first = failed[0].launch.run_id
        faults.append(f"failed: {', '.join(reasons)}. Read why: trainstack logs {first} -s {session.stack}")
    if lost := [run_id for run_id in seen if run_id not in {view.launch.run_id for view in found}]:
        faults.append(gone(session, lost))
    return faults
