"""What the API server would refuse in a pod is found in its template; `tests/dryrun` compares drawn pods with it."""

from typing import Any

import pytest

from trainstack.preflight.pod_validation import find_pod_faults


def make_template(**changes: Any) -> dict[str, Any]:
    """Return a template with a container, a volume, and these changes of its spec."""
    spec = {"containers": [make_container()], "volumes": [{"name": "cache", "emptyDir": {}}]}
    return {"metadata": {}, "spec": {**spec, **changes}}


def make_container(**changes: Any) -> dict[str, Any]:
    mounts = [{"name": "cache", "mountPath": "/cache"}]
    return {"name": "main", "image": "main:1", "volumeMounts": mounts, **changes}


def faults(**changes: Any) -> list[tuple[str, str]]:
    """Return the path and the problem of each fault of a template with these changes of its spec."""
    return [(fault.path, fault.problem) for fault in find_pod_faults(make_template(**changes))]


def container_faults(**changes: Any) -> list[tuple[str, str]]:
    """Return the faults of a template whose container has these changes, by paths relative to the container."""
    found = faults(containers=[make_container(**changes)])
    return [(path.removeprefix("spec.containers[main]").removeprefix("."), problem) for path, problem in found]


def test_a_valid_pod_has_no_faults() -> None:
    init = make_container(
        name="init", image="init:1", restartPolicy="Always", livenessProbe={"exec": {"command": ["a"]}}
    )
    assert faults(initContainers=[init], dnsPolicy="None", dnsConfig={"nameservers": ["1.1.1.1"]}) == []


def test_a_volume_that_the_operator_adds_may_be_mounted() -> None:
    container = make_container(volumeMounts=[{"name": "ssh-auth", "mountPath": "/ssh"}])
    template = make_template(containers=[container])
    assert find_pod_faults(template, ("ssh-auth",)) == []
    (fault,) = find_pod_faults(template, places_of_volumes="volumes of the pod")
    assert (fault.problem, fault.remedy) == (
        "mounts ssh-auth, which is not a volume",
        "valid names: cache, or add it to volumes of the pod",
    )


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"image": None}, "image", "is missing"),
        ({"imagePullPolicy": "always"}, "imagePullPolicy", "is not supported (value always)"),
        (
            {"volumeMounts": [{"name": "cach", "mountPath": "/cache"}]},
            "volumeMounts[cach]",
            "mounts cach, which is not a volume",
        ),
        (
            {"volumeMounts": [{"name": "cache", "mountPath": "/cache", "subPath": "../a"}]},
            "volumeMounts[cache].subPath",
            "leaves the volume (value ../a)",
        ),
        (
            {"volumeDevices": [{"name": "cache", "devicePath": "/dev/x"}]},
            "volumeDevices[cache]",
            "cache is not a claim",
        ),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "env[A].valueFrom", "has no content"),
        (
            {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            "env[A]",
            "has value and valueFrom",
        ),
        ({"ports": [{"containerPort": 0}]}, "ports[0].containerPort", "must be 1 to 65535 (value 0)"),
        ({"livenessProbe": {}}, "livenessProbe", "has no content"),
        (
            {"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
            "securityContext.allowPrivilegeEscalation",
            "is false, but the container is privileged",
        ),
    ],
)
def test_faults_of_containers_have_their_paths(changes: dict[str, Any], path: str, problem: str) -> None:
    assert container_faults(**changes) == [(path, problem)]


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        (
            {"volumes": [{"name": "cache", "emptyDir": {}, "secret": {"secretName": "a"}}]},
            "spec.volumes[cache]",
            "has emptyDir and secret",
        ),
        ({"volumes": [{"name": "cache", "configMap": {}}]}, "spec.volumes[cache].configMap.name", "is missing"),
        ({"initContainers": [make_container()]}, "spec.initContainers[main]", "has the name of another container"),
        (
            {"initContainers": [make_container(name="a", lifecycle={"postStart": {"exec": {"command": ["a"]}}})]},
            "spec.initContainers[a].lifecycle",
            "is set, but the init container is not restarted",
        ),
        ({"containers": [make_container(name="A")]}, "spec.containers[A]", "has the invalid name A"),
        ({"dnsPolicy": "None"}, "spec.dnsConfig.nameservers", "is missing, which dnsPolicy None requires"),
    ],
)
def test_faults_of_pods_have_their_paths(changes: dict[str, Any], path: str, problem: str) -> None:
    assert faults(**changes) == [(path, problem)]


def test_the_remedy_for_an_unknown_volume_names_a_similar_one() -> None:
    container = make_container(volumeMounts=[{"name": "cach", "mountPath": "/cache"}])
    (fault,) = find_pod_faults(make_template(containers=[container]))
    assert fault.remedy.startswith("did you mean cache, or add it")
