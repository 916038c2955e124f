"""Refusals before the first write: another cluster, loss of data, and values of other field managers."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.project import CommandResult, Project, eventually
from trainstack.lifecycle.recovery.state_files import read_deployment, state_file
from trainstack.local_cluster.state_folder import Layout

pytestmark = pytest.mark.cluster

NAME = "guarded"
LOCAL_CLUSTER = "trainstack.dev/local-cluster"
Manifest = dict[str, Any]
KINDS = "namespaces,storageclasses,persistentvolumes,persistentvolumeclaims"


def make_config(**labels: str) -> dict[str, Any]:
    """Return an environment without operators: a namespace with these labels, a class and a claim of the class."""
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
    """Yield the small environment, not deployed yet."""
    project = checkout.other_stack(NAME, make_config())
    try:
        yield project
    finally:
        project.kubectl("delete", "pods", "--all", "-n", NAME, "--timeout=60s")
        project.take_down()
        # The hostPath volume is retained.
        project.kubectl("delete", "persistentvolume", NAME, "--ignore-not-found", "--timeout=60s")


@contextmanager
def on_another_cluster(project: Project) -> Iterator[str]:
    """Give the cluster another identity, and make it a remote cluster, for the duration of the block.

    Yields its UID: a cluster without the annotation of local clusters is identified by its namespace kube-system.
    """
    system = project.get("namespace", "kube-system")["metadata"]

    def annotate(annotation: str) -> None:
        done = project.kubectl("annotate", "namespace", "kube-system", annotation)
        assert done.code == 0, done.text

    annotate(f"{LOCAL_CLUSTER}-")
    try:
        yield system["uid"]
    finally:
        annotate(f"{LOCAL_CLUSTER}={system['annotations'][LOCAL_CLUSTER]}")


@contextmanager
def no_claims_in(project: Project, namespace: str) -> Iterator[None]:
    """Reject claims in a namespace for the duration of the block, as an owner's webhook may."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["persistentvolumeclaims"],
    }
    # The namespace may not exist yet, so the probe is a claim in another one.
    expression = f"object.metadata.namespace != '{namespace}' && object.metadata.name != 'probe'"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "no claims today"}],
    }
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-claims"}}
    policy = {**api, "kind": "ValidatingAdmissionPolicy", "spec": spec}
    binding_spec = {"policyName": "no-claims", "validationActions": ["Deny"]}
    binding = {**api, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding_spec}
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


def resource_versions(project: Project) -> dict[str, str]:
    """Return the resource versions of the stack's live objects, by kind and name."""
    found = project.select(KINDS, f"trainstack.dev/stack={NAME}")
    return {f"{body['kind']}/{body['metadata']['name']}": body["metadata"]["resourceVersion"] for body in found}


def state_urns(project: Project) -> set[str]:
    """Return the URNs in the stack's state."""
    done = project.pulumi("stack", "export")
    assert done.code == 0, done.text
    deployment = json.loads(done.out)["deployment"]
    file = state_file(project.root / ".trainstack" / "backend", "trainstack", NAME)
    assert file is not None
    # The commands read the state from this file.
    assert read_deployment(file) == deployment
    return {resource["urn"] for resource in deployment.get("resources", ())}


def assert_refused(done: CommandResult, *words: str) -> None:
    """Assert that the command failed with these words in its output and without a traceback."""
    assert done.code != 0, done.text
    assert "Traceback" not in done.text
    text = " ".join(done.text.split())
    for word in words:
        assert word in text


def test_a_stack_belongs_to_the_cluster_of_its_first_up_even_if_it_failed(guarded: Project) -> None:
    """No command writes to another cluster or drops objects from the state."""
    own = Layout.of(guarded.kubeconfig.parent).identity
    # The first `up` fails after the namespace and before the claim.
    with no_claims_in(guarded, NAME):
        assert_refused(guarded.up(), "no claims today")
    with on_another_cluster(guarded) as other:
        assert_refused(guarded.up(), own, other)
    assert guarded.up().code == 0
    before, urns = resource_versions(guarded), state_urns(guarded)
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
            assert_refused(
                done,
                f"stack '{NAME}' was created on another cluster (UID of namespace kube-system: {own})",
                "the kubeconfig's context 'trainstack-local' (https://",
                f"(UID of namespace kube-system: {other}). Nothing was changed; use the kubeconfig",
                f"set `trainstack:cluster: {{identity: {other}}}` in Pulumi.{NAME}.yaml",
            )
        assert (resource_versions(guarded), state_urns(guarded)) == (before, urns)


@pytest.mark.slow
def test_the_settings_may_name_another_cluster_and_destroy_keeps_to_its_own(guarded: Project) -> None:
    """The next `up` records the declared cluster. `destroy --run-program` fails on another one and deletes nothing."""
    own = Layout.of(guarded.kubeconfig.parent).identity
    assert guarded.up().code == 0
    before, urns = resource_versions(guarded), state_urns(guarded)
    with on_another_cluster(guarded) as other:
        assert_refused(guarded.pulumi("destroy", "--yes", "--skip-preview", "--run-program"), own, other)
        assert (resource_versions(guarded), state_urns(guarded)) == (before, urns)
        guarded.edit_stack(lambda config: config.update({"trainstack:cluster": {"identity": own}}))
        assert_refused(guarded.pulumi("preview"), f"Pulumi.{NAME}.yaml:", f"is for cluster {own}", other)
        guarded.edit_stack(lambda config: config.update({"trainstack:cluster": {"identity": other}}))
        assert guarded.up().code == 0
        guarded.edit_stack(lambda config: config.pop("trainstack:cluster"))
        assert guarded.changes() == {}
    assert_refused(guarded.pulumi("preview"), other, own)
    guarded.edit_stack(lambda config: config.update({"trainstack:cluster": {"identity": own}}))
    assert guarded.up("--refresh").code == 0
    assert resource_versions(guarded).keys() == before.keys()
    done = guarded.pulumi("destroy", "--yes", "--skip-preview", "--run-program")
    assert done.code == 0, done.text
    assert resource_versions(guarded) == {}


def test_a_claim_with_data_is_deleted_only_if_listed_and_not_mounted(guarded: Project) -> None:
    """An edit or removal without `discard` is refused with line and remedy, before any write."""
    assert guarded.up().code == 0
    run_pod(guarded)
    (before,) = guarded.get("persistentvolumeclaims", namespace=NAME)["items"]
    assert before["status"]["phase"] == "Bound"
    live = resource_versions(guarded)

    edit_storage(guarded, lambda storage: storage["volumes"][0].update({"accessModes": ["ReadWriteOnce"]}))
    assert_refused(
        guarded.pulumi("preview"),
        f"Pulumi.{NAME}.yaml:",
        f"storage.volumes[data].accessModes: PersistentVolumeClaim {NAME}/data has accessModes ReadWriteMany, and "
        "ReadWriteOnce is declared: the field is immutable, and this change would replace the claim with an empty one",
        f"trainstack:storage: discard: [{NAME}/data]",
    )
    edit_storage(guarded, lambda storage: storage.update({"volumes": []}))
    deletion = f"PersistentVolumeClaim {NAME}/data is no longer declared, and this change would delete it with its data"
    assert_refused(guarded.up(), deletion, f"trainstack:storage: discard: [{NAME}/data]")

    edit_storage(guarded, lambda storage: storage.update({"discard": [f"{NAME}/data"]}))
    assert_refused(guarded.up(), f"It is mounted by pod {NAME}/user, so it is not discarded")
    assert resource_versions(guarded) == live
    assert guarded.kubectl("delete", "pod", "user", "-n", NAME, "--grace-period=1", "--timeout=60s").code == 0
    done = guarded.up()
    assert done.code == 0, done.text
    assert deletion in " ".join(done.text.split())
    assert guarded.get("persistentvolumeclaims", namespace=NAME)["items"] == []
    again = guarded.up()
    assert again.code == 0, again.text
    assert f"discard names {NAME}/data, which this change neither deletes nor replaces" in " ".join(again.text.split())


def test_an_object_that_another_stack_owns_by_now_is_not_deleted(guarded: Project) -> None:
    """Nor one without its label. The printed commands resolve both, and the object is the same afterwards."""
    assert guarded.up().code == 0
    config = make_config()
    (volume,) = config["trainstack:storage"]["volumes"]
    existing = {"namespaces": [NAME], "storageClasses": [NAME]}
    heir = guarded.other_stack(
        "heir",
        {
            "trainstack:environment": {"existing": existing, "layers": ["training"]},
            "trainstack:storage": {"volumes": [{**volume, "adopt": True}]},
        },
    )
    done = heir.up()
    assert done.code == 0, done.text
    (before,) = guarded.get("persistentvolumeclaims", namespace=NAME)["items"]
    try:
        edit_storage(guarded, lambda storage: storage.update({"volumes": []}))
        commands = (
            guarded.pulumi("preview"),
            guarded.up(),
            guarded.trainstack("up", "--yes", "--no-wait"),
            guarded.trainstack("destroy", "--yes"),
            guarded.trainstack("destroy", "--keep-platform", "--yes"),
            guarded.pulumi("destroy", "--yes", "--skip-preview", "--run-program"),
        )
        for done in commands:
            assert_refused(done, f"PersistentVolumeClaim {NAME}/data is in the state", "belongs to stack 'heir'")
        run_printed(guarded, commands[0], "pulumi state delete")
        done = guarded.up()
        assert done.code == 0, done.text
        assert guarded.changes() == {}
        (after,) = guarded.get("persistentvolumeclaims", namespace=NAME)["items"]
        assert after["metadata"] == before["metadata"]

        mark = "trainstack.dev/stack-"
        assert guarded.kubectl("label", "namespace", NAME, mark).code == 0
        guarded.edit_stack(lambda config: config["trainstack:environment"].update({"namespaces": []}))
        guarded.edit_stack(lambda config: config["trainstack:environment"].update({"existing": {"namespaces": [NAME]}}))
        done = guarded.up()
        assert_refused(done, "its label trainstack.dev/stack was removed", "pulumi state delete")
        run_printed(guarded, done, "kubectl label")
        assert_refused(guarded.up(), f"PersistentVolumeClaim {NAME}/data, of stack 'heir', is in namespace {NAME}")
    finally:
        heir.take_down()


def run_printed(project: Project, refused: CommandResult, command: str) -> None:
    """Run a command as a refusal printed it."""
    text = " ".join(refused.text.split())
    (printed, *_) = re.findall(rf"(?:`|\()({command} .*?)(?:`|\))", text)
    done = project.run(["sh", "-c", printed])
    assert done.code == 0, done.text


def test_values_of_other_field_managers_are_refused_or_reported(guarded: Project) -> None:
    """The refusal lists the values set with kubectl and by a controller, with both values each; nothing is written.

    With `adopt: true`, `up` overwrites a value and reports it.
    """
    config = make_config(team="ours")
    config["trainstack:storage"]["volumes"][0]["labels"] = {"for": "ours"}
    config["trainstack:storage"]["persistentVolumes"] = [
        {"name": NAME, "storageClass": "none", "size": "1Gi", "accessModes": ["ReadWriteMany"], "hostPath": "/none"}
        | {"labels": {"of": "ours"}}
    ]
    guarded.write_stack(NAME, config)
    assert guarded.up().code == 0
    edit_as_others(guarded)
    live = resource_versions(guarded)
    conflicts = (
        f"Namespace {NAME}: metadata.labels.team is \"theirs\", set by 'kubectl-patch' (",
        ', and "ours" is declared; declare that value in the settings, restore the declared value in the cluster,',
        f"PersistentVolumeClaim {NAME}/data: metadata.labels.for is \"theirs\", set by 'kubectl-client-side-apply' (",
        f"PersistentVolume {NAME}: metadata.labels.of is \"theirs\", set by 'kubectl' (",
        f"StorageClass {NAME}: allowVolumeExpansion is true, set by 'controller' (",
        ", and false is declared",
    )
    for done in (guarded.pulumi("preview"), guarded.up()):
        assert_refused(done, *conflicts)
    assert resource_versions(guarded) == live

    # Two values are copied to the settings, one is restored in the cluster, one will be overwritten.
    config["trainstack:environment"]["namespaces"][0]["labels"]["team"] = "theirs"
    config["trainstack:storage"]["classes"][0]["allowVolumeExpansion"] = True
    config["trainstack:storage"]["volumes"][0]["adopt"] = True
    guarded.write_stack(NAME, config)
    restored = json.dumps({"metadata": {"labels": {"of": "ours"}}})
    assert guarded.kubectl("patch", "persistentvolume", NAME, "--patch", restored).code == 0
    done = guarded.up()
    assert done.code == 0, done.text
    assert "is \"theirs\", set by 'kubectl-client-side-apply'" in done.text
    assert 'and "ours" is declared, which wins (adopt: true)' in " ".join(done.text.split())
    assert guarded.get("persistentvolumeclaim", "data", NAME)["metadata"]["labels"]["for"] == "ours"
    assert guarded.changes("--refresh") == {}


def edit_as_others(project: Project) -> None:
    """Set a value with each of three kubectl commands and as a controller."""

    def manifest(kind: str, name: str, version: str = "v1", **rest: Any) -> str:
        labels = rest.pop("labels", None)
        scope = {"namespace": NAME} if kind == "PersistentVolumeClaim" else {}
        metadata = {"name": name, **scope, **({"labels": labels} if labels else {})}
        return json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata, **rest})

    patch = json.dumps({"metadata": {"labels": {"team": "theirs"}}})
    force = ("apply", "--server-side", "--force-conflicts")
    expandable = {"allowVolumeExpansion": True, "provisioner": "rancher.io/local-path"}
    for done in (
        project.kubectl("patch", "namespace", NAME, "--patch", patch),
        project.kubectl("apply", stdin=manifest("PersistentVolumeClaim", "data", labels={"for": "theirs"})),
        project.kubectl(*force, stdin=manifest("PersistentVolume", NAME, labels={"of": "theirs"})),
        project.kubectl(
            *force,
            "--field-manager=controller",
            stdin=manifest("StorageClass", NAME, "storage.k8s.io/v1", **expandable),
        ),
    ):
        assert done.code == 0, done.text


OBJECTS = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  suspend: yes
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          serviceAccountName: reader
          containers: [{name: main, image: "busybox:1.35"}]
---
apiVersion: v1
kind: Service
metadata: {name: master}
spec: {clusterIP: None, selector: {app: none}, ports: [{port: 23456}]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: guarded-objects}
spec:
  accessModes: [ReadOnlyMany]
  capacity: {storage: 1Gi}
  claimRef: {namespace: guarded, name: models}
  nfs: {server: 192.0.2.1, path: /models}
  storageClassName: ""
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models}
spec:
  accessModes: [ReadOnlyMany]
  resources: {requests: {storage: 1Gi}}
  storageClassName: ""
  volumeName: guarded-objects
"""


def test_other_objects_are_declared_guarded_and_retained(guarded: Project) -> None:
    """They are created as they are written, and a second preview finds no change.

    An object of another owner is refused unless it is listed, a claim cannot be edited, and volumes remain.
    """
    (guarded.root / "objects.yaml").write_text(OBJECTS)
    (guarded.root / "train.conf").write_text("lr = 1\n")
    section: dict[str, Any] = {
        "files": ["objects.yaml"],
        "configMaps": [{"name": "train", "files": ["train.conf"]}],
    }
    guarded.edit_stack(lambda config: config.update({"trainstack:objects": section}))
    try:
        assert guarded.up().code == 0
        assert guarded.changes() == {}
        cron_job = guarded.get("cronjobs", "nightly", NAME)
        assert cron_job["metadata"]["labels"]["trainstack.dev/stack"] == NAME
        assert (cron_job["spec"]["schedule"], cron_job["spec"]["suspend"]) == ("0 3 * * *", True)
        assert guarded.get("configmaps", "train", NAME)["data"] == {"train.conf": "lr = 1\n"}
        assert guarded.get("persistentvolumeclaims", "models", NAME)["spec"]["volumeName"] == "guarded-objects"

        done = guarded.kubectl("create", "serviceaccount", "other", "-n", NAME)
        assert done.code == 0, done.text
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other"}}
        guarded.edit_stack(lambda config: config["trainstack:objects"].update({"manifests": [account]}))
        name = f"ServiceAccount {NAME}/other"
        assert_refused(guarded.up(), f"{name} exists and was created by another owner", "in `objects.adopt`")
        guarded.edit_stack(lambda config: config["trainstack:objects"].update({"adopt": [name]}))
        assert guarded.up().code == 0

        (guarded.root / "objects.yaml").write_text(OBJECTS.replace("volumeName: guarded-objects", "volumeName: other"))
        assert_refused(guarded.up(), "objects.yaml:", "has volumeName guarded-objects, and other is declared")
        (guarded.root / "objects.yaml").write_text(OBJECTS)

        done = guarded.trainstack("destroy", "--yes")
        assert done.code == 0, done.text
        assert guarded.get("cronjobs", "nightly", NAME) == {}
        assert guarded.get("serviceaccounts", "other", NAME) == {}
        assert guarded.get("persistentvolumeclaims", "models", NAME)
        assert guarded.get("persistentvolumes", "guarded-objects")
        assert guarded.get("namespaces", NAME)
        # A later test declares a namespace that is not retained.
        guarded.kubectl("delete", "namespace", NAME, "--timeout=60s")
    finally:
        guarded.kubectl("delete", "persistentvolumeclaim", "models", "-n", NAME, "--ignore-not-found", "--timeout=60s")
        guarded.kubectl("delete", "persistentvolume", "guarded-objects", "--ignore-not-found", "--timeout=60s")


def edit_storage(project: Project, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the `storage` section in place."""
    project.edit_stack(lambda config: edit(config["trainstack:storage"]))


def run_pod(project: Project) -> None:
    """Create a pod that mounts the claim, and wait until it runs."""
    container = {
        "name": "user",
        "image": "busybox:1.35",
        "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    metadata = {"name": "user", "namespace": NAME}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "volumes": volumes, "securityContext": security},
    }
    done = project.kubectl("create", stdin=json.dumps(pod))
    assert done.code == 0, done.text
    eventually("the pod runs", lambda: project.get("pod", "user", NAME)["status"]["phase"] == "Running", 300)
