"""Selection of runs by name, waiting for them, and `trainstack wait`."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeVar, get_args

import typer

from trainstack.cli.console import fail, report, show_json
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.errors import ExitCode
from trainstack.live.client import ClusterError, PermanentError
from trainstack.live.progress import view_runs
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.objects.labels import SET
from trainstack.objects.ownership import identity
from trainstack.runs.launches import LiveLaunch, Phase, live_launch, utc_now
from trainstack.runs.ledgers import Ledger, wrapper_of
from trainstack.runs.status.run_view import RunView, bare_view

T = TypeVar("T")
Body = Mapping[str, Any]
"""A live object."""

PAUSE_SECONDS = 1.0
"""Between two reads of the cluster."""
MANY = 20
"""Above this number of launches, the queue, pods and logs of trials are not read. Of the ended runs, only this many are
read, the last ones. Repeated reads of hundreds of launches would load the cluster."""
MOST_SECONDS = 366 * 24 * 3600
"""Maximum of `wait --timeout`."""
PATIENCE_SECONDS = 300
"""How long `wait` retries while the cluster does not answer; an upgrade of its control plane takes minutes."""

_RUN = "A run id or a prefix of one, a workload, an object, or a trial such as search-3"
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=f"{_RUN}.")]
OptionalRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help=f"{_RUN} (default: all runs).")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Keep watching until all runs have ended.")]


def ensure_one_output(*, watch: bool, as_json: bool) -> None:
    if watch and as_json:
        fail("--watch and --json cannot be combined; omit one of them", ExitCode.USAGE)


def as_data(view: RunView) -> dict[str, Any]:
    return asdict(view) | {"done": view.done_fraction}


def look(session: Session, run: str | None = None, *, with_usage: bool = False) -> list[RunView]:
    """Read the launches of a run, or all of the environment. Raises ClusterError; exits if the run has none.

    `with_usage`: also read the usage of pods, nodes and volumes, which requires an owner's rights.
    """
    return _viewed(session, launch_bodies(session, run), with_usage=with_usage)


def _look_if_there(session: Session, run: str | None) -> list[RunView]:
    """Read the launches of a run, or all; [] if the run has none."""
    bodies = read_bodies(session)
    return _viewed(session, bodies_of(matching([live_launch(body) for body in bodies], run), bodies))


def _viewed(session: Session, bodies: Sequence[Body], *, with_usage: bool = False) -> list[RunView]:
    settings = session.settings
    owner = settings.environment.profile == "owner"
    bare = [bare_view(body) for body in bodies]
    left_out = {id(view) for view in without_earlier(bare)[1]}
    if len(bodies) > MANY:
        left_out |= {id(view) for view, body in zip(bare, bodies, strict=True) if SET in body["metadata"]["labels"]}
    full = [body for view, body in zip(bare, bodies, strict=True) if id(view) not in left_out]
    views = view_runs(full, settings, utc_now(), cluster_wide=owner, with_usage=with_usage)
    return [*views, *(view for view in bare if id(view) in left_out)]


def without_earlier(views: Sequence[RunView]) -> tuple[list[RunView], list[RunView]]:
    """Split the views: all but the earlier ended runs, and the ended runs before the last MANY."""
    ended = sorted((view for view in views if view.ended), key=lambda view: view.ended or view.launch.created)
    earlier = ended[: max(len(ended) - MANY, 0)]
    ids = {id(view) for view in earlier}
    return [view for view in views if id(view) not in ids], earlier


def launch_bodies(session: Session, run: str | None) -> list[Body]:
    """Read the objects of a run's launches, or of all. Raises ClusterError; exits if the run has none."""
    bodies = read_bodies(session)
    return bodies_of(chosen([live_launch(body) for body in bodies], run), bodies)


def read_bodies(session: Session) -> list[dict[str, Any]]:
    settings = session.settings
    return read_launches(settings, run_namespaces(settings))


def bodies_of(launches: Sequence[LiveLaunch], bodies: Sequence[Body]) -> list[Body]:
    wanted = {(launch.kind, launch.namespace, launch.name) for launch in launches}
    return [body for body in bodies if identity(body) in wanted]


def chosen(launches: Sequence[LiveLaunch], run: str | None) -> list[LiveLaunch]:
    """Return the launches of one run, or all; exits if the run has none."""
    found = matching(launches, run)
    if run is not None and not found:
        fail(_no_object(launches, run))
    return found


def _no_object(launches: Sequence[LiveLaunch], run: str) -> str:
    known = ", ".join(sorted({launch.run_id for launch in launches})) or "none"
    return (
        f"run {run!r} has no object in the cluster (runs that have one: {known}); if it was launched before, its "
        "record is on its volume"
    )


def unknown_results(session: Session, run_ids: Iterable[str]) -> str:
    """Describe runs whose objects were deleted before their results were read, with where a result is recorded."""
    try:
        ledgers = {ledger.run_id: ledger for ledger in read_runs(session.settings).ledgers}
    except ClusterError as error:
        return f"{', '.join(run_ids)}: the object was deleted before the result was known; {error}"
    return "\n".join(_unknown_result(session, run_id, ledgers.get(run_id)) for run_id in run_ids)


def _unknown_result(session: Session, run_id: str, ledger: Ledger | None) -> str:
    if ledger is None:
        remedy = "its ledger was deleted too, so the run was stopped or destroyed"
    elif wrapper_of(ledger.objects) is None:
        remedy = "an unmanaged run keeps no record"
    else:
        remedy = f"its record has the result: trainstack fetch {run_id} -s {session.stack}"
    return f"{run_id}: its object was deleted before the result was known; {remedy}"


def ledgers_of(ledgers: Sequence[Ledger], run: str) -> list[Ledger]:
    """Return the ledgers of a run id, else those of a workload, else those whose run ids start with the name."""
    return (
        [ledger for ledger in ledgers if ledger.run_id == run]
        or [ledger for ledger in ledgers if ledger.workload == run]
        or [ledger for ledger in ledgers if ledger.run_id.startswith(run)]
    )


def _without_object(session: Session, run: str) -> str:
    known = read_runs(session.settings)
    launched = ledgers_of(known.ledgers, run)
    lines = (_unknown_result(session, ledger.run_id, ledger) for ledger in launched)
    return "\n".join(lines) or _no_object(known.live, run)


def matching(launches: Sequence[LiveLaunch], run: str | None) -> list[LiveLaunch]:
    """Return the launches that a name on the command line refers to; all for None."""
    if run is None:
        return list(launches)
    # `digits` names the runs of that workload, not those of `digits-small`.
    found = [launch for launch in launches if launch.run_id.rpartition("-")[0] == run]
    # `search-3` names the third trial, not the run id `search-3f0c9a1b2d`.
    found = found or [launch for launch in launches if run in (launch.name, _trial_name(launch))]
    return found or [launch for launch in launches if launch.run_id.startswith(run)]


def _trial_name(launch: LiveLaunch) -> str | None:
    sweep = launch.sweep
    return f"{sweep.name}-{sweep.number}" if sweep and sweep.number is not None else None


def wait(
    run: OptionalRun = None,
    *,
    stack: StackOption,
    timeout: Annotated[int, typer.Option(min=0, max=MOST_SECONDS, help="Maximum time to wait, in seconds.")] = 86400,
    as_json: JsonOption = False,
) -> None:
    """Wait until a run, or all runs, have ended; exit with 1 if one failed.

    A Pod with restartPolicy Always is awaited until its program has succeeded once.

    --json prints the ended runs, including failed ones, in the format of `status --json`.

    Examples:
      trainstack wait -s dev
      trainstack wait digits-0f3c9a1b2d -s dev --timeout 600
      trainstack wait digits -s dev --json
    """
    follow(Session.open(stack), run, timeout, as_json=as_json)


class Changes:
    """Prints a subject's line only when it changes."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def report(self, subject: str, line: str) -> None:
        if self._lines.get(subject) != line:
            self._lines[subject] = line
            report(line)


@dataclass
class Patience:
    """Retries of reads while the cluster does not answer, each error reported once.

    The runs continue meanwhile, so only a permanent error, such as a missing kubeconfig or right, ends the command.
    """

    session: Session
    seconds: float | None = None
    """How long to retry; None: without limit."""
    report: Callable[[str], None] = report
    _since: float | None = field(default=None, init=False)
    _reported: str = field(default="", init=False)

    def missed(self, error: ClusterError) -> None:
        """Record a failed read; exits if the error is permanent or the time is up."""
        if isinstance(error, PermanentError):
            fail(str(error), error.exit_code)
        self._since = self._since or time.monotonic()
        if self.seconds is not None and time.monotonic() - self._since > self.seconds:
            status = f"trainstack status -s {self.session.stack}"
            fail(f"{error}; the runs continue. Check them with: {status}", error.exit_code)
        if self._reported != str(error):
            self._reported = str(error)
            self.report(f"{error}; retrying")

    def heard(self) -> None:
        """Record a successful read."""
        self._since, self._reported = None, ""

    def ask(self, read: Callable[[], T]) -> T:
        """Repeat a read until it succeeds, and return its result."""
        while True:
            try:
                answer = read()
            except ClusterError as error:
                self.missed(error)
                time.sleep(PAUSE_SECONDS)
            else:
                self.heard()
                return answer


def without_loaders(session: Session, views: Sequence[RunView]) -> list[RunView]:
    """Leave out data loaders, which wait until they are used."""
    loaders = {run.name for run in session.settings.workloads.runs if run.kind == "DataLoader"}
    return [view for view in views if view.launch.run_id.rpartition("-")[0] not in loaders]


def follow(session: Session, run: str | None, timeout: int, *, as_json: bool = False) -> list[RunView]:
    """Report every change until the chosen launches have ended. Exits if one failed or the time is up.

    A run whose object is deleted before its result is read counts as failed. Data loaders are not awaited. A Pod with
    restartPolicy Always has ended once an attempt has succeeded.
    """
    deadline = time.monotonic() + timeout
    changes = Changes()
    seen: dict[str, None] = {}
    """Run ids that were active at some point, in order."""
    patience = Patience(session, PATIENCE_SECONDS)
    while True:
        live = patience.ask(lambda: _look_if_there(session, run))
        found = without_loaders(session, live)
        if run is not None and live and not found:
            fail(f"{run} is a data loader, which runs until it is deleted or reaches its deadline")
        if run is not None and not live and not seen:
            fail(patience.ask(lambda: _without_object(session, run)))
        seen |= dict.fromkeys(view.launch.run_id for view in found if view.launch.awaited)
        for name, line in _lines(found):
            changes.report(name, line)
        if not any(view.launch.awaited for view in found):
            break
        if time.monotonic() > deadline:
            fail(
                f"not finished within {timeout} s; the runs continue. Check them with: "
                f"trainstack status -s {session.stack}"
            )
        time.sleep(PAUSE_SECONDS)
    if as_json:
        show_json([as_data(view) for view in found])
    if faults := _faults(session, found, seen):
        fail("\n".join(faults))
    return found


def _lines(views: Sequence[RunView]) -> Iterator[tuple[str, str]]:
    counts: dict[str, Counter[str]] = {}
    for view in views:
        launch, done = view.launch, view.done_fraction
        if len(views) > MANY and launch.sweep is not None and launch.sweep.set_id:
            counts.setdefault(launch.sweep.name, Counter())[launch.phase] += 1
        else:
            yield launch.name, f"{launch.run_id}: {'' if done is None else f'{done:.0%} '}{view.summary()}"
    for name, phases in counts.items():
        yield name, f"{name}: {', '.join(f'{phases[phase]} {phase}' for phase in get_args(Phase) if phases[phase])}"


def _faults(session: Session, views: Sequence[RunView], seen: Iterable[str]) -> list[str]:
    faults = []
    failed = [view for view in views if view.launch.phase == "failed"]
    if failed:
        reasons = [f"{view.launch.run_id} ({view.failure or 'no reason given'})" for view in failed]
        first = failed[0].launch.run_id
        faults.append(f"failed: {', '.join(reasons)}. See the log: trainstack logs {first} -s {session.stack}")
    if lost := [run_id for run_id in seen if run_id not in {view.launch.run_id for view in views}]:
        faults.append(unknown_results(session, lost))
    return faults
