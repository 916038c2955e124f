"""What a change may do to runs that wait, run or have run: nothing that nobody asked for."""

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
    WAITS,
    Config,
    admitting,
    await_end,
    await_pods,
    bare,
    edit_run,
    in_pod,
    launch,
    launches,
    ledgers,
    managed,
    quiet,
    refused,
    run_id,
    team_config,
    true_conditions,
    uid,
    uids,
    volume,
)
from tests.cluster.people import Person, make_claim
from tests.cluster.project import ROOT, Project, eventually
from trainstack.objects.labels import is_field_manager

pytestmark = pytest.mark.cluster

EPOCHS = 20
HOLDS = "again.example.org/holds"
"""A finalizer that no controller knows."""
GO = ("touch", f"{MOUNT}/go")
FAILS = "raise SystemExit(3)"


@contextmanager
def team(lab: Project, name: str, *runs: Config) -> Iterator[Project]:
    """A team's stack with these runs, up; destroyed afterwards."""
    project = lab.other(name, team_config(lab.stack, *runs))
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()


def kinds() -> list[Config]:
    """A run of each kind, all in the queue that admits nothing yet, each going on until it is told to end."""
    role = {"restartPolicy": "OnFailure"}
    unmanaged = ["sh", "-c", f"trap 'exit 143' TERM; until [ -e {MOUNT}/go ]; do sleep 0.1; done"]
    return [
        managed("single", WAITS, queue=HELD, sharedMemory="16Mi"),
        managed("multi", WAITS, queue=HELD, completions=3, parallelism=3),
        managed("torch", WAITS, "PyTorchJob", queue=HELD, roles={"Master": role, "Worker": role}),
        bare("plain", queue=HELD, command=unmanaged, backoffLimit=0),
        bare("loader", "DataLoader", queue=HELD),
    ]


PODS = {"single": 1, "multi": 3, "torch": 2, "plain": 1, "loader": 1}


def test_runs_of_every_kind_are_left_alone_from_queue_to_settled(lab: Project) -> None:
    """Queued, running, done, gone: a further `up --refresh` changes nothing at any time, whatever else is edited."""
    with team(lab, "kinds", *kinds()) as project:
        started = uids(project)
        assert len(started) == len(PODS)
        waiting_in_the_queue(project)
        quiet(project)

        with admitting(lab, HELD):
            pods = {name: await_pods(project, name, count) for name, count in PODS.items()}
            as_declared(project, pods)
            quiet(project)
            with edited_wrapper(project):
                quiet(project)
                project.edit_stack(lambda config: config["trainstack:storage"]["volumes"].append(volume("another")))
                assert project.changes("--refresh") == {"create": 1}
                done = project.up("--refresh")
                assert done.code == 0, done.text
                assert "1 created" in done.out
                assert uids(project) == started

                in_pod(project, pods["loader"][0], *GO)
                for name in ("single", "multi", "torch", "plain"):
                    await_end(project, name, "Complete", "Succeeded")
                recorded_once(project, pods["loader"][0])
                quiet(project)

        remembered = ledgers(project)
        project.kubectl("delete", "jobs,pytorchjobs", "-n", NAMESPACE, "-l", "trainstack.dev/stack=kinds")
        for _ in range(2):
            done = project.up("--refresh")
            assert done.code == 0, done.text
            assert "settled" in done.text
            assert "attempt" in done.text
            assert (launches(project), ledgers(project)) == ([], remembered)


def waiting_in_the_queue(project: Project) -> None:
    """Kueue has a Workload for every launch, holds it, and owns `suspend`, which we never declare."""
    held = {body["metadata"]["name"]: body for body in launches(project)}

    def queued() -> bool:
        workloads = project.get("workloads", namespace=NAMESPACE)["items"]
        owners = {each["metadata"]["ownerReferences"][0]["uid"] for each in workloads}
        admitted = [each for each in workloads if "QuotaReserved" in true_conditions(each)]
        return {uid(body) for body in held.values()} <= owners and not admitted

    eventually("a Workload for every launch", queued)
    for body in held.values():
        spec = body["spec"].get("runPolicy", body["spec"])
        assert spec["suspend"] is True
        (ours,) = (each for each in body["metadata"]["managedFields"] if is_field_manager(each["manager"]))
        declared = ours["fieldsV1"]["f:spec"]
        assert "f:suspend" not in declared.get("f:runPolicy", declared)


def as_declared(project: Project, pods: dict[str, list[dict[str, Any]]]) -> None:
    """The live objects say what was declared, down to /dev/shm in the running container."""
    for name, found in pods.items():
        body = launch(project, name)
        marks = body["metadata"]["labels"]
        assert marks["app.kubernetes.io/managed-by"] == "trainstack"
        assert marks["trainstack.dev/stack"] == project.stack
        assert marks["kueue.x-k8s.io/queue-name"] == HELD
        for pod in found:
            assert pod["metadata"]["labels"]["trainstack.dev/launch"] == body["metadata"]["name"]
            assert pod["metadata"]["labels"]["trainstack.dev/run"] == run_id(body)
            security = pod["spec"]["securityContext"]
            assert (security["runAsNonRoot"], security["runAsUser"], security["fsGroup"]) == (True, 1000, 1000)
            for container in pod["spec"]["containers"]:
                assert container["securityContext"]["allowPrivilegeEscalation"] is False
                assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    shm = in_pod(project, pods["single"][0], "df", "--output=size", "--block-size=1M", "/dev/shm")
    assert shm.split()[-1] == "16"
    (verbatim,) = pods["plain"][0]["spec"]["containers"]
    assert verbatim["command"] == kinds()[3]["command"]
    assert "env" not in verbatim


def recorded_once(project: Project, loader: dict[str, Any]) -> None:
    """Each managed run has its one record, the one of three completions has three; unmanaged ones have none."""
    found = in_pod(project, loader, "find", f"{MOUNT}/runs", "-name", "_SUCCESS").split()
    ids = {name: run_id(launch(project, name)) for name in ("single", "multi", "torch")}
    records = [ids["single"], ids["torch"], *(f"{ids['multi']}/{index}" for index in range(3))]
    assert sorted(found) == sorted(f"{MOUNT}/runs/{each}/_SUCCESS" for each in records)
    for each in records:
        assert json.loads(in_pod(project, loader, "cat", f"{MOUNT}/runs/{each}/run.json"))["attempts"] == 1


@contextmanager
def edited_wrapper(project: Project) -> Iterator[None]:
    """Another version of the wrapper, as after an update of this project."""
    file = project.root / "trainstack" / "runs" / "wrapper" / "run.py"
    before = file.read_text()
    file.write_text(f"{before}\n# Another version.\n")
    try:
        yield
    finally:
        file.write_text(before)


def committed_without_a_ledger(project: Project, name: str) -> None:
    """Nothing tells the commit any more that an active run is recorded with, and it is another one now."""
    done = project.kubectl("delete", "configmap", "-n", NAMESPACE, f"run-{run_id(launch(project, name))}")
    assert done.code == 0, done.text
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    assert project.run(["git", *author, "commit", "--quiet", "--allow-empty", "-m", "another"]).code == 0


def test_an_active_run_goes_on_unless_the_change_names_it(lab: Project) -> None:
    """Memory reaches the next launch; an edit of what is trained is refused, and goes through with `stop`."""
    with team(lab, "active", managed("fit", WAITS), bare("loader", "DataLoader")) as project:
        (loader,) = await_pods(project, "loader", 1)
        await_pods(project, "fit", 1)
        first = launch(project, "fit")

        committed_without_a_ledger(project, "fit")
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert uid(launch(project, "fit")) == uid(first)
        assert run_id(first) in ledgers(project)
        quiet(project)

        edit_run(project, "fit", lambda run: run["resources"]["requests"].update(memory="65Mi"))
        noted = project.up("--refresh", "--expect-no-changes")
        assert noted.code == 0, noted.text
        assert f"{run_id(first)} is running" in noted.text
        assert "takes effect at the next launch" in noted.text
        assert uid(launch(project, "fit")) == uid(first)

        edit_run(project, "fit", lambda run: run.update(args=[WAITS, "again"]))
        text = refused(project).text
        assert first["metadata"]["name"] in text
        assert run_id(first) in text
        assert "has been running for" in text
        assert f"stop: [{run_id(first)}]" in text
        await_pods(project, "fit", 1)

        # Not even where the files name its namespace no more.
        here = (project.root / f"Pulumi.{project.stack}.yaml").read_text()
        project.edit_stack(everything_to_another_namespace)
        assert run_id(first) in refused(project).text
        (project.root / f"Pulumi.{project.stack}.yaml").write_text(here)

        project.edit_stack(lambda config: config["trainstack:workloads"].update(stop=[run_id(first)]))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        second = eventually("the new launch alone", lambda: alone(project, "fit", but=first))
        assert run_id(second) != run_id(first)
        await_pods(project, "fit", 1)

        # The entry names nothing any more: a warning, and no change.
        assert f"stop names {run_id(first)}" in project.up("--refresh", "--expect-no-changes").text
        project.edit_stack(lambda config: config["trainstack:workloads"].pop("stop"))
        in_pod(project, loader, *GO)
        await_end(project, "fit", "Complete")
        edit_run(project, "fit", lambda run: run.update(attempt=2))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        third = await_end(project, "fit", "Complete")
        assert run_id(third) not in {run_id(first), run_id(second)}
        assert sorted(ledgers(project)) == sorted(map(run_id, [third, launch(project, "loader")]))


def everything_to_another_namespace(config: Config) -> None:
    """An edit that moves volumes and runs."""
    for each in (*config["trainstack:storage"]["volumes"], *config["trainstack:workloads"]["runs"]):
        each["namespace"] = "default"


def test_a_stack_whose_state_was_lost_takes_its_running_objects_back(lab: Project) -> None:
    """By the entry that the refusal prints. The same objects, and edits go through: nothing conflicts."""
    with team(lab, "lost", managed("fit", WAITS)) as project:
        await_pods(project, "fit", 1)
        before = uids(project)
        done = project.pulumi("stack", "rm", "--force", "--yes", "--preserve-config")
        assert done.code == 0, done.text
        assert project.pulumi("stack", "init").code == 0
        done = project.up()
        assert done.code != 0
        (lost,) = {*re.findall(r"takeOver: \[([0-9a-f]{32})\]", " ".join(done.text.split()))}
        project.edit_stack(lambda config: config.update({"trainstack:cluster": {"takeOver": [lost]}}))
        done = project.up()
        assert done.code == 0, done.text
        assert uids(project) == before
        project.edit_stack(lambda config: config.pop("trainstack:cluster"))
        quiet(project)
        project.edit_stack(lambda config: config["trainstack:storage"]["volumes"][0].update(labels={"kept": "yes"}))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert uids(project) == before
        assert project.get("persistentvolumeclaims", "lab", NAMESPACE)["metadata"]["labels"]["kept"] == "yes"


def test_what_comes_back_waits_until_its_namesake_is_gone(lab: Project) -> None:
    """An edit of the old object would be gone with it: nobody would train, and the claim would be lost."""
    with team(lab, "back", managed("fit", WAITS)) as project:
        await_pods(project, "fit", 1)
        here = (project.root / f"Pulumi.{project.stack}.yaml").read_text()
        spare = make_claim("spare", "shared", "ReadWriteMany", NAMESPACE)
        spare["metadata"]["labels"] = {"trainstack.dev/stack": project.stack}
        first, claim = launch(project, "fit"), Person(project.kubeconfig).create(spare)
        with held(project, first, claim) as let_go:
            project.edit_stack(lambda config: config["trainstack:workloads"].update(runs=[], stop=[run_id(first)]))
            done = project.up()
            assert done.code == 0, done.text
            assert project.kubectl("delete", "pvc", "spare", "-n", NAMESPACE, "--wait=false").code == 0
            (project.root / f"Pulumi.{project.stack}.yaml").write_text(here)
            project.edit_stack(lambda config: config["trainstack:storage"]["volumes"].append(volume("spare")))
            done = project.pulumi("preview")
            assert done.code == 0, done.text
            for each in (first, claim):
                assert f"{shown(each)} is being deleted; its replacement" in done.text

            with ThreadPoolExecutor() as pool:
                up = pool.submit(project.up)
                # If it did not wait, it would be over by then.
                assert wait([up], timeout=20).not_done
                let_go()
                done = up.result()
        assert done.code == 0, done.text
        second = launch(project, "fit")
        assert (uid(second) != uid(first), second["metadata"]["name"]) == (True, first["metadata"]["name"])
        assert uid(project.get("persistentvolumeclaim", "spare", NAMESPACE)) != uid(claim)
        await_pods(project, "fit", 1)
        quiet(project)


def test_a_launch_that_goes_is_made_anew_also_where_the_state_holds_it(lab: Project) -> None:
    """As after an `up` that was interrupted before the ledger, of a launch that was then deleted."""
    with team(lab, "again", managed("fit", WAITS)) as project:
        await_pods(project, "fit", 1)
        first = launch(project, "fit")
        committed_without_a_ledger(project, "fit")
        with held(project, first) as let_go:
            name = first["metadata"]["name"]
            assert project.kubectl("delete", "job", name, "-n", NAMESPACE, "--wait=false").code == 0
            with ThreadPoolExecutor() as pool:
                up = pool.submit(project.up, "--refresh")
                assert wait([up], timeout=15).not_done
                let_go()
                done = up.result()
        assert done.code == 0, done.text
        assert uid(launch(project, "fit")) != uid(first)
        await_pods(project, "fit", 1)
        quiet(project)


def shown(body: dict[str, Any]) -> str:
    """An object as messages name it."""
    return f"{body['kind']} {NAMESPACE}/{body['metadata']['name']}"


@contextmanager
def held(project: Project, *bodies: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """Keep objects in the cluster though they are deleted, for as long as the block runs or until they are let go."""
    for body in bodies:
        hold(project, body, held=True)
    left = list(bodies)

    def let_go() -> None:
        while left:
            hold(project, left.pop(), held=False)

    try:
        yield let_go
    finally:
        let_go()


def hold(project: Project, body: dict[str, Any], *, held: bool) -> None:
    """Add our finalizer to an object, or take it off; others stay."""
    kind, name = body["kind"].lower(), body["metadata"]["name"]
    others = [each for each in project.get(kind, name, NAMESPACE)["metadata"].get("finalizers", []) if each != HOLDS]
    change = json.dumps({"metadata": {"finalizers": [*others, *([HOLDS] if held else [])]}})
    done = project.kubectl("patch", kind, name, "-n", NAMESPACE, "--type=merge", "--patch", change)
    assert done.code == 0, done.text


def alone(project: Project, name: str, but: dict[str, Any]) -> dict[str, Any] | None:
    """The one launch of a workload, once another one has gone."""
    found = launches(project, name)
    return found[0] if len(found) == 1 and uid(found[0]) != uid(but) else None


def test_a_failed_run_is_launched_again_only_when_somebody_asks(lab: Project) -> None:
    """Unedited it stays; more memory launches the same run anew, a raised attempt another one. TTL launches nothing."""
    brief = managed("brief", "print('done')", ttlSecondsAfterFinished=1)
    with team(lab, "failed", managed("fit", FAILS), brief) as project:
        first = await_end(project, "fit", "Failed")
        eventually("the TTL took the finished run", lambda: not launches(project, "brief"))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        assert list(uids(project)) == [first["metadata"]["name"]]
        assert len(ledgers(project)) == 2
        quiet(project)

        edit_run(project, "fit", lambda run: run["resources"]["requests"].update(memory="65Mi"))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        second = eventually("the new launch alone", lambda: alone(project, "fit", but=first))
        assert second["metadata"]["name"] != first["metadata"]["name"]
        assert run_id(second) == run_id(first)
        assert ledgers(project)[run_id(first)] == second["metadata"]["name"]
        requests = second["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        assert requests["memory"] == "65Mi"
        await_end(project, "fit", "Failed")

        edit_run(project, "fit", lambda run: run.update(attempt=2))
        done = project.up("--refresh")
        assert done.code == 0, done.text
        third = eventually("the new launch alone", lambda: alone(project, "fit", but=second))
        assert run_id(third) != run_id(first)


def test_a_run_whose_master_is_killed_resumes_and_ends_with_one_record(lab: Project) -> None:
    """`trainstack up` of a distributed training whose master's pod is deleted after some epochs ends all the same."""
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    # So many epochs that the master is still at it when it is deleted, on a fast machine too.
    base = yaml.safe_load((ROOT / "workloads" / "digits" / "workload.yaml").read_text())
    args = [f"--epochs={EPOCHS}" if each.startswith("--epochs=") else each for each in base["args"]]
    digits = {
        "name": "digits",
        "namespace": NAMESPACE,
        "queue": OPEN,
        "data": {"volume": "lab"},
        "record": {"volume": "lab"},
        "volumes": [{"volume": "lab", "mountPath": "/mnt/training"}],
        "resources": resources,
        "args": args,
        "roles": {"Worker": {"replicas": 1}},
    }
    project = lab.other("killed", team_config(lab.stack, digits))
    try:
        with ThreadPoolExecutor(1) as pool:
            whole = pool.submit(project.trainstack, "up", "--yes", seconds=240)
            first = eventually("the second epoch", lambda: master_after(project, "epoch 2/"))
            assert project.kubectl("delete", "pod", "-n", NAMESPACE, first["metadata"]["name"]).code == 0
            done = whole.result()
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
    finally:
        project.take_down()


def master(project: Project) -> dict[str, Any]:
    """The pod of rank 0; {} while there is none."""
    selector = "trainstack.dev/workload=digits,training.kubeflow.org/replica-type=master"
    return next(iter(project.select("pods", selector, NAMESPACE)), {})


def master_after(project: Project, line: str) -> dict[str, Any]:
    """The pod of rank 0, once its log has the line; {} before."""
    pod = master(project)
    if not pod:
        return {}
    return pod if line in project.log(pod["metadata"]["name"], NAMESPACE) else {}
