"""What the cluster sets is dropped from live objects, and nothing else."""

from typing import Any

import pytest

from trainstack.onboarding.convert.server_fields import drop_server_fields

UID = "0d1fe5a4-5b1c-4a34-9a4b-7d3f6a7f6f10"


def make_object(kind: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    """Return an object of a file, or a live one if its metadata has a uid."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", **metadata}, "spec": spec}


def test_a_live_job_is_that_of_its_author() -> None:
    """The selector and the labels of its pods, in both spellings, are generated; other labels are the author's."""
    generated = {"controller-uid": UID, "batch.kubernetes.io/controller-uid": UID, "job-name": "a"}
    generated["batch.kubernetes.io/job-name"] = "a"
    live = make_object(
        "Job",
        {
            "suspend": False,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
            "template": {"metadata": {"labels": {"app": "x", **generated}}, "spec": {"containers": []}},
        },
        uid=UID,
        resourceVersion="7",
        labels={"kueue.x-k8s.io/queue-name": "shared", **generated},
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        managedFields=[{}],
    )
    cleaned = drop_server_fields({**live, "status": {"active": 1}})
    assert cleaned.is_live
    assert cleaned.body == make_object(
        "Job",
        {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}},
        labels={"kueue.x-k8s.io/queue-name": "shared"},
    )
    assert {"status", "metadata.uid", "spec.selector", "spec.suspend"} <= {*cleaned.dropped}


def test_a_file_keeps_what_only_the_cluster_would_set_on_live_objects() -> None:
    """Its author may have written them."""
    spec = {"suspend": True, "template": {"metadata": {"labels": {"job-name": "mine"}}}}
    body = make_object("Job", spec, labels={"kueue.x-k8s.io/queue-name": "shared"}, finalizers=["example.org/x"])
    cleaned = drop_server_fields(body)
    assert (cleaned.body, cleaned.dropped, cleaned.is_live) == (body, (), False)


def test_a_selector_of_the_author_is_kept() -> None:
    """`manualSelector` says that the selector is not generated."""
    spec = {"manualSelector": True, "selector": {"matchLabels": {"job-name": "x"}}, "template": {}}
    assert drop_server_fields(make_object("Job", spec, uid=UID)).body["spec"] == spec


def test_the_controller_of_an_object_is_known() -> None:
    """Such an object is created by another one."""
    owners = [{"kind": "Job", "name": "train", "controller": True}, {"kind": "Job", "name": "other"}]
    cleaned = drop_server_fields(make_object("Pod", {}, uid=UID, ownerReferences=owners))
    assert cleaned.controller == "Job train"
    assert "ownerReferences" not in cleaned.body["metadata"]


@pytest.mark.parametrize(("bound", "kept"), [("pv.kubernetes.io/bound-by-controller", {}), ("x", {"volumeName": "v"})])
def test_a_claims_volume_is_its_authors_unless_the_controller_chose_it(bound: str, kept: dict[str, str]) -> None:
    """A claim that names its volume must bind to the same one again."""
    body = make_object("PersistentVolumeClaim", {"volumeName": "v"}, uid=UID, annotations={bound: "yes"})
    assert drop_server_fields(body).body["spec"] == kept


def test_a_live_pod_loses_its_node_and_its_token() -> None:
    """The scheduler and the API server have added them."""
    token = {"name": "kube-api-access-x7k2p"}
    data = {"name": "data"}
    spec = {
        "nodeName": "n1",
        "priority": 0,
        "containers": [{"name": "c", "volumeMounts": [data, token]}, {"name": "d", "volumeMounts": [token]}],
        "volumes": [token, data],
    }
    assert drop_server_fields(make_object("Pod", spec, uid=UID)).body["spec"] == {
        "containers": [{"name": "c", "volumeMounts": [data]}, {"name": "d"}],
        "volumes": [data],
    }
