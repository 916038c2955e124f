"""An `up` changes queued, running and finished runs only if the change asks for it."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.cluster.lab import (
    HELD,
    MOUNT,
    NAMESPACE,
    OPEN,
    WAIT_PROGRAM,
    Config,
    admission_enabled,
    assert_no_changes,
    assert_up_refused,
    await_end,
    await_pods,
    edit_run,
    exec_in_pod,
    launch,
    launches,
    ledgers,
    managed_run,
    run_id,
    team_config,
    true_conditions,
    uid,
    uids,
    unmanaged_run,
    volume,
)
from tests.cluster.people import Person, make_claim
from tests.cluster.project import ROOT, Project, eventually
from trainstack.objects.labels import is_field_manager

pytestmark = pytest.mark.cluster

EPOCHS = 20
HOLDS = "again.example.org/holds"
"""A finalizer that no controller removes."""
GO = ("touch", f"{MOUNT}/go")
FAILS = "raise SystemExit(3)"


@contextmanager
def team(lab: Project, name: str, *runs: Config) -> Iterator[Project]:
    """Yield a team's stack with these runs, deployed, and destroy it afterwards."""
    project = lab.other_stack(name, team_config(lab.stack, *runs))
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()


def runs_of_every_kind() -> list[Config]:
    """Return a run of each kind on the held queue; each of them runs until a file exists."""
    role = {"restartPolicy": "OnFailure"}
    unmanaged = ["sh", "-c", f"trap 'exit 143' TERM; until [ -e {MOUNT}/go ]; do sleep 0.1; done"]
    return [
        managed_run("single", WAIT_PROGRAM, queue=HELD, sharedMemory="16Mi"),
        managed_run("multi", WAIT_PROGRAM, queue=HELD, completions=3, parallelism=3),
        managed_run("torch", WAIT_PROGRAM, "PyTorchJob", queue=HELD, roles={"Master": role, "Worker": role}),
        unmanaged_run("plain", queue=HELD, command=unmanaged, backoffLimit=0),
        unmanaged_run("loader", "DataLoader", queue=HELD),
    ]


PODS = {"single": 1, "multi": 3, "torch": 2, "plain": 1, "loader": 1}


def test_up_does_not_change_runs_of_any_kind_at_any_stage(lab: Project) -> None:
    """A further `up --refresh` changes no queued, running, finished or deleted run, whatever else is edited."""
    with team(lab, "kinds", *runs_of_every_kind()) as project:
        started = uids(project)
        assert len(started) == len(PODS)
        assert_queued(project)
        assert_no_changes(project)

        with admission_enabled(lab, HELD):
            pods = {name: await_pods(project, name, count) for name, count in PODS.items()}
            assert_as_declared(project, pods)
            with edited_wrapper(project):
                assert_no_changes(project)
                project.edit_stack(lambda config: config["trainstack:storage"]["volumes"].append(volume("another")))
                assert project.changes("--refresh") == {"create": 1}
                done = project.up("--refresh")
                assert done.code == 0, done.text
                assert "1 created" in done.out
                assert uids(project) == started

                exec_in_pod(project, pods["loader"][0], *GO)
                for name in ("single", "multi", "torch", "plain"):
                    await_end(project, name, "Complete", "Succeeded")
                assert_recorded_once(project, pods["loader"][0])
                assert_no_changes(project)

        remembered = ledgers(project)
        project.kubectl("delete", "jobs,pytorchjobs", "-n", NAMESPACE, "-l", "trainstack.dev/stack=kinds")
        for _ in range(2):
            done = project.up("--refresh")
            assert done.code == 0, done.text
            assert "settled" in done.text
            assert "attempt" in done.text
            assert (launches(project), ledgers(project)) == ([], remembered)


def assert_queued(project: Project) -> None:
    """Assert that Kueue holds back every launch, and that we do not declare `suspend`, which Kueue owns."""
    held = {body["metadata"]["name"]: body for body in launches(project)}

    def queued() -> bool:
        workloads = project.get("workloads", namespace=NAMESPACE)["items"]
        owners = {workload["metadata"]["ownerReferences"][0]["uid"] for workload in workloads}
        admitted = [workload for workload in workloads if "QuotaReserved" in true_conditions(workload)]
        return {uid(body) for body in held.values()} <= owners and not admitted

    eventually("a Workload for every launch", queued)
    for body in held.values():
        spec = body["spec"].get("runPolicy", body["spec"])
        assert spec["suspend"] is True
        (ours,) = (entry for entry in body["metadata"]["managedFields"] if is_field_manager(entry["manager"]))
        declared = ours["fieldsV1"]["f:spec"]
        assert "f:suspend" not in declared.get("f:runPolicy", declared)


def assert_as_declared(project: Project, pods: dict[str, list[dict[str, Any]]]) -> None:
    """Assert that the live objects match the declaration, down to the size of /dev/shm in a running container."""
    for name, found in pods.items():
        body = launch(project, name)
        labels = body["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "trainstack"
        assert labels["trainstack.dev/stack"] == project.stack
        assert labels["kueue.x-k8s.io/queue-name"] == HELD
        for pod in found:
            assert pod["metadata"]["labels"]["trainstack.dev/launch"] == body["metadata"]["name"]
            assert pod["metadata"]["labels"]["trainstack.dev/run"] == run_id(body)
            security = pod["spec"]["securityContext"]
            assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 1000)
            # The program of an unmanaged run gets no group.
            assert security.get("fsGroup") == (None if name == "plain" else 1000)
            for container in pod["spec"]["containers"]:
                assert container["securityContext"]["allowPrivilegeEscalation"] is False
                assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    shm = exec_in_pod(project, pods["single"][0], "df", "--output=size", "--block-size=1M", "/dev/shm")
    assert shm.split()[-1] == "16"
    (verbatim,) = pods["plain"][0]["spec"]["containers"]
    assert verbatim["command"] == runs_of_every_kind()[3]["command"]
    assert "env" not in verbatim


def assert_recorded_once(project: Project, loader: dict[str, Any]) -> None:
    """Assert that each managed run has one record per completion, and that unmanaged runs have none."""
    found = exec_in_pod(project, loader, "find", f"{MOUNT}/runs", "-name", "_SUCCESS").split()
    ids = {name: run_id(launch(project, name)) for name in ("single", "multi", "torch")}
    records = [ids["single"], ids["torch"], *(f"{ids['multi']}/{index}" for index in range(3))]
    assert sorted(found) == sorted(f"{MOUNT}/runs/{record}/_SUCCESS" for record in records)
    for record in records:
        assert json.loads(exec_in_pod(project, loader, "cat", f"{MOUNT}/runs/{record}/run.json"))["attempts"] == 1


@contextmanager
def edited_wrapper(project: Project) -> Iterator[None]:
    """Change the wrapper, as an update of this project does."""
    file = project.root / "trainstack" / "runs" / "wrapper" / "run.py"
    before = file.read_text()
    file.write_text(f"{before}\n# Another version.\n")
    try:
        yield
    finally:
        file.write_text(before)


def delete_ledger_and_commit(project: Project, name: str) -> None:
    """Delete the ledger that stores the commit of an active run, and make another commit."""
    done = project.kubectl("delete", "configmap", "-n", NAMESPACE, f"run-{run_id(launch(project, name))}")
    assert done.code == 0, done.text
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    assert project.run(["git", *author, "commit", "--quiet", "--allow-empty", "-m", "another"]).code == 0


def test_an_active_run_is_only_replaced_if_stop_names_it(lab: Project) -> None:
    """A memory edit takes effect at the next launch. An edit of the program is refused unless `stop` names the run."""
    with team(lab, "active", managed_run("fit", WAIT_PROGRAM), unmanaged_run("loader", "DataLoader")) as project:
        (loader,) = await_pods(project, "loader", 1)
        await_pods(project, "fit", 1)
        first = launch(project, "fit")

        delete_ledger_and_commit(project, "fit")
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert uid(launch(project, "fit")) == uid(first)
        assert run_id(first) in ledgers(project)
        assert_no_changes(project)

        edit_run(project, "fit", lambda run: run["resources"]["requests"].update(memory="65Mi"))
        noted = project.up("--refresh", "--expect-no-changes")
        assert noted.code == 0, noted.text
        assert f"{run_id(first)} is running" in noted.text
        assert "takes effect at the next launch" in noted.text
        assert uid(launch(project, "fit")) == uid(first)

        edit_run(project, "fit", lambda run: run.update(args=[WAIT_PROGRAM, "again"]))
        text = assert_up_refused(project).text
        assert first["metadata"]["name"] in text
        assert run_id(first) in text
        assert "has been running for" in text
        assert f"stop: [{run_id(first)}]" in text
        await_pods(project, "fit", 1)

        # The run is also protected if the files no longer name its namespace.
        original = (project.root / f"Pulumi.{project.stack}.yaml").read_text()
        project.edit_stack(move_to_another_namespace)
        assert run_id(first) in assert_up_refused(project).text
        (project.root / f"Pulumi.{project.stack}.yaml").write_text(original)

        project.edit_stack(lambda config: config["trainstack:workloads"].update(stop=[run_id(first)]))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        second = eventually("the new launch alone", lambda: replacement_launch(project, "fit", previous=first))
        assert run_id(second) != run_id(first)
        await_pods(project, "fit", 1)

        # The stopped run no longer exists: its entry causes a warning and no change.
        assert f"stop names {run_id(first)}" in project.up("--refresh", "--expect-no-changes").text
        project.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))
        exec_in_pod(project, loader, *GO)
        await_end(project, "fit", "Complete")
        edit_run(project, "fit", lambda run: run.update(attempt=2))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        third = await_end(project, "fit", "Complete")
        assert run_id(third) not in {run_id(first), run_id(second)}
        assert sorted(ledgers(project)) == sorted(map(run_id, [third, launch(project, "loader")]))


def move_to_another_namespace(config: Config) -> None:
    """Move all volumes and runs to another namespace."""
    for entry in (*config["trainstack:storage"]["volumes"], *config["trainstack:workloads"]["runs"]):
        entry["namespace"] = "default"


def test_a_stack_with_a_lost_state_takes_over_its_running_objects(lab: Project) -> None:
    """The refusal prints the entry for `takeOver`. The objects stay the same, and later edits cause no conflicts."""
    with team(lab, "lost", managed_run("fit", WAIT_PROGRAM)) as project:
        await_pods(project, "fit", 1)
        before = uids(project)
        done = project.pulumi("stack", "rm", "--force", "--yes", "--preserve-config")
        assert done.code == 0, done.text
        assert project.pulumi("stack", "init").code == 0
        done = project.up()
        assert done.code != 0
        (entry,) = {*re.findall(r"takeOver: \[([0-9a-f]{32})\]", " ".join(done.text.split()))}
        project.edit_stack(lambda config: config.update({"trainstack:cluster": {"takeOver": [entry]}}))
        done = project.up()
        assert done.code == 0, done.text
        assert uids(project) == before
        project.edit_stack(lambda config: config.pop("trainstack:cluster"))
        assert_no_changes(project)
        project.edit_stack(lambda config: config["trainstack:storage"]["volumes"][0].update(labels={"kept": "yes"}))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert uids(project) == before
        assert project.get("persistentvolumeclaims", "lab", NAMESPACE)["metadata"]["labels"]["kept"] == "yes"


def test_a_replacement_waits_for_the_deletion_of_its_predecessor(lab: Project) -> None:
    """An edit of the terminating object would be lost with it: no run would train, and the claim would be lost."""
    with team(lab, "back", managed_run("fit", WAIT_PROGRAM)) as project:
        await_pods(project, "fit", 1)
        original = (project.root / f"Pulumi.{project.stack}.yaml").read_text()
        spare = make_claim("spare", "shared", "ReadWriteMany", NAMESPACE)
        spare["metadata"]["labels"] = {"trainstack.dev/stack": project.stack}
        first, claim = launch(project, "fit"), Person(project.kubeconfig).create(spare)
        with kept_by_finalizer(project, first, claim) as release:
            project.edit_stack(lambda config: config["trainstack:workloads"].update(runs=[], stop=[run_id(first)]))
            done = project.up()
            assert done.code == 0, done.text
            assert project.kubectl("delete", "pvc", "spare", "-n", NAMESPACE, "--wait=false").code == 0
            (project.root / f"Pulumi.{project.stack}.yaml").write_text(original)
            project.edit_stack(lambda config: config["trainstack:storage"]["volumes"].append(volume("spare")))
            done = project.pulumi("preview")
            assert done.code == 0, done.text
            for body in (first, claim):
                assert f"{display_name(body)} is being deleted; its replacement" in done.text

            with ThreadPoolExecutor() as pool:
                up = pool.submit(project.up)
                # Without the wait, `up` would have finished by then.
                assert wait([up], timeout=20).not_done
                release()
                done = up.result()
        assert done.code == 0, done.text
        second = launch(project, "fit")
        assert (uid(second) != uid(first), second["metadata"]["name"]) == (True, first["metadata"]["name"])
        assert uid(project.get("persistentvolumeclaim", "spare", NAMESPACE)) != uid(claim)
        await_pods(project, "fit", 1)


def test_a_terminating_launch_in_the_state_is_replaced(lab: Project) -> None:
    """The ledger is missing, as after an interrupted `up`, and the launch is being deleted."""
    with team(lab, "again", managed_run("fit", WAIT_PROGRAM)) as project:
        await_pods(project, "fit", 1)
        first = launch(project, "fit")
        delete_ledger_and_commit(project, "fit")
        with kept_by_finalizer(project, first) as release:
            name = first["metadata"]["name"]
            assert project.kubectl("delete", "job", name, "-n", NAMESPACE, "--wait=false").code == 0
            with ThreadPoolExecutor() as pool:
                up = pool.submit(project.up, "--refresh")
                assert wait([up], timeout=15).not_done
                release()
                done = up.result()
        assert done.code == 0, done.text
        assert uid(launch(project, "fit")) != uid(first)
        await_pods(project, "fit", 1)
        assert_no_changes(project)


def display_name(body: dict[str, Any]) -> str:
    """Return an object's name as messages print it."""
    return f"{body['kind']} {NAMESPACE}/{body['metadata']['name']}"


@contextmanager
def kept_by_finalizer(project: Project, *bodies: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """Keep deleted objects in the cluster until the block ends or calls the yielded function."""
    for body in bodies:
        set_finalizer(project, body, present=True)
    remaining = list(bodies)

    def release() -> None:
        while remaining:
            set_finalizer(project, remaining.pop(), present=False)

    try:
        yield release
    finally:
        release()


def set_finalizer(project: Project, body: dict[str, Any], *, present: bool) -> None:
    """Add our finalizer to an object, or remove it, and keep the others, also those that change meanwhile."""
    kind, name = body["kind"].lower(), body["metadata"]["name"]

    def is_set() -> bool:
        metadata = project.get(kind, name, NAMESPACE)["metadata"]
        finalizers = [finalizer for finalizer in metadata.get("finalizers", []) if finalizer != HOLDS]
        change = {"resourceVersion": metadata["resourceVersion"], "finalizers": [*finalizers, *([HOLDS] * present)]}
        words = ("-n", NAMESPACE, "--type=merge", "--patch", json.dumps({"metadata": change}))
        done = project.kubectl("patch", kind, name, *words)
        assert done.code == 0 or "the object has been modified" in done.text, done.text
        return done.code == 0

    eventually(f"the finalizers of {kind} {name} are written", is_set)


def replacement_launch(project: Project, name: str, previous: dict[str, Any]) -> dict[str, Any] | None:
    """Return the only launch of a workload, once it is not the previous one."""
    found = launches(project, name)
    return found[0] if len(found) == 1 and uid(found[0]) != uid(previous) else None


def test_a_failed_run_is_relaunched_only_after_an_edit(lab: Project) -> None:
    """More memory relaunches the same run, and a higher attempt launches another one. A TTL relaunches nothing."""
    brief = managed_run("brief", "print('done')", ttlSecondsAfterFinished=1)
    with team(lab, "failed", managed_run("fit", FAILS), brief) as project:
        first = await_end(project, "fit", "Failed")
        eventually("the TTL took the finished run", lambda: not launches(project, "brief"))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert list(uids(project)) == [first["metadata"]["name"]]
        assert len(ledgers(project)) == 2

        edit_run(project, "fit", lambda run: run["resources"]["requests"].update(memory="65Mi"))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        second = eventually("the new launch alone", lambda: replacement_launch(project, "fit", previous=first))
        assert second["metadata"]["name"] != first["metadata"]["name"]
        assert run_id(second) == run_id(first)
        assert ledgers(project)[run_id(first)] == second["metadata"]["name"]
        requests = second["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        assert requests["memory"] == "65Mi"
        await_end(project, "fit", "Failed")

        edit_run(project, "fit", lambda run: run.update(attempt=2))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        third = eventually("the new launch alone", lambda: replacement_launch(project, "fit", previous=second))
        assert run_id(third) != run_id(first)


def test_a_run_with_a_deleted_master_resumes_and_has_one_record(lab: Project) -> None:
    """`trainstack up` of a distributed training succeeds after the master's pod is deleted."""
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    # Enough epochs that the master is still training when it is deleted, even on a fast machine.
    base = yaml.safe_load((ROOT / "workloads" / "digits" / "workload.yaml").read_text())
    args = [f"--epochs={EPOCHS}" if arg.startswith("--epochs=") else arg for arg in base["args"]]
    digits = {
        "name": "digits",
        "kind": "PyTorchJob",
        "namespace": NAMESPACE,
        "queue": OPEN,
        "data": {"volume": "lab"},
        "record": {"volume": "lab"},
        "volumes": [{"volume": "lab", "mountPath": "/mnt/training"}],
        "resources": resources,
        "args": args,
        "roles": {"Worker": {"replicas": 1}},
    }
    project = lab.other_stack("killed", team_config(lab.stack, digits))
    try:
        with ThreadPoolExecutor(1) as pool:
            deployment = pool.submit(project.trainstack, "up", "--yes", seconds=240)
            first = eventually("the second epoch", lambda: master_after(project, "epoch 2/"))
            assert project.kubectl("delete", "pod", "-n", NAMESPACE, first["metadata"]["name"]).code == 0
            done = deployment.result()
        assert done.code == 0, done.text
        body = launch(project, "digits")
        assert "Succeeded" in true_conditions(body)
        assert uid(master(project)) != uid(first)
        record = project.root / "results" / run_id(body)
        run = json.loads((record / "run.json").read_text())
        assert (run["state"], run["attempts"], run["world_size"]) == ("succeeded", 2, 2)
        assert (record / "_SUCCESS").is_file()
        lines = [json.loads(line) for line in (record / "result" / "metrics.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines if "val_loss" in line] == list(range(1, EPOCHS + 1))
        shutil.rmtree(record)
        # The pod of the loader that fetched the record outlives its Job for a moment, and mounts the volume until then.
        eventually(
            "the loader's pod is gone",
            lambda: not [body for body in project.get("pods", namespace=NAMESPACE)["items"] if is_of_loader(body)],
        )
    finally:
        project.take_down()


def is_of_loader(pod: dict[str, Any]) -> bool:
    return str(pod["metadata"]["name"]).startswith("loader-")


def master(project: Project) -> dict[str, Any]:
    """Return the pod of rank 0, or {} if there is none."""
    selector = "trainstack.dev/workload=digits,training.kubeflow.org/replica-type=master"
    return next(iter(project.select("pods", selector, NAMESPACE)), {})


def master_after(project: Project, line: str) -> dict[str, Any]:
    """Return the pod of rank 0 if its log has the line, else {}."""
    pod = master(project)
    if not pod:
        return {}
    return pod if line in project.log(pod["metadata"]["name"], NAMESPACE) else {}
