"""Whether a change has to be compared with the live objects: the engine's option `--refresh`."""

from collections.abc import Mapping
from typing import Any

from trainstack.cli.session import Session
from trainstack.lifecycle.drift import has_drifted
from trainstack.lifecycle.recovery.state import read_state
from trainstack.live.labeled_objects import read_recorded_metadata


def refresh_options(session: Session, deployment: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return `--refresh` unless all objects in the state are as the engine recorded them. Raises ClusterError.

    A refresh reads each object through the provider, one request each with its whole content.
    """
    state = read_state({"deployment": deployment})
    objects = [state_object for state_object in state.objects if not state_object.is_in_release]
    live_objects = read_recorded_metadata(session.stack, objects, session.settings.cluster.context) if objects else {}
    return ("--refresh",) if has_drifted(state, live_objects) else ()
