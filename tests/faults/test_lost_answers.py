"""Launches whose requests get no answer, or another one than a refusal: the real engine, behind a proxy."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver import ApiServer, api_server
from tests.cluster.project import Project
from tests.faults.launch_cases import NAMESPACE, make_config, objects, only_job
from tests.faults.proxy import Answered, Lost, Proxy, Request, proxy
from tests.stateful.checkout import make_run
from tests.stateful.cluster import age
from trainstack.runs.ledgers import is_claim

UNKNOWN: dict[str, Lost | Answered] = {
    "late": Lost(0.5),
    "never": Lost(None),
    "code-500": Answered(500, 'Internal error occurred: failed calling webhook "x": jobs "a" is forbidden: no'),
    "code-503": Answered(503),
    "code-504": Answered(504, "Timeout: request did not complete within requested timeout"),
    "code-408": Answered(408),
    "code-429": Answered(429),
}
"""The answers after which a launch may still appear, by the names of runs."""
REFUSED: dict[str, Lost | Answered] = {
    "code-403": Answered(403, 'jobs.batch "a" is forbidden: exceeded quota'),
    "code-409": Answered(409, "Apply failed with 1 conflict"),
    "code-422": Answered(422, 'Job.batch "a" is invalid: spec: no'),
    "webhook": Answered(400, 'admission webhook "x" denied the request: context deadline exceeded'),
    "no-text": Answered(413),
}
"""Those after which it cannot."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Yield an API server with a namespace, behind a proxy."""
    folder = tmp_path_factory.mktemp("lost")
    with api_server(folder / "api") as server, proxy(server, folder) as running:
        server.make_namespace(NAMESPACE)
        yield running


def make_stack(checkout: Project, name: str, *runs: str) -> Project:
    """Return a stack with these runs."""
    config = make_config(name)
    config["trainstack:environment"]["existing"]["namespaces"] = [NAMESPACE]
    config["trainstack:workloads"]["runs"] = [make_run(run, NAMESPACE) for run in runs]
    return checkout.other_stack(name, config)


def claims(server: ApiServer, *runs: str) -> dict[str, int]:
    """Return the number of open claims, and -1 for a completed one, by run."""
    found = {run: objects(server, "configmaps", run) for run in runs}
    return {run: sum(1 if is_claim(body) else -1 for body in bodies) for run, bodies in found.items()}


def test_a_claim_is_released_by_a_refusal_only(network: Proxy, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The next `up` finds the launch that appeared late, and makes the others once they can no longer appear."""
    server, faults = network.server, {**UNKNOWN, **REFUSED}

    def lose(request: Request) -> Lost | Answered | None:
        named = [run for run in faults if f"/{run}-" in request.path]
        return faults[named[0]] if named and request.writes("jobs") else None

    network.fault = lose
    checkout = Project.copy(tmp_path_factory.mktemp("checkout"), network)
    project = make_stack(checkout, "lost", "whole", *faults)
    done = project.up("--continue-on-error")
    network.fault = lambda _: None
    network.await_late()
    text = " ".join(done.text.split())
    assert done.code != 0, text
    expected = {"whole": -1} | dict.fromkeys(UNKNOWN, 1) | dict.fromkeys(REFUSED, 0)
    assert claims(server, "whole", *faults) == expected, text
    assert [run for run in faults if objects(server, "jobs", run)] == ["late"]
    for run in UNKNOWN:
        assert f"the cluster did not refuse Job {NAMESPACE}/{run}-" in text
    early = {run: only_job(server, run)["metadata"]["uid"] for run in ("whole", "late")}

    for run in UNKNOWN:
        for body in objects(server, "configmaps", run):
            age(server, {"apiVersion": "v1", "kind": "ConfigMap", **body}, 600)
    done = project.up()
    assert done.code == 0, done.text
    assert claims(server, "whole", *faults) == dict.fromkeys(("whole", *faults), -1)
    launched = {run: only_job(server, run)["metadata"]["uid"] for run in ("whole", *faults)}
    assert launched == {**launched, **early}


def test_a_failed_volume_deletes_no_launch(network: Proxy, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its update is refused. The launches that depend on it are kept, and a new run is launched by the next `up`."""
    server = network.server
    project = make_stack(Project.copy(tmp_path_factory.mktemp("failed"), network), "failed", "kept")
    claim = {
        "name": "data",
        "namespace": NAMESPACE,
        "storageClass": "standard",
        "size": "1Gi",
        "accessModes": ["ReadWriteOnce"],
    }
    project.edit_stack(lambda config: config.update({"trainstack:storage": {"volumes": [claim]}}))
    project.edit_stack(lambda config: config["trainstack:environment"]["existing"].update(storageClasses=["standard"]))
    done = project.up()
    assert done.code == 0, done.text
    launch = only_job(server, "kept")["metadata"]["uid"]

    def grow_and_add(config: dict[str, Any]) -> None:
        config["trainstack:storage"]["volumes"][0]["size"] = "2Gi"
        config["trainstack:workloads"]["runs"].append(make_run("added", NAMESPACE))

    project.edit_stack(grow_and_add)
    network.fault = lambda request: Answered(403, "no") if request.writes("persistentvolumeclaims") else None
    done = project.up("--continue-on-error")
    network.fault = lambda _: None
    assert done.code != 0
    assert "deleting" not in done.text
    assert "unhandled exception" not in done.text
    assert only_job(server, "kept")["metadata"]["uid"] == launch
    assert claims(server, "kept", "added") == {"kept": -1, "added": 0}, done.text

    project.edit_stack(lambda config: config["trainstack:storage"]["volumes"][0].update(size="1Gi"))
    done = project.up()
    assert done.code == 0, done.text
    assert only_job(server, "kept")["metadata"]["uid"] == launch
    assert claims(server, "kept", "added") == {"kept": -1, "added": -1}
