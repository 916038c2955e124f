"""What is refused before the first write: another cluster, the loss of data, values that somebody else has set."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.project import Done, Project, eventually
from trainstack.dev.cluster.layout import Layout
from trainstack.lifecycle.recovery.state_files import read_deployment, state_file

pytestmark = pytest.mark.cluster

NAME = "guarded"
LOCAL_CLUSTER = "trainstack.dev/local-cluster"
Manifest = dict[str, Any]
KINDS = "namespaces,storageclasses,persistentvolumes,persistentvolumeclaims"


def small(**labels: str) -> dict[str, Any]:
    """An environment without operators: a namespace with these labels, a class and a claim of it."""
    volume = {"name": "data", "namespace": NAME, "storageClass": NAME, "size": "1Gi", "accessModes": ["ReadWriteMany"]}
    return {
        "trainstack:environment": {"namespaces": [{"name": NAME, "labels": labels}]},
        "trainstack:storage": {
            "classes": [{"name": NAME, "provisioner": "rancher.io/local-path"}],
            "volumes": [{**volume, "retain": False}],
        },
        "trainstack:queues": {"priorityClasses": None},
    }


@pytest.fixture
def guarded(checkout: Project) -> Iterator[Project]:
    """The small environment, not up yet."""
    project = checkout.other(NAME, small())
    try:
        yield project
    finally:
        project.kubectl("delete", "pods", "--all", "-n", NAME, "--timeout=60s")
        project.take_down()
        # Volumes on hosts are retained.
        project.kubectl("delete", "persistentvolume", NAME, "--ignore-not-found", "--timeout=60s")


@contextmanager
def on_another_cluster(project: Project) -> Iterator[str]:
    """The same kubeconfig leads to another cluster, as far as anybody can tell: to one that is no local one."""
    system = project.get("namespace", "kube-system")["metadata"]

    def annotate(mark: str) -> None:
        done = project.kubectl("annotate", "namespace", "kube-system", mark)
        assert done.code == 0, done.text

    annotate(f"{LOCAL_CLUSTER}-")
    try:
        yield system["uid"]
    finally:
        annotate(f"{LOCAL_CLUSTER}={system['annotations'][LOCAL_CLUSTER]}")


@contextmanager
def no_claims_in(project: Project, namespace: str) -> Iterator[None]:
    """Admission refuses claims in a namespace, as a webhook of the cluster's owner may."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["persistentvolumeclaims"],
    }
    # The namespace may not exist yet, and nothing can be tried in it.
    others = f"object.metadata.namespace != '{namespace}' && object.metadata.name != 'probe'"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": others, "message": "no claims today"}],
    }
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-claims"}}
    policy = {**api, "kind": "ValidatingAdmissionPolicy", "spec": spec}
    bound = {"policyName": "no-claims", "validationActions": ["Deny"]}
    binding = {**api, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    probe = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "probe"}, "spec": claim}

    def admitted() -> bool:
        words = ("create", "-n", "default", "--dry-run=server")
        return "no claims today" not in project.kubectl(*words, stdin=json.dumps(probe)).text

    def delete() -> None:
        for body in (binding, policy):
            done = project.kubectl("delete", str(body["kind"]), "no-claims", "--ignore-not-found")
            assert done.code == 0, done.text

    try:
        for body in (policy, binding):
            done = project.kubectl("create", stdin=json.dumps(body))
            assert done.code == 0, done.text
        eventually("claims are refused", lambda: not admitted())
        yield
    finally:
        delete()
        eventually("claims are admitted again", admitted)


def state(project: Project) -> dict[str, str]:
    """The stack's live objects, and the version of each."""
    found = project.select(KINDS, f"trainstack.dev/stack={NAME}")
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in found}


def in_state(project: Project) -> set[str]:
    """What the engine knows to be there, by URN."""
    done = project.pulumi("stack", "export")
    assert done.code == 0, done.text
    deployment = json.loads(done.out)["deployment"]
    file = state_file(project.root / ".trainstack" / "backend", "trainstack", NAME)
    assert file is not None
    # Commands read the file.
    assert read_deployment(file) == deployment
    return {each["urn"] for each in deployment.get("resources", ())}


def refused(done: Done, *words: str) -> None:
    """The command says no, in these words."""
    assert done.code != 0, done.text
    assert "Traceback" not in done.text
    told = " ".join(done.text.split())
    for each in words:
        assert each in told


def test_a_stack_stays_on_the_cluster_of_its_first_up_even_if_that_failed(guarded: Project) -> None:
    """No command touches another cluster, or forgets the objects of its own."""
    own = Layout.of(guarded.kubeconfig.parent).identity
    # The first `up` fails after the namespace and before the claim.
    with no_claims_in(guarded, NAME):
        refused(guarded.up(), "no claims today")
    with on_another_cluster(guarded) as other:
        refused(guarded.up(), own, other)
    assert guarded.up().code == 0
    before, known = state(guarded), in_state(guarded)
    assert len(before) == 3

    with on_another_cluster(guarded) as other:
        commands = (
            guarded.pulumi("preview"),
            guarded.up(),
            guarded.trainstack("up", "--yes", "--no-wait"),
            guarded.trainstack("destroy", "--keep-platform", "--yes"),
            guarded.trainstack("destroy", "--yes"),
        )
        for done in commands:
            refused(
                done,
                f"stack '{NAME}' was created on another cluster (UID of namespace kube-system: {own})",
                "the kubeconfig's context 'trainstack-local' (https://",
                f"(UID of namespace kube-system: {other}). Nothing was changed; use the kubeconfig",
                f"set `trainstack:cluster: {{identity: {other}}}` in Pulumi.{NAME}.yaml",
            )
        assert (state(guarded), in_state(guarded)) == (before, known)


@pytest.mark.slow
def test_the_file_may_name_another_cluster_and_a_destroy_stays_on_the_own(guarded: Project) -> None:
    """From the next `up` on that one is remembered. A destroy that runs the program ends before its first delete."""
    own = Layout.of(guarded.kubeconfig.parent).identity
    assert guarded.up().code == 0
    before, known = state(guarded), in_state(guarded)
    with on_another_cluster(guarded) as other:
        refused(guarded.pulumi("destroy", "--yes", "--skip-preview", "--run-program"), own, other)
        assert (state(guarded), in_state(guarded)) == (before, known)
        guarded.edit_stack(lambda config: config.update({"trainstack:cluster": {"identity": own}}))
        refused(guarded.pulumi("preview"), f"Pulumi.{NAME}.yaml:", f"is for cluster {own}", other)
        guarded.edit_stack(lambda config: config.update({"trainstack:cluster": {"identity": other}}))
        assert guarded.up().code == 0
        guarded.edit_stack(lambda config: config.pop("trainstack:cluster"))
        assert guarded.changes() == {}
    refused(guarded.pulumi("preview"), other, own)
    guarded.edit_stack(lambda config: config.update({"trainstack:cluster": {"identity": own}}))
    assert guarded.up("--refresh").code == 0
    assert state(guarded).keys() == before.keys()
    done = guarded.pulumi("destroy", "--yes", "--skip-preview", "--run-program")
    assert done.code == 0, done.text
    assert state(guarded) == {}


def test_a_claim_with_data_goes_only_by_name_and_not_under_a_pod(guarded: Project) -> None:
    """Edited or taken out, it is refused with the place and the remedy; nothing is written before."""
    assert guarded.up().code == 0
    run_pod(guarded)
    (before,) = guarded.get("persistentvolumeclaims", namespace=NAME)["items"]
    assert before["status"]["phase"] == "Bound"
    live = state(guarded)

    edit_storage(guarded, lambda storage: storage["volumes"][0].update({"accessModes": ["ReadWriteOnce"]}))
    refused(
        guarded.pulumi("preview"),
        f"Pulumi.{NAME}.yaml:",
        f"storage.volumes[data].accessModes: PersistentVolumeClaim {NAME}/data has accessModes ReadWriteMany, and "
        "ReadWriteOnce is declared: the field is immutable, and this change would replace the claim with an empty one",
        f"trainstack:storage: discard: [{NAME}/data]",
    )
    edit_storage(guarded, lambda storage: storage.update({"volumes": []}))
    gone = f"PersistentVolumeClaim {NAME}/data is no longer declared, and this change would delete it with its data"
    refused(guarded.up(), gone, f"trainstack:storage: discard: [{NAME}/data]")

    edit_storage(guarded, lambda storage: storage.update({"discard": [f"{NAME}/data"]}))
    refused(guarded.up(), f"It is mounted by pod {NAME}/user, so it is not discarded")
    assert state(guarded) == live
    assert guarded.kubectl("delete", "pod", "user", "-n", NAME, "--grace-period=1", "--timeout=60s").code == 0
    done = guarded.up()
    assert done.code == 0, done.text
    assert gone in " ".join(done.text.split())
    assert guarded.get("persistentvolumeclaims", namespace=NAME)["items"] == []
    again = guarded.up()
    assert again.code == 0, again.text
    assert f"discard names {NAME}/data, which this change neither deletes nor replaces" in " ".join(again.text.split())


def test_what_another_field_manager_has_set_is_never_overwritten_unsaid(guarded: Project) -> None:
    """By kubectl in each of its ways, and by a controller: all named at once, with both values; nothing is written."""
    config = small(team="ours")
    config["trainstack:storage"]["volumes"][0]["labels"] = {"for": "ours"}
    config["trainstack:storage"]["persistentVolumes"] = [
        {"name": NAME, "storageClass": "none", "size": "1Gi", "accessModes": ["ReadWriteMany"], "hostPath": "/none"}
        | {"labels": {"of": "ours"}}
    ]
    guarded.write_stack(NAME, config)
    assert guarded.up().code == 0
    somebody_edits(guarded)
    live = state(guarded)
    told = (
        f"Namespace {NAME}: metadata.labels.team is \"theirs\", set by 'kubectl-patch' (",
        ', and "ours" is declared; declare that value in the settings, restore the declared value in the cluster,',
        f"PersistentVolumeClaim {NAME}/data: metadata.labels.for is \"theirs\", set by 'kubectl-client-side-apply' (",
        f"PersistentVolume {NAME}: metadata.labels.of is \"theirs\", set by 'kubectl' (",
        f"StorageClass {NAME}: allowVolumeExpansion is true, set by 'controller' (",
        ", and false is declared",
    )
    for done in (guarded.pulumi("preview"), guarded.up()):
        refused(done, *told)
    assert state(guarded) == live

    # Two values are taken into the settings, one is set back, one is to be overwritten.
    config["trainstack:environment"]["namespaces"][0]["labels"]["team"] = "theirs"
    config["trainstack:storage"]["classes"][0]["allowVolumeExpansion"] = True
    config["trainstack:storage"]["volumes"][0]["adopt"] = True
    guarded.write_stack(NAME, config)
    back = json.dumps({"metadata": {"labels": {"of": "ours"}}})
    assert guarded.kubectl("patch", "persistentvolume", NAME, "--patch", back).code == 0
    done = guarded.up()
    assert done.code == 0, done.text
    assert "is \"theirs\", set by 'kubectl-client-side-apply'" in done.text
    assert 'and "ours" is declared, which wins (adopt: true)' in " ".join(done.text.split())
    assert guarded.get("persistentvolumeclaim", "data", NAME)["metadata"]["labels"]["for"] == "ours"
    assert guarded.changes("--refresh") == {}


def somebody_edits(project: Project) -> None:
    """Four people, each in his own way."""

    def named(kind: str, name: str, version: str = "v1", **rest: Any) -> str:
        labels = rest.pop("labels", None)
        place = {"namespace": NAME} if kind == "PersistentVolumeClaim" else {}
        metadata = {"name": name, **place, **({"labels": labels} if labels else {})}
        return json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata, **rest})

    patch = json.dumps({"metadata": {"labels": {"team": "theirs"}}})
    force = ("apply", "--server-side", "--force-conflicts")
    expands = {"allowVolumeExpansion": True, "provisioner": "rancher.io/local-path"}
    for done in (
        project.kubectl("patch", "namespace", NAME, "--patch", patch),
        project.kubectl("apply", stdin=named("PersistentVolumeClaim", "data", labels={"for": "theirs"})),
        project.kubectl(*force, stdin=named("PersistentVolume", NAME, labels={"of": "theirs"})),
        project.kubectl(
            *force,
            "--field-manager=controller",
            stdin=named("StorageClass", NAME, "storage.k8s.io/v1", **expands),
        ),
    ):
        assert done.code == 0, done.text


def edit_storage(project: Project, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the section `storage`."""
    project.edit_stack(lambda config: edit(config["trainstack:storage"]))


def run_pod(project: Project) -> None:
    """A pod that has the claim mounted, once it runs."""
    container = {
        "name": "user",
        "image": "busybox:1.35",
        "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    nobody = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    metadata = {"name": "user", "namespace": NAME}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "volumes": volumes, "securityContext": nobody},
    }
    done = project.kubectl("create", stdin=json.dumps(pod))
    assert done.code == 0, done.text
    eventually("the pod runs", lambda: project.get("pod", "user", NAME)["status"]["phase"] == "Running", 300)
