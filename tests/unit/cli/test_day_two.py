"""Output of the day-two commands: tables, details, labels of log lines, the last line of a watch."""

import asyncio
import json
import re
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console

from tests.unit.live_objects import make_launch_body
from tests.unit.make import make_settings
from tests.unit.runs.logs.example_logs import KUBEFLOW, KUBEFLOW_TEST, MNIST, quickstart_epoch
from trainstack.cli import follow, retries, run_selection
from trainstack.cli.commands import events, logs, status, wait
from trainstack.cli.output.console import FILE_WIDTH, duration, out, quiet_interrupt, show
from trainstack.cli.session import Session
from trainstack.live.client import ClusterError, PermanentError, RightsError
from trainstack.live.logs import LogSource
from trainstack.runs.launches import LiveLaunch, Phase
from trainstack.runs.ledgers import Ledger
from trainstack.runs.logs.log_lines import LogLine
from trainstack.runs.logs.training_progress import TrainingProgress, estimate_progress
from trainstack.runs.manifests.kind import Replicas
from trainstack.runs.status.attempts import PodAttempt
from trainstack.runs.status.pods import PodView
from trainstack.runs.status.run_view import ClaimUse, Condition, RunView

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PAGE = Path(__file__).parents[3] / "docs" / "day-two.md"


def make_view(run_id: str, phase: Phase, kind: str = "Job", *, seconds: float = 10, **changes: Any) -> RunView:
    """Return the view of a launch of this age."""
    created = NOW - timedelta(seconds=seconds)
    name = f"{run_id}-abcdef"
    launch = LiveLaunch(run_id, name, kind, "research", phase, created, name)
    return RunView(launch=launch, **{"queue": "research", **changes})


def make_pod(role: str, index: int, **changes: Any) -> PodView:
    """Return a running pod."""
    base = {"phase": "Running", "node": "local", "restarts": 0, "containers": ("init", "pytorch"), "problems": ()}
    base["main_container"] = "pytorch"
    return PodView(f"a-{role}-{index}", "uid", role, index, **{**base, **changes})


PROGRESS = TrainingProgress(
    epoch=5, epochs=12, step=20, steps=45, epoch_fraction=20 / 45, fraction=0.42, seconds_left=200
)
VIEWS = [
    make_view(
        "digits-0f3c9a1b2d",
        "running",
        "TrainJob",
        seconds=300,
        progress=PROGRESS,
        last_line="epoch 5/12 step 20/45 loss 0.11",
    ),
    make_view(
        "large-1e55a0c0de",
        "queued",
        seconds=120,
        position=0,
        waits_because="it never fits: it requests 3 cpu, but flavor cpu has at most 2, 1 short",
    ),
    make_view(
        "later-77aa00bb11",
        "queued",
        queue="held",
        position=1,
        waits_because="cluster queue held is stopped (stopPolicy): ask its owner to resume it",
    ),
]


def rendered(renderable: Any) -> str:
    """Return the lines that a file would hold."""
    console = Console(width=FILE_WIDTH, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def test_the_docs_show_the_table_that_status_draws() -> None:
    """The block below the commands is the table."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert rendered(status.table_of_runs(VIEWS, NOW)) == block


def test_a_narrow_terminal_has_the_reasons_below_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are wrapped beside the names of their runs; without reasons there is nothing below."""
    monkeypatch.setattr(out, "_force_terminal", True)
    monkeypatch.setattr(out, "_width", 80)
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        console.print(status.table_of_runs(VIEWS, NOW))
    head, *_, last_line = (line.rstrip() for line in capture.get().splitlines())
    assert (head.split()[-1], last_line) == ("AGE", f"{'':19}resume it")
    with console.capture() as capture:
        console.print(status.table_of_runs([make_view("new-0f3c9a1b2d", "queued")], NOW))
    assert len(capture.get().splitlines()) == 2


def test_text_of_a_pod_and_a_server_does_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of details keep their width: text is cleaned before it is measured."""
    hostile = "a\x1b[2J\x1b]0;title\x07\u202eb"
    view = make_view(
        hostile,
        "running",
        last_line=hostile,
        waits_because=hostile,
        conditions=(Condition(hostile, "True", hostile, NOW, hostile),),
        pods=(make_pod("worker", 1, phase=hostile, node=hostile, problems=(hostile,)),),
        claims=(ClaimUse(hostile, hostile, hostile, "unknown"),),
    )
    show(status.details_of_run(view, NOW), width=120)
    details = capsys.readouterr().out.splitlines()
    assert [line for line in details if not line.isprintable() or len(line) != 120] == []
    assert r"last line  a\u202eb" in "\n".join(details)
    show(status.table_of_runs([view], NOW))
    table = capsys.readouterr().out
    assert [line for line in table.splitlines() if not line.isprintable()] == []
    assert table.splitlines()[1].startswith(r"a\u202eb  Job   running")


def test_the_details_hold_everything() -> None:
    """Details list conditions, replicas, pods with their problems, and volumes."""
    view = make_view(
        "digits-0f3c9a1b2d",
        "running",
        "PyTorchJob",
        admitted=True,
        started=NOW - timedelta(hours=2),
        completed=NOW - timedelta(minutes=30),
        conditions=(Condition("Running", "True", "PyTorchJobRunning", NOW - timedelta(hours=2), "it runs"),),
        replicas=(Replicas("worker", 2, active=1, failed=1),),
        pods=(make_pod("worker", 1, restarts=3, problems=("CrashLoopBackOff (read its log)",)),),
        claims=(ClaimUse("training", "Bound", "2Gi", 2**30), ClaimUse("other", "missing", "unknown", "unknown")),
        progress=PROGRESS,
    )
    text = rendered(status.details_of_run(view, NOW))
    rows = [
        r"queue\s+research, admitted",
        r"started\s+2026-01-02 01:04:05 UTC, 2h ago",
        r"completed\s+2026-01-02 02:34:05 UTC, after 1h30m",
        r"42%\s+epoch 5/12\s+step 20/45\s+about 3m20s left",
        r"worker\s+1\s+0\s+1\s+2",
        r"Running\s+True\s+2h ago\s+PyTorchJobRunning\s+it runs",
        r"worker-1\s+a-worker-1\s+Running\s+local\s+3\s+CrashLoopBackOff \(read its log\)",
        r"training\s+Bound\s+2Gi\s+1\.00Gi",
        r"other\s+missing\s+unknown\s+unknown",
    ]
    assert [row for row in rows if not re.search(row, text)] == []


@pytest.mark.parametrize(
    ("line", "share", "position"),
    [
        (MNIST.format(2, 640, 60000, 1.0661, 2.300039), "1% of epoch 2", "1%  epoch 2  row 640/60000"),
        (KUBEFLOW.format(1, 640, 60000, 1.0661, 2.2135), "1% of epoch 1", "1%  epoch 1  row 640/60000"),
        (KUBEFLOW_TEST.format(0.9666), "", ""),
        (
            f"{quickstart_epoch(2)}\nloss: {1.3:>7f}  [{30064:>5d}/{60000:>5d}]",
            "50% of epoch 3",
            "50%  epoch 3  row 30064/",
        ),
        (f"loss: {1.3:>7f}  [{64:>5d}/{60000:>5d}]", "0% of the epoch", "0%  row 64/60000"),
    ],
)
def test_a_run_of_unknown_length_shows_its_place_in_the_epoch(line: str, share: str, position: str) -> None:
    """PyTorch's examples print the rows of the data set but no number of epochs, so the share of the run is unknown."""
    lines = [LogLine(0, text) for text in line.split("\n")]
    view = make_view("digits-0f3c9a1b2d", "running", "PyTorchJob", progress=estimate_progress(lines, None, NOW))
    row = rendered(status.table_of_runs([view], NOW)).splitlines()[1]
    assert row.split() == ["digits-0f3c9a1b2d", "PyTorchJob", "running", "research", *share.split(), "10s"]
    assert position in rendered(status.details_of_run(view, NOW))
    assert view.done_fraction is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0s"), (0.4, "0s"), (59, "59s"), (60, "1m"), (90, "1m30s"), (7500, "2h5m"), (90000, "1d1h"), (86401, "1d")],
)
def test_spans_of_time_for_people(seconds: float, words: str) -> None:
    """The largest unit and the next one are shown."""
    assert duration(seconds) == words


class Answers:
    """Answers of the cluster in order; the last one is repeated."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def __call__(self, *_: object, **__: object) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """Return the session of an environment without files; its commands do not pause."""
    session = Session(Path(), "test")
    monkeypatch.setattr(Session, "settings", make_settings())
    for module in (status, follow, retries, events, logs):
        monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    return session


def test_a_watch_ends_with_the_runs_and_outlives_a_silent_cluster(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line counts how the runs ended."""
    running = [make_view(f"{name}-0123456789", "running") for name in "abc"]
    ended = [make_view("a-0123456789", "succeeded"), make_view("b-0123456789", "failed"), running[2]]
    monkeypatch.setattr(status, "read_run_views", Answers(running, ClusterError("no answer"), ended, ended[:1]))
    status._watch(session, None)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "  no answer; retrying",
        "all have ended: 1 succeeded, 1 failed, 1 deleted before its result was known",
    ]
    assert "succeeded" in captured.out


def test_a_wait_reports_each_change_once_and_fails_with_the_reason(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason has the same words as in the status."""
    failed = Condition("Failed", "True", "BackoffLimitExceeded", NOW, "it failed too often")
    queued = VIEWS[1:2]
    ended = [make_view("large-1e55a0c0de", "failed", conditions=(failed,))]
    monkeypatch.setattr(follow, "read_views_of_any", Answers(queued, queued, ended))
    with pytest.raises(typer.Exit):
        follow.follow(session, None, 60)
    stderr = capsys.readouterr().err
    assert stderr.count("queued in research at position 0: it never fits") == 1
    assert "failed: large-1e55a0c0de (BackoffLimitExceeded: it failed too often)" in stderr


@pytest.mark.parametrize("error", [RightsError("no right to list jobs"), PermanentError("no kubeconfig at /no")])
def test_what_will_not_mend_itself_ends_every_watch_at_once(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: ClusterError
) -> None:
    """A retry would not help."""
    monkeypatch.setattr(Session, "open", lambda _: session)
    monkeypatch.setattr(status, "read_run_views", Answers(error))
    monkeypatch.setattr(follow, "read_views_of_any", Answers(error))
    monkeypatch.setattr(events, "_read_launches_and_events", Answers(error))
    commands = (
        lambda: follow.follow(session, None, 60),
        lambda: status._watch(session, None),
        lambda: events.events(stack="dev", watch=True),
    )
    for command in commands:
        with pytest.raises(typer.Exit):
            command()
        assert f"error: {error}" in capsys.readouterr().err


def test_events_are_watched_through_a_silence(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each silence is reported once."""
    monkeypatch.setattr(Session, "open", lambda _: session)
    running, ended = (make_view("a-0123456789", phase).launch for phase in ("running", "succeeded"))
    silent = ClusterError("no answer")
    monkeypatch.setattr(
        events, "_read_launches_and_events", Answers(silent, ([running], []), silent, silent, ([ended], []))
    )
    events.events(stack="dev", watch=True)
    assert capsys.readouterr().err.splitlines() == ["  no answer; retrying"] * 2


def test_a_wait_gives_up_on_a_cluster_that_stays_silent(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gives up after the patience of a wait; the message names the command for later."""
    monkeypatch.setattr(follow, "RETRY_SECONDS", -1)
    monkeypatch.setattr(follow, "read_views_of_any", Answers(ClusterError("no answer")))
    with pytest.raises(typer.Exit):
        follow.follow(session, None, 60)
    assert "no answer; the runs continue. Check them with: trainstack status -s test" in capsys.readouterr().err


def make_ledger(run_id: str, *, managed: bool) -> Ledger:
    """Return the ledger of a launch; the pods of a managed launch mount the wrapper."""
    volumes = [{"name": "trainstack-wrapper", "configMap": {"name": "wrapper"}}] if managed else []
    return Ledger(
        run_id=run_id,
        workload=run_id.rpartition("-")[0],
        namespace="research",
        attempt=1,
        launch_name=f"{run_id}-abcdef",
        launch={"kind": "Pod", "spec": {"containers": [], "volumes": volumes}},
    )


def serve_ledgers(monkeypatch: pytest.MonkeyPatch, *ledgers: Ledger) -> None:
    """Serve these ledgers and no launch."""
    monkeypatch.setattr(run_selection, "read_runs", lambda _: SimpleNamespace(ledgers=ledgers, live=()))


UNSEEN = "its object was deleted before the result was known; "


@pytest.mark.parametrize("word", [None, "a"])
def test_a_run_that_vanishes_before_its_end_was_seen_fails_a_wait(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str | None
) -> None:
    """The run may have failed. The message names its record, or the absence of one."""
    names = ["a-0123456789", "a-1123456789", "a-2123456789"]
    running = [make_view(name, "running") for name in names]
    monkeypatch.setattr(follow, "read_views_of_any", Answers([*running, make_view("a-3123456789", "running")], []))
    serve_ledgers(monkeypatch, make_ledger(names[0], managed=True), make_ledger(names[1], managed=False))
    with pytest.raises(typer.Exit) as caught:
        follow.follow(session, word, 60)
    assert caught.value.exit_code == 1
    stderr = capsys.readouterr().err
    assert f"{names[0]}: {UNSEEN}its record has the result: trainstack fetch {names[0]} -s test" in stderr
    assert f"{names[1]}: {UNSEEN}an unmanaged run keeps no record" in stderr
    assert f"{names[2]}: {UNSEEN}its ledger was deleted too" in stderr


def test_a_run_that_ended_before_it_was_deleted_is_no_error(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was launched again is no fault either."""
    views = [make_view("a-0123456789", "running"), make_view("b-0123456789", "succeeded")]
    monkeypatch.setattr(follow, "read_views_of_any", Answers(views, [make_view("a-0123456789", "succeeded")]))
    assert [view.launch.run_id for view in follow.follow(session, None, 60)] == ["a-0123456789"]


@pytest.mark.parametrize(
    ("word", "message"),
    [("a", f"a-0123456789: {UNSEEN}its record has the result: trainstack fetch a-"), ("b", "run 'b' has no object")],
)
def test_waiting_for_a_run_without_an_object_reports_what_is_left(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, message: str
) -> None:
    """The message depends on whether the run was ever launched."""
    monkeypatch.setattr(follow, "read_views_of_any", Answers([]))
    serve_ledgers(monkeypatch, make_ledger("a-0123456789", managed=True))
    with pytest.raises(typer.Exit):
        follow.follow(session, word, 60)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("phase", "code"), [("succeeded", 0), ("failed", 1)])
def test_a_wait_prints_how_the_runs_ended_as_json(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], phase: Phase, code: int
) -> None:
    """The JSON is that of `status`, also when a run failed."""
    monkeypatch.setattr(Session, "open", lambda _: session)
    ended = make_view("a-0123456789", phase)
    monkeypatch.setattr(follow, "read_views_of_any", Answers([make_view("a-0123456789", "running")], [ended]))
    serve_ledgers(monkeypatch)
    with pytest.raises(typer.Exit) if code else nullcontext():
        wait.wait("a", stack="dev", as_json=True)
    (item,) = json.loads(capsys.readouterr().out)
    assert item["launch"]["phase"] == phase
    monkeypatch.setattr(status, "read_run_views", lambda *_, **__: [ended])
    status.status(stack="dev", as_json=True)
    assert json.loads(capsys.readouterr().out) == [item]


def make_endless(*, completed: bool, **changes: Any) -> RunView:
    """Return the view of a Pod that is always restarted."""
    view = make_view("alone-0123456789", "running", "Pod", **changes)
    return replace(view, launch=replace(view.launch, endless=True, completed=completed))


def test_a_pod_that_is_restarted_always_is_awaited_until_it_has_succeeded_once(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`wait`, `up` and `status --watch` await it; the last line of the watch does not report another end."""
    reads = [make_endless(completed=False)], [make_endless(completed=True)]
    monkeypatch.setattr(follow, "read_views_of_any", Answers(*reads))
    (view,) = follow.follow(session, None, 60)
    assert view.launch.completed
    monkeypatch.setattr(status, "read_run_views", Answers(*reads))
    status._watch(session, None)
    assert "all have ended: 1 completed, and restarted by its policy" in capsys.readouterr().err


def test_the_details_of_a_pod_that_is_always_restarted_have_its_last_end() -> None:
    """The details also state that the Pod has no end."""
    attempt = PodAttempt(0, "Completed", NOW)
    text = rendered(
        status.details_of_run(
            make_endless(completed=True, pods=(make_pod("pod", 0, restarts=2, last_attempt=attempt),)), NOW
        )
    )
    assert re.search(r"end\s+none: restartPolicy Always restarts it", text)
    assert re.search(r"restarts\s+its last attempt ended with exit code 0 \(Completed\); restarts: 2", text)


@pytest.mark.parametrize(
    ("endless", "restarts", "exit_code", "repeated"),
    [(True, 1, 0, True), (True, 1, 1, False), (True, 0, 0, False), (False, 1, 0, False)],
    ids=["completed and restarted", "failed and restarted", "not restarted yet", "restarted on failure alone"],
)
def test_the_log_of_the_previous_attempt_is_shown(endless: bool, restarts: int, exit_code: int, repeated: bool) -> None:
    """It is shown where the present attempt only repeats the training."""
    view = make_endless(
        completed=True, pods=(make_pod("pod", 0, restarts=restarts, last_attempt=PodAttempt(exit_code, "", None)),)
    )
    view = replace(view, launch=replace(view.launch, endless=endless))
    assert logs._sources_of_repeated_training([view]) == (
        {LogSource("research", "a-pod-0", "uid", "pytorch")} if repeated else set()
    )


def test_following_the_logs_of_a_run_reports_its_deletion(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run was queued and had no pods."""
    body = make_launch_body()
    run_id = body["metadata"]["labels"]["trainstack.dev/run"]
    answers = Answers(([body], [make_view(run_id, "queued")]), ([], []))

    async def read_run_views(*_: object) -> Any:
        return answers()

    monkeypatch.setattr(logs, "_read_live_views", read_run_views)
    serve_ledgers(monkeypatch)
    with pytest.raises(typer.Exit):
        asyncio.run(logs._follow_logs(session, [body], logs._Selection(None, None, None, None)))
    assert f"{run_id}: {UNSEEN}its ledger was deleted" in capsys.readouterr().err


def test_log_lines_bear_their_replica(capsys: pytest.CaptureFixture[str]) -> None:
    """Labels are aligned; containers that prepare a pod are named; several launches have different labels."""
    view = make_view("a-0123456789", "running", pods=(make_pod("master", 0), make_pod("worker", 1)))
    printer = logs._Printer()
    selection = logs._Selection(role="worker", index=1, tail=None, since=None)
    sources = logs._sources([view], selection, printer)
    assert sources == [LogSource("research", "a-worker-1", "uid", name) for name in ("init", "pytorch")]
    for source in sources:
        printer.print(source, LogLine(0, "[bold]epoch 1/2[/bold]"))
    assert capsys.readouterr().out.splitlines() == [
        "worker-1 init │ [bold]epoch 1/2[/bold]",
        "worker-1      │ [bold]epoch 1/2[/bold]",
    ]
    injected = make_view("a-0123456789", "running", pods=(make_pod("worker", 1, containers=("pytorch", "proxy")),))
    assert [printer.labels[source] for source in logs._sources([injected], selection, printer)] == [
        "worker-1",
        "worker-1 proxy",
    ]
    logs._sources([view, make_view("b-0123456789", "queued")], selection, printer)
    assert printer.labels[sources[1]] == "a-0123456789-abcdef/worker-1"


@pytest.mark.parametrize("since", ["10", "1h30", "yesterday", ""])
def test_an_invalid_moment_is_refused(since: str) -> None:
    """The message names the two accepted forms."""
    with pytest.raises(typer.Exit):
        logs._parse_since(since)


def test_a_moment_is_a_span_or_a_time() -> None:
    """A time without a zone is in UTC."""
    assert logs._parse_since("2026-01-02T03:04:05Z") == logs._parse_since("2026-01-02T03:04:05") == NOW
    span = logs._parse_since("1h30m")
    assert span is not None
    assert abs((datetime.now(UTC) - span).total_seconds() - 5400) < 60


def test_ctrl_c_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with the exit code that shells give it."""
    with pytest.raises(typer.Exit) as caught, quiet_interrupt():
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert capsys.readouterr() == ("", "")
