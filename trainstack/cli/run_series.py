"""Time series of a run, from its fetched record, its record on the volume, or its pods' logs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from trainstack.cli.output.console import fail, step
from trainstack.cli.run_records import body_reader, fetch_run
from trainstack.cli.run_selection import ledgers_of
from trainstack.cli.session import Session
from trainstack.live.client import ClusterError, RightsError, read, read_text
from trainstack.live.snapshot import LiveRuns, read_runs
from trainstack.objects.labels import RUN
from trainstack.reports.overlap import RunPlacement
from trainstack.reports.run_figures import Definition, RunFigures, add_logs, run_from_logs, run_from_record
from trainstack.runs.launches import utc_now
from trainstack.runs.ledgers import Ledger
from trainstack.runs.status.attempts import main_status, previous_attempt
from trainstack.runs.status.main_container import main_container_name
from trainstack.transfer.record_check import SUCCESS_FILE

_INDEX = "batch.kubernetes.io/job-completion-index"
Pod = Mapping[str, Any]


def read_compared_runs(session: Session, names: Sequence[str]) -> list[RunFigures]:
    """Return the named runs in their order: run ids or prefixes, workloads, `<run-id>/<index>`.

    A finished record that was fetched before needs no cluster. Raises ReportError, ClusterError and
    UnknownClusterError.
    """
    runs: list[RunFigures] = []
    cluster_runs: LiveRuns | None = None
    read_live_bodies = body_reader(session)
    for name in names:
        run_name, _, index = name.partition("/")
        if (session.results / name / SUCCESS_FILE).is_file():
            runs.append(_read_recorded_run(session, run_name, index))
            continue
        cluster_runs = cluster_runs or read_runs(session.settings)
        ledger = _find_ledger(session, cluster_runs.ledgers, run_name)
        if fetch_run(session, ledger, read_live_bodies) is not None:
            run = _read_recorded_run(session, ledger.run_id, index)
            runs.append(run if index else _with_placements(session, run, ledger.namespace))
        else:
            succeeded = {
                launch.run_id for launch in cluster_runs.live if launch.phase == "succeeded" or launch.completed
            }
            runs.append(_read_run_from_pods(session, ledger, finished=ledger.run_id in succeeded))
    return runs


def _find_ledger(session: Session, ledgers: Sequence[Ledger], name: str) -> Ledger:
    matches = ledgers_of(ledgers, name)
    if len(matches) == 1:
        return matches[0]
    run_ids = ", ".join(sorted(ledger.run_id for ledger in matches or ledgers)) or "none"
    if matches:
        return fail(f"{name!r} matches several runs; name one: {run_ids}")
    return fail(
        f"no run {name!r} was launched in {session.stack} (launched runs: {run_ids}), and results/ has no record of it"
    )


def _read_recorded_run(session: Session, run_id: str, index: str) -> RunFigures:
    run = run_from_record(session.results / run_id / index, f"{run_id}/{index}" if index else run_id)
    workload = session.workload(run.workload)
    if not run.unlogged_ranks or workload is None:
        return run
    try:
        return add_logs(
            run, _read_logs(session, workload.namespace, _pods_by_rank(_read_pods(session, workload.namespace, run_id)))
        )
    except ClusterError:
        # The record suffices for a comparison, which names the replicas whose steps are unknown.
        return run


def _read_run_from_pods(session: Session, ledger: Ledger, *, finished: bool) -> RunFigures:
    pods = _read_pods(session, ledger.namespace, ledger.run_id)
    pods_by_rank = _pods_by_rank(pods)
    if not pods_by_rank:
        fail(
            f"{ledger.run_id} has no record and no started pod, so there is nothing to compare; a managed workload "
            "keeps a record (docs/runs.md)"
        )
    # The master if it has started: all replicas have its image and world size.
    first_pod = pods_by_rank.get(0, next(iter(pods_by_rank.values())))
    container = _container(first_pod)
    notes = []
    if len(pods) > len(pods_by_rank):
        names = ", ".join(pod["metadata"]["name"] for pod in pods_by_rank.values())
        notes.append(f"{len(pods)} pods ran independently or one after the other; shown: {names}")
    notes += [
        f"pod {pod['metadata']['name']} was restarted after it had succeeded; shown: the last training that succeeded"
        for pod in pods_by_rank.values()
        if _has_succeeded_before(pod)
    ]
    return run_from_logs(
        ledger.run_id,
        _read_logs(session, ledger.namespace, pods_by_rank),
        workload=ledger.workload,
        finished=finished,
        world_size=_first_number(_environment_variables(first_pod), "WORLD_SIZE", "PET_NNODES"),
        definition=Definition(
            image=container["image"],
            command=tuple(container.get("command", ())),
            args=tuple(container.get("args", ())),
        ),
        notes=notes,
        placements=_placements(pods, utc_now()),
    )


def _with_placements(session: Session, run: RunFigures, namespace: str) -> RunFigures:
    try:
        placements = _placements(_read_pods(session, namespace, run.run_id), utc_now())
    except ClusterError:
        return run
    return replace(run, placements=placements) if placements else run


def _placements(pods: Sequence[Pod], now: datetime) -> tuple[RunPlacement, ...]:
    """Return the node of each pod with the main container's start and end; `now` while it is running."""
    placements = []
    for pod in pods:
        status = main_status(pod)
        state = status.get("state") or {}
        terminated_state = state.get("terminated") or {}
        # The status has no start of attempts before the last one.
        latest_state = terminated_state or state.get("running") or {}
        start = (
            pod["status"].get("startTime")
            if status.get("restartCount") or not latest_state
            else latest_state.get("startedAt")
        )
        has_ended = pod["status"]["phase"] in ("Succeeded", "Failed")
        end = terminated_state.get("finishedAt") if has_ended else now.isoformat()
        if start and end:
            placements.append(
                RunPlacement(pod["spec"].get("nodeName"), datetime.fromisoformat(start), datetime.fromisoformat(end))
            )
    return tuple(placements)


def _read_pods(session: Session, namespace: str, run_id: str) -> list[Pod]:
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(f'{RUN}={run_id}')}"
    answer = read([path], session.settings.cluster.context)[path]
    if not answer.is_success:
        raise RightsError(
            f"the cluster answered {answer.status} to a list of pods in {namespace}; ask its owner for that right"
        )
    return [pod for pod in answer.body["items"] if pod["status"].get("phase") not in (None, "Pending", "Unknown")]


def _pods_by_rank(pods: Sequence[Pod]) -> dict[int, Pod]:
    """Return one pod of each rank: one that has succeeded if there is one, else the youngest."""
    ordered_pods = sorted(
        pods, key=lambda pod: (pod["status"]["phase"] == "Succeeded", str(pod["metadata"]["creationTimestamp"]))
    )
    return dict(sorted({_rank(pod): pod for pod in ordered_pods}.items()))


def _rank(pod: Pod) -> int:
    environment = _environment_variables(pod)
    rank = _first_number(environment, "RANK")
    if rank is None and "PET_NNODES" in environment:
        rank = _first_number(pod["metadata"].get("labels", {}), _INDEX)
    return rank or 0


def _first_number(values: Mapping[str, str], *names: str) -> int | None:
    """Return the first value that is a whole number; `PET_NNODES` may be a range."""
    return next((int(values[name]) for name in names if values.get(name, "").isdecimal()), None)


def _environment_variables(pod: Pod) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in _container(pod).get("env", ())}


def _container(pod: Pod) -> dict[str, Any]:
    containers: dict[str, dict[str, Any]] = {container["name"]: container for container in pod["spec"]["containers"]}
    return containers[main_container_name(pod)]


def _has_succeeded_before(pod: Pod) -> bool:
    """Return whether restartPolicy Always has restarted the main container after it had succeeded."""
    attempt = previous_attempt(pod)
    return attempt is not None and attempt.succeeded


def _read_log(session: Session, pod: Pod, path: str) -> str:
    """Read the log of one training, with the previous attempt's, which the node keeps too."""
    context = session.settings.cluster.context
    if not (_has_succeeded_before(pod) or main_status(pod).get("restartCount")):
        return read_text(path, context)
    texts = [read_text(f"{path}&previous=true", context), read_text(path, context)]
    if _has_succeeded_before(pod):
        # The current attempt repeats the training. Once it has ended, the node deletes the previous log.
        return max(texts, key=lambda text: text.count("\n"))
    return "\n".join(filter(None, texts))


def _read_logs(session: Session, namespace: str, pods_by_rank: Mapping[int, Pod]) -> dict[int, str]:
    texts = {}
    with step(f"reading the logs of {len(pods_by_rank)} pods"):
        for rank, pod in pods_by_rank.items():
            query = f"container={quote(_container(pod)['name'])}&timestamps=true"
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/log?{query}"
            # Empty without the right to read it, or once the node has deleted it.
            if text := _read_log(session, pod, path):
                texts[rank] = text
    return texts
