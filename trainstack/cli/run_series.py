"""Where the figures of a run come from: its record here, its record on the volume, or its pods' logs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from trainstack.cli.console import fail, step
from trainstack.cli.files import fetch_run
from trainstack.cli.session import Session
from trainstack.live.client import ClusterError, read, read_text
from trainstack.live.snapshot import Runs, read_runs
from trainstack.objects.labels import RUN
from trainstack.reports.overlap import Placement
from trainstack.reports.runs import Definition, Run, from_logs, from_record, with_logs
from trainstack.runs.launches import utc_now
from trainstack.runs.records import Ledger
from trainstack.runs.status.attempts import main_container, main_status, previous_attempt
from trainstack.transfer.fetch import DONE

_INDEX = "batch.kubernetes.io/job-completion-index"
Pod = Mapping[str, Any]


def figures(session: Session, words: Sequence[str]) -> list[Run]:
    """The runs that these words name, in their order: ids or their beginnings, workloads, `<run-id>/<index>`.

    A finished record that was fetched before needs no cluster. Raises ReportError and ClusterError.
    """
    runs: list[Run] = []
    known: Runs | None = None
    for word in words:
        name, _, index = word.partition("/")
        if (session.results / word / DONE).is_file():
            runs.append(_recorded(session, name, index))
            continue
        known = known or read_runs(session.settings)
        ledger = _ledger(session, known.ledgers, name)
        if fetch_run(session, ledger) is not None:
            run = _recorded(session, ledger.run_id, index)
            runs.append(run if index else _placed(session, run, ledger.namespace))
        else:
            succeeded = {each.run_id for each in known.live if each.phase == "succeeded" or each.completed}
            runs.append(_from_pods(session, ledger, finished=ledger.run_id in succeeded))
    return runs


def _ledger(session: Session, ledgers: Sequence[Ledger], name: str) -> Ledger:
    """The one run of a name: its id, its workload's name, or the beginning of the id."""
    found = (
        [each for each in ledgers if each.run_id == name]
        or [each for each in ledgers if each.workload == name]
        or [each for each in ledgers if each.run_id.startswith(name)]
    )
    if len(found) == 1:
        return found[0]
    listed = ", ".join(sorted(each.run_id for each in found or ledgers)) or "none"
    if found:
        return fail(f"{name!r} may be any of these runs; name one: {listed}")
    return fail(f"no run {name!r} was launched in {session.stack} (there are: {listed}), nor is its record in results/")


def _recorded(session: Session, run_id: str, index: str) -> Run:
    run = from_record(session.results / run_id / index, f"{run_id}/{index}" if index else run_id)
    workload = next((each for _, each in session.settings.trained() if each.name == run.workload), None)
    if not run.silent or workload is None:
        return run
    try:
        return with_logs(run, _logs(session, workload.namespace, _by_rank(_pods(session, workload.namespace, run_id))))
    except ClusterError:
        # The record is enough for a comparison, which says whose steps are not known.
        return run


def _from_pods(session: Session, ledger: Ledger, *, finished: bool) -> Run:
    pods = _pods(session, ledger.namespace, ledger.run_id)
    by_rank = _by_rank(pods)
    if not by_rank:
        fail(
            f"{ledger.run_id} has no record, and no pod of it has begun or is left: there is nothing to compare. A "
            "managed workload keeps a record (docs/runs.md)"
        )
    first = by_rank.get(0, next(iter(by_rank.values())))
    container = _container(first)
    notes = []
    if len(pods) > len(by_rank):
        names = ", ".join(pod["metadata"]["name"] for pod in by_rank.values())
        notes.append(f"{len(pods)} pods ran apart from each other or one after the other; shown: {names}")
    notes += [
        f"pod {pod['metadata']['name']} was restarted after it had succeeded; shown: the last training that succeeded"
        for pod in by_rank.values()
        if _completed_before(pod)
    ]
    return from_logs(
        ledger.run_id,
        _logs(session, ledger.namespace, by_rank),
        workload=ledger.workload,
        finished=finished,
        world_size=_number(_environment(first), "WORLD_SIZE", "PET_NNODES"),
        definition=Definition(
            image=container["image"],
            command=tuple(container.get("command", ())),
            args=tuple(container.get("args", ())),
        ),
        notes=notes,
        placements=_placements(pods, utc_now()),
    )


def _placed(session: Session, run: Run, namespace: str) -> Run:
    """A recorded run with the nodes of its pods, as far as there are pods left to tell."""
    try:
        placements = _placements(_pods(session, namespace, run.run_id), utc_now())
    except ClusterError:
        return run
    return replace(run, placements=placements) if placements else run


def _placements(pods: Sequence[Pod], now: datetime) -> tuple[Placement, ...]:
    """Where the pods ran and when, from the start of the container that trains; until now where it has not ended."""
    found = []
    for pod in pods:
        status = main_status(pod)
        state = status.get("state") or {}
        ended = state.get("terminated") or {}
        # What was before a restart is not told but for the last attempt.
        first = ended or state.get("running") or {}
        start = pod["status"].get("startTime") if status.get("restartCount") or not first else first.get("startedAt")
        over = pod["status"]["phase"] in ("Succeeded", "Failed")
        end = ended.get("finishedAt") if over else now.isoformat()
        if start and end:
            found.append(
                Placement(pod["spec"].get("nodeName"), datetime.fromisoformat(start), datetime.fromisoformat(end))
            )
    return tuple(found)


def _pods(session: Session, namespace: str, run_id: str) -> list[Pod]:
    """The run's pods that have begun."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(f'{RUN}={run_id}')}"
    answer = read([path], session.settings.cluster.context)[path]
    if not answer.found:
        raise ClusterError(
            f"the cluster answered {answer.status} to list the pods in {namespace}; ask its owner for that right"
        )
    return [pod for pod in answer.body["items"] if pod["status"].get("phase") not in (None, "Pending", "Unknown")]


def _by_rank(pods: Sequence[Pod]) -> dict[int, Pod]:
    """One pod of each rank: one that has succeeded before others, then the youngest."""
    order = sorted(
        pods, key=lambda pod: (pod["status"]["phase"] == "Succeeded", str(pod["metadata"]["creationTimestamp"]))
    )
    return dict(sorted({_rank(pod): pod for pod in order}.items()))


def _rank(pod: Pod) -> int:
    environment = _environment(pod)
    rank = _number(environment, "RANK")
    if rank is None and "PET_NNODES" in environment:
        rank = _number(pod["metadata"].get("labels", {}), _INDEX)
    return rank or 0


def _number(values: Mapping[str, str], *names: str) -> int | None:
    """The first of these that is a whole number; `PET_NNODES` may be a range."""
    return next((int(values[name]) for name in names if values.get(name, "").isdecimal()), None)


def _environment(pod: Pod) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in _container(pod).get("env", ())}


def _container(pod: Pod) -> dict[str, Any]:
    """The one that trains."""
    containers: dict[str, dict[str, Any]] = {each["name"]: each for each in pod["spec"]["containers"]}
    return containers[main_container(pod)]


def _completed_before(pod: Pod) -> bool:
    """Whether the one that trains had succeeded and was restarted, by restartPolicy Always, to train the same again."""
    before = previous_attempt(pod)
    return before is not None and before.succeeded


def _log(session: Session, pod: Pod, path: str) -> str:
    """The log of one training. The node keeps that of the attempt before too; what lacks still, `Run.partial` tells."""
    context = session.settings.cluster.context
    if not (_completed_before(pod) or main_status(pod).get("restartCount")):
        return read_text(path, context)
    texts = [read_text(f"{path}&previous=true", context), read_text(path, context)]
    if _completed_before(pod):
        # The present attempt trains the same again. When it has just ended, the node removes the one before.
        return max(texts, key=lambda text: text.count("\n"))
    return "\n".join(filter(None, texts))


def _logs(session: Session, namespace: str, by_rank: Mapping[int, Pod]) -> dict[int, str]:
    texts = {}
    with step(f"reading the logs of {len(by_rank)} pods"):
        for rank, pod in by_rank.items():
            query = f"container={quote(_container(pod)['name'])}&timestamps=true"
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/log?{query}"
            # Empty where there is no right to it, or the node has it no more: then the rank has no log.
            if text := _log(session, pod, path):
                texts[rank] = text
    return texts
