"""Read launches as commands show them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trainstack.cli.run_selection import Body, bodies_of, launch_bodies, matching, read_bodies
from trainstack.cli.session import Session
from trainstack.live.progress import view_runs
from trainstack.objects.labels import SET
from trainstack.runs.launches import live_launch, utc_now
from trainstack.runs.status.run_view import RunView, bare_view

MANY = 20
"""Above this number of launches, the queue, pods and logs of trials are not read. Of the ended runs, only this many are
read, the last ones. Repeated reads of hundreds of launches would load the cluster."""


def as_data(view: RunView) -> dict[str, Any]:
    return asdict(view) | {"done": view.done_fraction}


def read_run_views(session: Session, run: str | None = None, *, with_usage: bool = False) -> list[RunView]:
    """Read the launches of a run, or all of the environment. Raises ClusterError; exits if the run has none.

    `with_usage`: also read the usage of pods, nodes and volumes, which requires an owner's rights.
    """
    return _viewed(session, launch_bodies(session, run), with_usage=with_usage)


def read_views_of_any(session: Session, run: str | None) -> list[RunView]:
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


def without_loaders(session: Session, views: Sequence[RunView]) -> list[RunView]:
    """Leave out data loaders, which wait until they are used."""
    loaders = {run.name for run in session.settings.workloads.runs if run.kind == "DataLoader"}
    return [view for view in views if view.launch.run_id.rpartition("-")[0] not in loaders]
