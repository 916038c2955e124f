"""Each object has a place in the project, or a reason why it has none."""

from typing import Any

import pytest

from tests.unit.onboarding.convert.make import CLAIM, JOB, convert, make_target
from trainstack.errors import TrainstackError
from trainstack.onboarding.convert.conversion import Conversion
from trainstack.settings.sections.environment import Environment, Existing


def entries(conversion: Conversion) -> dict[str, list[Any]]:
    """Return the values that are added to each list of the environment."""
    values: dict[str, list[Any]] = {}
    for entry in conversion.entries:
        values.setdefault(".".join(entry.path), []).append(entry.value)
    return values


def outcomes(conversion: Conversion) -> dict[str, str]:
    """Return what became of each object."""
    return {item.source.identity: f"{item.outcome}: {item.place or item.reason}" for item in conversion.objects}


def test_a_job_becomes_a_workload_with_its_own_text() -> None:
    """Comments and order are the author's; its claims are those of the files, or exist already."""
    conversion = convert(JOB, CLAIM.replace("name: data", "name: other"))
    assert conversion.files == {"workloads/train/workload.yaml": JOB}
    assert entries(conversion) == {
        "workloads.runs": [{"name": "train", "naming": "fixed"}],
        "storage.volumes": [
            {
                "name": "other",
                "namespace": "vision",
                "storageClass": "fast",
                "size": "10Gi",
                "accessModes": ["ReadWriteMany"],
            }
        ],
        "environment.existing.namespaces": ["vision"],
        "environment.existing.volumes": [{"name": "data", "namespace": "vision"}],
        "environment.existing.storageClasses": ["fast"],
    }


def test_a_live_job_is_adopted() -> None:
    """It would be launched a second time. Several are no sweep, since trials cannot be adopted."""
    live = [JOB.replace("name: train\n", f"name: train-{number}\n  uid: 1-{number}\n") for number in (1, 2)]
    conversion = convert(*live, with_sweeps=True)
    assert entries(conversion)["workloads.runs"] == [
        {"name": f"train-{number}", "naming": "fixed", "adopt": True} for number in (1, 2)
    ]
    assert "sweeps.sweeps" not in entries(conversion)


def test_an_object_without_a_namespace_gets_that_of_the_target() -> None:
    """kubectl would take it from its context."""
    job = JOB.replace("  namespace: vision\n", "")
    assert entries(convert(job))["workloads.runs"] == [{"name": "train", "naming": "fixed", "namespace": "vision"}]
    with pytest.raises(TrainstackError, match="Job train has no namespace; name one with --namespace"):
        convert(job, target=make_target(None))


def test_a_kind_without_a_module_gets_the_paths_of_its_pods() -> None:
    """The components of an AppWrapper are elements of a list."""
    conversion = convert(
        """\
        apiVersion: workload.codeflare.dev/v1beta2
        kind: AppWrapper
        metadata: {name: aw, namespace: vision}
        spec:
          components:
            - template: {apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: []}}
            - template:
                apiVersion: batch/v1
                kind: Job
                metadata: {name: inner}
                spec: {parallelism: 2, template: {spec: {containers: [{name: c, image: "a:1"}]}}}
        """
    )
    assert [*conversion.files] == ["workloads/aw/workload.yaml", "workloads/aw/appwrapper.yaml"]
    assert (
        conversion.files["workloads/aw/workload.yaml"]
        == """\
manifest: appwrapper.yaml
object:
  framework: workload.codeflare.dev/appwrapper
  pods:
  - name: aw-0
    template: spec.components[1].template.spec.template
    replicas: spec.components[1].template.spec.parallelism
"""
    )


def test_other_objects_keep_their_file() -> None:
    """A claim with a field that `storage` does not have is among them."""
    claim = CLAIM.replace("namespace: vision", "namespace: vision, annotations: {helm.sh/resource-policy: keep}")
    config = "# Read by the program.\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: vision}\n"
    conversion = convert(f"{config}---\n{claim}")
    assert conversion.files == {"objects/1.yaml": f"{config}---\n{claim}"}
    assert entries(conversion)["objects.files"] == ["objects/1.yaml"]


def test_a_secrets_values_are_in_no_file_and_no_message() -> None:
    """The command to create it names the keys."""
    conversion = convert(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: hub, namespace: vision}\ntype: example.org/t\n"
        "stringData: {token: hunter2}\ndata: {user: aHVudGVyMg==}\n"
    )
    assert (conversion.files, conversion.entries) == ({}, [])
    (item,) = conversion.objects
    assert item.outcome == "referenced"
    assert item.reason.endswith(
        "kubectl create secret generic hub -n vision --type=example.org/t --from-file=token=<file> "
        "--from-file=user=<file>"
    )
    assert "hunter2" not in item.reason
    assert "aHVudGVyMg" not in item.reason


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n", "referenced: it is used as an existing one"),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: lab}\n", "left: runs until it is deleted"),
        ("apiVersion: v1\nkind: Event\nmetadata: {name: lab}\n", "referenced: the cluster creates it"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt}\n", "referenced: the cluster creates it"),
        (
            "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: lab}\nspec: {}\n",
            "left: kubeflow.org/v1 is not supported: set apiVersion to kubeflow.org/v2beta1",
        ),
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: lab, labels: {trainstack.dev/stack: other}}\nspec: {}\n",
            "left: stack other of Trainstack declares it",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a, ownerReferences: [{kind: X, name: t, controller: true}]}}",
            "referenced: X t creates it",
        ),
    ],
)
def test_what_is_not_converted_has_a_reason(text: str, outcome: str) -> None:
    """It is listed, never dropped silently."""
    (found,) = outcomes(convert(text)).values()
    assert found.startswith(outcome)


def test_a_tenants_environment_has_no_queues() -> None:
    """They belong to the platform's environment."""
    queue = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: q, namespace: vision}\n"
    target = make_target(environment=Environment(profile="tenant", layers=("training",)))
    assert outcomes(convert(f"{queue}spec: {{clusterQueue: q}}\n", target=target)) == {
        "LocalQueue vision/q": "left: lab has no platform: convert it into the platform's environment"
    }


def test_an_earlier_version_of_a_queue_is_read_in_the_settings_version() -> None:
    """Its cohort needs no object in Kueue, but one in the settings."""
    conversion = convert(
        """\
        apiVersion: kueue.x-k8s.io/v1beta1
        kind: ClusterQueue
        metadata: {name: vision}
        spec:
          cohort: lab
          namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: vision}}
          resourceGroups:
            - coveredResources: [cpu]
              flavors: [{name: a100, resources: [{name: cpu, nominalQuota: 8}]}]
        """
    )
    (queue,) = entries(conversion)["queues.clusterQueues"]
    assert (queue["cohort"], queue["namespaces"]) == ("lab", ["vision"])
    assert entries(conversion)["queues.cohorts"] == [{"name": "lab"}]


def test_nothing_that_exists_is_overwritten() -> None:
    """The error names the object and the workload."""
    with pytest.raises(TrainstackError, match=r"1.yaml:2: workload train exists in the project \(workloads/train"):
        convert(JOB, target=make_target(workload_names=("train",)))
    with pytest.raises(TrainstackError, match=r"Job vision/train is in 1\.yaml:2 too; leave one of them"):
        convert(JOB, JOB)


def test_objects_of_one_name_become_workloads_of_different_names() -> None:
    """Their names in the cluster are those of their manifests."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: train, namespace: vision}\nspec: {containers: []}\n"
    dotted = JOB.replace("name: train", "name: train.v1")
    runs = entries(convert(JOB, pod, dotted))["workloads.runs"]
    assert [run["name"] for run in runs] == ["train", "train-pod", "train-v1"]


def test_an_object_of_a_file_without_namespace_is_in_that_of_the_target() -> None:
    """With several namespaces, section `objects` would not know which; with one, the file stays as it is."""
    config = "# Mine.\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
    assert convert(config).files == {"objects/1.yaml": config}
    several = make_target(environment=Environment(existing=Existing(namespaces=("other",))))
    (text,) = convert(config, target=several).files.values()
    assert text == "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: conf\n  namespace: vision\n"
    with pytest.raises(TrainstackError, match="ConfigMap conf has no namespace; name one with --namespace"):
        convert(config, target=make_target(None))
