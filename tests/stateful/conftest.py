"""Two API servers for all sequences and cases: names differ, so that none sees another's objects."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.apiserver import ApiServer, api_server
from tests.stateful import cluster
from tests.stateful.world import AWAY, HOME

FLAGS = {"disable-admission-plugins": "ServiceAccount"}
"""No controller creates the accounts of new namespaces, without which this plugin refuses pods."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ApiServer]]:
    """The servers, by the context that leads to each."""
    with ExitStack() as running:
        started = {
            name: running.enter_context(api_server(tmp_path_factory.mktemp(f"api-{name}"), flags=FLAGS))
            for name in (HOME, AWAY)
        }
        for server in started.values():
            cluster.create_tenant_role(server)
        yield started
