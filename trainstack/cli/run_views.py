"""Read launches as commands show them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trainstack.cli.run_selection import Body, bodies_of, launch_bodies, launches_named, read_bodies
from trainstack.cli.session import Session
from trainstack.live.run_views import read_launch_views
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
    return _view_bodies(session, launch_bodies(session, run), with_usage=with_usage)


def read_views_of_any(session: Session, run: str | None) -> list[RunView]:
    """Read the launches of a run, or all; [] if the run has none."""
    bodies = read_bodies(session)
    return _view_bodies(session, bodies_of(launches_named([live_launch(body) for body in bodies], run), bodies))


def _view_bodies(session: Session, bodies: Sequence[Body], *, with_usage: bool = False) -> list[RunView]:
    settings = session.settings
    is_owner = settings.environment.profile == "owner"
    bare_views = [bare_view(body) for body in bodies]
    left_out_ids = {id(view) for view in split_off_earlier(bare_views)[1]}
    if len(bodies) > MANY:
        left_out_ids |= {
            id(view) for view, body in zip(bare_views, bodies, strict=True) if SET in body["metadata"]["labels"]
        }
    full_bodies = [body for view, body in zip(bare_views, bodies, strict=True) if id(view) not in left_out_ids]
    views = read_launch_views(full_bodies, settings, utc_now(), cluster_wide=is_owner, with_usage=with_usage)
    return [*views, *(view for view in bare_views if id(view) in left_out_ids)]


def split_off_earlier(views: Sequence[RunView]) -> tuple[list[RunView], list[RunView]]:
    """Split the views: all but the earlier ended runs, and the ended runs before the last MANY."""
    ended_views = sorted(
        (view for view in views if view.end_time), key=lambda view: view.end_time or view.launch.created
    )
    earlier_views = ended_views[: max(len(ended_views) - MANY, 0)]
    ids = {id(view) for view in earlier_views}
    return [view for view in views if id(view) not in ids], earlier_views


def leave_out_loaders(session: Session, views: Sequence[RunView]) -> list[RunView]:
    """Leave out data loaders, which wait until they are used."""
    loader_names = {run.name for run in session.settings.workloads.runs if run.kind == "DataLoader"}
    return [view for view in views if view.launch.workload_name not in loader_names]
