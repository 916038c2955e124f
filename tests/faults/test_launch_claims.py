"""Launches are claimed before their creation, and found without their labels: the real engine on an API server alone.

The API server has no Job controller: a Job stays active until its status is written.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.apiserver import ApiServer
from tests.cluster.project import Project, eventually
from tests.faults.launch_cases import (
    MERGE,
    MOVED,
    NAMESPACE,
    job_path,
    launch_server,
    make_config,
    objects,
    only_job,
)
from tests.stateful.cluster import age
from trainstack.objects.labels import LAUNCH, RUN, STACK, STATE
from trainstack.runs.ledgers import claim_config_map

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with launch_server(tmp_path_factory.mktemp("claims")) as running:
        yield running


@pytest.fixture(scope="module")
def checkout(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the project with its own state."""
    return Project.copy(tmp_path_factory.mktemp("checkout"), server)


def refuse(server: ApiServer, kind: str, workload: str) -> None:
    """Add an admission policy that refuses a workload's objects of a kind, and wait until it is in force."""
    name = f"no-{kind}-of-{workload}"
    group = {"jobs": "batch", "configmaps": ""}[kind]
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [kind]}
    refused = f"object.metadata.?labels[?'trainstack.dev/workload'].orValue('') != '{workload}'"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": refused, "message": f"no {kind} of {workload} today"}],
    }
    server.send("POST", POLICIES, {"metadata": {"name": name}, "spec": spec}).checked()
    binding = {"policyName": name, "validationActions": ["Deny"]}
    server.send("POST", BINDINGS, {"metadata": {"name": name}, "spec": binding}).checked()
    eventually("the policy is in force", lambda: not admits(server, kind, workload), 30)


def admit(server: ApiServer, kind: str, workload: str) -> None:
    """Delete the admission policy, and wait until it has no effect."""
    name = f"no-{kind}-of-{workload}"
    server.send("DELETE", f"{BINDINGS}/{name}").checked()
    server.send("DELETE", f"{POLICIES}/{name}").checked()
    eventually("the policy is gone", lambda: admits(server, kind, workload), 30)


def admits(server: ApiServer, kind: str, workload: str) -> bool:
    """Return whether the API server admits a workload's object of a kind."""
    metadata = {"name": "probe", "labels": {"trainstack.dev/workload": workload}}
    pod = {"containers": [{"name": "a", "image": "a"}], "restartPolicy": "Never"}
    path, body = {
        "jobs": ("/apis/batch/v1", {"metadata": metadata, "spec": {"template": {"spec": pod}}}),
        "configmaps": ("/api/v1", {"metadata": metadata}),
    }[kind]
    return server.send("POST", f"{path}/namespaces/{NAMESPACE}/{kind}", body, dryRun="All").code < 300


def test_a_run_that_cannot_be_recorded_is_not_launched(server: ApiServer, checkout: Project) -> None:
    """ConfigMaps are refused, so no Job is created; the next `up` that can record the launch creates it, once."""
    project = checkout.other_stack("unrecorded", make_config("unrecorded"))
    refuse(server, "configmaps", "unrecorded")
    done = project.up()
    assert done.code != 0
    assert "it was not launched" in " ".join(done.text.split()), done.text
    assert objects(server, "jobs", "unrecorded") == []
    admit(server, "configmaps", "unrecorded")
    done = project.up()
    assert done.code == 0, done.text
    server.send("DELETE", job_path(only_job(server, "unrecorded")), propagationPolicy="Background").checked()
    done = project.up("--refresh")
    assert done.code == 0, done.text
    assert "is settled" in " ".join(done.text.split())
    assert objects(server, "jobs", "unrecorded") == []


def test_a_launch_that_is_refused_leaves_no_claim(server: ApiServer, checkout: Project) -> None:
    """The next `up` launches the run, whatever its TTL."""
    project = checkout.other_stack("refused", make_config("refused", ttlSecondsAfterFinished=0))
    refuse(server, "jobs", "refused")
    done = project.up()
    assert done.code != 0, done.text
    assert objects(server, "configmaps", "refused") == []
    admit(server, "jobs", "refused")
    done = project.up()
    assert done.code == 0, done.text
    assert only_job(server, "refused")


@pytest.mark.parametrize(("ttl_seconds", "launched"), [(None, True), (0, False)])
def test_a_claim_of_a_killed_up(server: ApiServer, checkout: Project, ttl_seconds: int | None, launched: bool) -> None:
    """The next `up` takes it over. If a TTL may have removed the launch, the change is refused and names the claim."""
    name = "killed" if launched else "killed-brief"
    project = checkout.other_stack(name, make_config(name, ttlSecondsAfterFinished=ttl_seconds))
    refuse(server, "jobs", name)
    assert project.up().code != 0
    admit(server, "jobs", name)
    # A kill between the claim and the launch leaves this object.
    steps = json.loads(project.pulumi("preview", "--json").out)["steps"]
    (ledger,) = [step["newState"]["inputs"] for step in steps if f"run-{name}-" in step["urn"]]
    claim = claim_config_map(ledger, "c1")
    claim = server.send("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", claim).checked()
    # A younger one would be waited for.
    age(server, {"apiVersion": "v1", "kind": "ConfigMap", **claim}, 600)
    done = project.up()
    assert (done.code == 0) is launched, done.text
    assert len(objects(server, "jobs", name)) == launched
    if not launched:
        assert f"kubectl delete configmap -n {NAMESPACE} {ledger['metadata']['name']}" in " ".join(done.text.split())


# `make test` covers the slow tests with a simulated engine: tests/stateful/test_cases.py. Here the real engine runs.


@pytest.mark.slow
def test_two_checkouts_launch_a_run_once(
    server: ApiServer, checkout: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both start before either has launched. The API server generates the names, so the Jobs would not conflict."""
    config = make_config("twin", naming="generated")
    second = Project.copy(tmp_path_factory.mktemp("second"), server)
    both = [project.other_stack("twins", config) for project in (checkout, second)]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(Project.up, both))
    assert sorted(result.code == 0 for result in done) == [False, True], [result.text for result in done]
    assert only_job(server, "twin")


def test_an_active_launch_is_found_without_its_label(server: ApiServer, checkout: Project) -> None:
    """The change is refused with the command that restores the label, with and without a refresh."""
    project = checkout.other_stack("unlabelled", make_config("unlabelled"))
    done = project.up()
    assert done.code == 0, done.text
    job = only_job(server, "unlabelled")
    for lost in ((STACK,), (STACK, RUN, LAUNCH)):
        bare = {"metadata": {"labels": dict.fromkeys(lost)}}
        server.send("PATCH", job_path(job), bare, MERGE).checked()
        for refreshed in ((), ("--refresh",)):
            done = project.up(*refreshed)
            output = " ".join(done.text.split())
            assert done.code != 0, output
            assert f"kubectl label --overwrite job -n {NAMESPACE} {job['metadata']['name']}" in output
            assert "created by another owner" not in output
            live = server.get(job_path(job))
            assert live is not None
            assert live["metadata"]["uid"] == job["metadata"]["uid"]
        done = project.trainstack("destroy", "--yes")
        assert done.code != 0, done.text
        assert job["metadata"]["name"] in done.text
        back = {"metadata": {"labels": {key: job["metadata"]["labels"][key] for key in lost}}}
        server.send("PATCH", job_path(job), back, MERGE).checked()
    done = project.up("--refresh", "--expect-no-changes")
    assert done.code == 0, done.text


@pytest.mark.slow
def test_a_run_that_moves_stays_where_it_is_active(server: ApiServer, checkout: Project) -> None:
    """A tenant's files name another namespace: the active launch is found in the previous one."""
    project = checkout.other_stack("moved", make_config("moved"))
    done = project.up()
    assert done.code == 0, done.text
    moved = make_config("moved", namespace=MOVED)
    moved["trainstack:environment"]["existing"]["namespaces"] = [MOVED]
    project.write_stack("moved", moved)
    done = project.up("--refresh")
    assert done.code == 0, done.text
    assert "takes effect at the next launch" in " ".join(done.text.split())
    assert only_job(server, "moved")
    assert objects(server, "jobs", "moved", MOVED) == []


@pytest.mark.slow
def test_neither_of_two_active_launches_is_deleted(server: ApiServer, checkout: Project) -> None:
    """A person has copied the Job. The message of the refused change has both."""
    project = checkout.other_stack("doubled", make_config("doubled"))
    done = project.up()
    assert done.code == 0, done.text
    job = only_job(server, "doubled")
    labels = {**job["metadata"]["labels"], LAUNCH: f"{job['metadata']['labels'][RUN]}-000000"}
    pod = job["spec"]["template"]["spec"]
    annotations = {STATE: job["metadata"]["annotations"][STATE]}
    metadata = {"name": "doubled-copy", "labels": labels, "annotations": annotations}
    copied = {"metadata": metadata, "spec": {"template": {"spec": pod}}}
    server.send("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", copied).checked()
    project.write_stack("doubled", make_config("doubled", resources={"requests": {"cpu": 1}}))
    done = project.up()
    assert done.code != 0, done.text
    assert "has 2 active launches" in " ".join(done.text.split())
    assert len(objects(server, "jobs", "doubled")) == 2
