"""Time series of a run, from its fetched record, its record on the volume, or its pods' logs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from trainstack.cli.output.console import fail, step
from trainstack.cli.run_records import bodies_once, fetch_run
from trainstack.cli.run_selection import ledgers_of
from trainstack.cli.session import Session
from trainstack.live.client import ClusterError, RightsError, read, read_text
from trainstack.live.snapshot import Runs, read_runs
from trainstack.objects.labels import RUN
from trainstack.reports.overlap import Placement
from trainstack.reports.runs import Definition, Run, from_logs, from_record, with_logs
from trainstack.runs.launches import utc_now
from trainstack.runs.ledgers import Ledger
from trainstack.runs.status.attempts import main_container, main_status, previous_attempt
from trainstack.transfer.record_check import DONE

_INDEX = "batch.kubernetes.io/job-completion-index"
Pod = Mapping[str, Any]


def figures(session: Session, names: Sequence[str]) -> list[Run]:
    """Return the named runs in their order: run ids or prefixes, workloads, `<run-id>/<index>`.

    A finished record that was fetched before needs no cluster. Raises ReportError, ClusterError and
    UnknownClusterError.
    """
    runs: list[Run] = []
    known: Runs | None = None
    live = bodies_once(session)
    for name in names:
        run_name, _, index = name.partition("/")
        if (session.results / name / DONE).is_file():
            runs.append(_recorded(session, run_name, index))
            continue
        known = known or read_runs(session.settings)
        ledger = _ledger(session, known.ledgers, run_name)
        if fetch_run(session, ledger, live) is not None:
            run = _recorded(session, ledger.run_id, index)
            runs.append(run if index else _with_placements(session, run, ledger.namespace))
        else:
            succeeded = {launch.run_id for launch in known.live if launch.phase == "succeeded" or launch.completed}
            runs.append(_from_pods(session, ledger, finished=ledger.run_id in succeeded))
    return runs


def _ledger(session: Session, ledgers: Sequence[Ledger], name: str) -> Ledger:
    found = ledgers_of(ledgers, name)
    if len(found) == 1:
        return found[0]
    listed = ", ".join(sorted(ledger.run_id for ledger in found or ledgers)) or "none"
    if found:
        return fail(f"{name!r} matches several runs; name one: {listed}")
    return fail(
        f"no run {name!r} was launched in {session.stack} (launched runs: {listed}), and results/ has no record of it"
    )


def _recorded(session: Session, run_id: str, index: str) -> Run:
    run = from_record(session.results / run_id / index, f"{run_id}/{index}" if index else run_id)
    workload = session.workload(run.workload)
    if not run.silent or workload is None:
        return run
    try:
        return with_logs(run, _logs(session, workload.namespace, _by_rank(_pods(session, workload.namespace, run_id))))
    except ClusterError:
        # The record suffices for a comparison, which names the replicas whose steps are unknown.
        return run


def _from_pods(session: Session, ledger: Ledger, *, finished: bool) -> Run:
    pods = _pods(session, ledger.namespace, ledger.run_id)
    by_rank = _by_rank(pods)
    if not by_rank:
        fail(
            f"{ledger.run_id} has no record and no started pod, so there is nothing to compare; a managed workload "
            "keeps a record (docs/runs.md)"
        )
    first = by_rank.get(0, next(iter(by_rank.values())))
    container = _container(first)
    notes = []
    if len(pods) > len(by_rank):
        names = ", ".join(pod["metadata"]["name"] for pod in by_rank.values())
        notes.append(f"{len(pods)} pods ran independently or one after the other; shown: {names}")
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


def _with_placements(session: Session, run: Run, namespace: str) -> Run:
    try:
        placements = _placements(_pods(session, namespace, run.run_id), utc_now())
    except ClusterError:
        return run
    return replace(run, placements=placements) if placements else run


def _placements(pods: Sequence[Pod], now: datetime) -> tuple[Placement, ...]:
    """Return the node of each pod with the main container's start and end; `now` while it is running."""
    found = []
    for pod in pods:
        status = main_status(pod)
        state = status.get("state") or {}
        ended = state.get("terminated") or {}
        # The status has no start of attempts before the last one.
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
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(f'{RUN}={run_id}')}"
    answer = read([path], session.settings.cluster.context)[path]
    if not answer.found:
        raise RightsError(
            f"the cluster answered {answer.status} to a list of pods in {namespace}; ask its owner for that right"
        )
    return [pod for pod in answer.body["items"] if pod["status"].get("phase") not in (None, "Pending", "Unknown")]


def _by_rank(pods: Sequence[Pod]) -> dict[int, Pod]:
    """Return one pod of each rank: one that has succeeded if there is one, else the youngest."""
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
    """Return the first value that is a whole number; `PET_NNODES` may be a range."""
    return next((int(values[name]) for name in names if values.get(name, "").isdecimal()), None)


def _environment(pod: Pod) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in _container(pod).get("env", ())}


def _container(pod: Pod) -> dict[str, Any]:
    containers: dict[str, dict[str, Any]] = {container["name"]: container for container in pod["spec"]["containers"]}
    return containers[main_container(pod)]


def _completed_before(pod: Pod) -> bool:
    """Return whether restartPolicy Always has restarted the main container after it had succeeded."""
    before = previous_attempt(pod)
    return before is not None and before.succeeded


def _log(session: Session, pod: Pod, path: str) -> str:
    """Read the log of one training, with the previous attempt's, which the node keeps too."""
    context = session.settings.cluster.context
    if not (_completed_before(pod) or main_status(pod).get("restartCount")):
        return read_text(path, context)
    texts = [read_text(f"{path}&previous=true", context), read_text(path, context)]
    if _completed_before(pod):
        # The current attempt repeats the training. Once it has ended, the node deletes the previous log.
        return max(texts, key=lambda text: text.count("\n"))
    return "\n".join(filter(None, texts))


def _logs(session: Session, namespace: str, by_rank: Mapping[int, Pod]) -> dict[int, str]:
    texts = {}
    with step(f"reading the logs of {len(by_rank)} pods"):
        for rank, pod in by_rank.items():
            query = f"container={quote(_container(pod)['name'])}&timestamps=true"
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/log?{query}"
            # Empty without the right to read it, or once the node has deleted it.
            if text := _log(session, pod, path):
                texts[rank] = text
    return texts
