"""For each preflight rule, an environment with the one fault that it finds."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_expansion,
    make_group,
    make_kueue,
    make_manifest,
    make_mount,
    make_queues,
    make_quota,
    make_run,
    make_settings,
    make_space,
    make_storage,
    make_sweeps,
    make_training_operator,
    make_volume,
)
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import Install, Operators
from trainstack.settings.sections.queues import (
    AdmissionCheck,
    CheckParameters,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    QueueCheck,
    ResourceFlavor,
    ResourceGroup,
)
from trainstack.settings.sections.workloads import Data, Image, Resources, Role

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Case:
    """An environment with one fault."""

    settings: Settings
    path: str
    message: str
    remedy: str
    severity: str = "error"


def limits(resource: str) -> Resources:
    """Return a request of 1 cpu, and a limit of 1 of another resource without a request."""
    return Resources(requests={"cpu": "1"}, limits={resource: "1"})


def quotas(*resources: tuple[str, str], **changes: str) -> Settings:
    """Return an environment whose cluster queue has these quotas on one flavor."""
    listed = tuple(make_quota(name, nominal, **changes) for name, nominal in resources)
    group = ResourceGroup(covered_resources=("cpu", "memory"), flavors=(FlavorQuotas(name="cpu", resources=listed),))
    return make_settings(queues=make_queues(cluster_queues=(make_cluster_queue(resource_groups=(group,)),)))


ALONE = make_settings(
    queues=make_queues(
        cluster_queues=(
            make_cluster_queue(
                cohort=None,
                resource_groups=(
                    ResourceGroup(
                        covered_resources=("cpu", "memory"),
                        flavors=(
                            FlavorQuotas(
                                name="cpu",
                                resources=(make_quota("cpu", "1", borrowing_limit="1"), make_quota("memory", "1Gi")),
                            ),
                        ),
                    ),
                ),
            ),
        )
    )
)
TWO_GPUS = Resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "2"})
TENANT = Environment(profile="tenant")

CASES = {
    "queue-unknown": Case(
        make_settings(make_run(queue="reserch")),
        "workloads.runs[train].queue",
        "local queue 'reserch' is not declared in namespace research",
        "did you mean research? (or declare it under queues.localQueues)",
    ),
    "volume-unknown": Case(
        make_settings(make_run(volumes=(make_mount(), make_mount(volume="trainin", mount_path="/x")))),
        "workloads.runs[train].volumes[1].volume",
        "namespace research has no volume 'trainin'",
        "did you mean training? (or declare it under storage.volumes)",
    ),
    "storage-class-unknown": Case(
        make_settings(storage=make_storage(volumes=(make_volume(storage_class="share"),))),
        "storage.volumes[training].storageClass",
        "storage class 'share' is not declared",
        "did you mean shared? (or declare it under storage.classes)",
    ),
    "priority-unknown": Case(
        make_settings(make_run(priority="urgent")),
        "workloads.runs[train].priority",
        "priority class 'urgent' is not declared",
        "valid names: normal (or declare it under queues.priorityClasses)",
    ),
    "cluster-queue-unknown": Case(
        make_settings(
            queues=make_queues(local_queues=(LocalQueue(name="q", namespace="research", cluster_queue="resarch"),))
        ),
        "queues.localQueues[q].clusterQueue",
        "cluster queue 'resarch' is not declared",
        "did you mean research? (or declare it under queues.clusterQueues)",
    ),
    "flavor-unknown": Case(
        make_settings(queues=make_queues(flavors=(ResourceFlavor(name="gpu"),))),
        "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].name",
        "flavor 'cpu' is not declared",
        "did you mean gpu? (or declare it under queues.flavors)",
    ),
    "cohort-unknown": Case(
        make_settings(queues=make_queues(cohorts=())),
        "queues.clusterQueues[research].cohort",
        "cohort 'local' is not declared",
        "declare it under queues.cohorts",
    ),
    "topology-unknown": Case(
        make_settings(
            queues=make_queues(flavors=(ResourceFlavor(name="cpu", node_labels={"pool": "cpu"}, topology="racks"),))
        ),
        "queues.flavors[cpu].topology",
        "topology 'racks' is not declared",
        "declare it under queues.topologies",
    ),
    "admission-check-unknown": Case(
        make_settings(
            queues=make_queues(cluster_queues=(make_cluster_queue(admission_checks=(QueueCheck(name="nodes"),)),))
        ),
        "queues.clusterQueues[research].admissionChecks[nodes].name",
        "admission check 'nodes' is not declared",
        "declare it under queues.admissionChecks",
    ),
    "check-parameters-unknown": Case(
        make_settings(
            queues=make_queues(
                admission_checks=(
                    AdmissionCheck(
                        name="nodes",
                        controller_name="kueue.x-k8s.io/provisioning-request",
                        parameters=CheckParameters(kind="ProvisioningRequestConfig", name="nodes"),
                    ),
                )
            )
        ),
        "queues.admissionChecks[nodes].parameters.name",
        "ProvisioningRequestConfig 'nodes' is not declared",
        "declare it under queues.provisioningRequestConfigs",
    ),
    "cohort-cycle": Case(
        make_settings(queues=make_queues(cohorts=(Cohort(name="local", parent="local"),))),
        "queues.cohorts[local].parent",
        "cohort local is its own ancestor: local -> local",
        "remove the parent of one cohort",
    ),
    "namespace-unknown": Case(
        make_settings(storage=make_storage(volumes=(make_volume(), make_volume(name="v", namespace="reserch")))),
        "storage.volumes[v].namespace",
        "namespace 'reserch' is not declared",
        "did you mean research? (or declare it under environment.namespaces)",
    ),
    "dependency-unknown": Case(
        make_settings(make_run(), make_run(name="second", depends_on=("trian",))),
        "workloads.runs[second].dependsOn[0]",
        "namespace research has no other run 'trian'",
        "did you mean train? (or declare it under workloads.runs)",
    ),
    "dependency-cycle": Case(
        make_settings(
            make_run(depends_on=("second",)), make_run(name="second", depends_on=("train",)), make_run(name="third")
        ),
        "workloads.runs[train].dependsOn",
        "run train depends on itself through second",
        "remove one dependency",
    ),
    "dependency-endless": Case(
        make_settings(
            make_run(name="stage", kind="Pod", managed=False, queue=None, priority=None),
            make_run(depends_on=("stage",)),
        ),
        "workloads.runs[train].dependsOn[0]",
        "Pod stage never succeeds: its restartPolicy is Always",
        "set the Pod's `restartPolicy` to `Never` or `OnFailure`, or remove the dependency",
    ),
    "covered-resources": Case(
        quotas(("memory", "1Gi"), ("cpu", "1")),
        "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].resources",
        "the flavor lists memory, cpu, but coveredResources is cpu, memory",
        "list the same resources in the same order",
    ),
    "group-overlap": Case(
        make_settings(
            queues=make_queues(
                flavors=(ResourceFlavor(name="cpu"), ResourceFlavor(name="gpu")),
                cluster_queues=(
                    make_cluster_queue(
                        resource_groups=(
                            make_group(("cpu", {"cpu": "1", "memory": "1Gi"})),
                            make_group(("gpu", {"cpu": "1"})),
                        )
                    ),
                ),
            )
        ),
        "queues.clusterQueues[research].resourceGroups[1]",
        "resource cpu is already listed in resourceGroups[0]",
        "list each resource and flavor once, in one group",
    ),
    "limit-without-cohort": Case(
        ALONE,
        "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].resources[cpu].borrowingLimit",
        "cluster queue research has a borrowingLimit, but no cohort",
        "name a cohort or a parent, or remove the limit",
    ),
    "lending-over-nominal": Case(
        quotas(("cpu", "1"), ("memory", "3Gi"), lending_limit="2"),
        "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].resources[cpu].lendingLimit",
        "lendingLimit 2 exceeds nominalQuota 1",
        "lend at most the nominal quota",
    ),
    "queue-closed": Case(
        make_settings(queues=make_queues(cluster_queues=(make_cluster_queue(namespaces=("default",)),))),
        "queues.localQueues[research].clusterQueue",
        "cluster queue research is not open to namespace research (only to default)",
        "add research to the namespaces of research",
    ),
    "resource-uncovered": Case(
        make_settings(make_run(resources=limits("nvidia.com/gpu"))),
        "workloads.runs[train].resources",
        "the pod requests nvidia.com/gpu, which cluster queue research does not cover",
        'cover nvidia.com/gpu (at least 1) in cluster queue research; or remove resources.limits["nvidia.com/gpu"]',
    ),
    "never-fits": Case(
        make_settings(make_distributed(workers=4)),
        "workloads.runs[train].roles.Worker",
        "4 worker pods need 2 cpu, in addition to the 0.5 of the pod sets before them; cluster queue research has at "
        "most 2 of flavor cpu (0.5 missing)",
        "in cluster queue research, raise nominalQuota of cpu on cpu from 2 to 2500m; or lower "
        "resources.requests.cpu from 500m to 400m; or lower roles.Worker.replicas from 4 to 3",
    ),
    "framework-unlisted": Case(
        make_settings(
            make_distributed(),
            operators=Operators(
                kueue=make_kueue(frameworks=("batch/job",)), training_operator=make_training_operator()
            ),
        ),
        "workloads.runs[train].kind",
        "Kueue does not manage kind PyTorchJob: the run would start at once, outside every quota",
        "add kubeflow.org/pytorchjob to operators.kueue.configuration.frameworks",
    ),
    "queue-missing": Case(
        make_settings(make_run(queue=None), operators=Operators(kueue=make_kueue(manage_jobs_without_queue_name=True))),
        "workloads.runs[train]",
        "the run has no queue, and manageJobsWithoutQueueName suspends it forever",
        "add `queue:`",
    ),
    "scheme-missing": Case(
        make_settings(
            make_distributed(), operators=Operators(training_operator=make_training_operator(schemes=("tfjob",)))
        ),
        "workloads.runs[train].kind",
        "the training operator is installed without pytorchjob: the cluster does not serve PyTorchJob",
        "add pytorchjob to operators.trainingOperator.schemes",
    ),
    "jobset-missing": Case(
        make_settings(operators=Operators(trainer=Install(manifest=make_manifest()))),
        "operators.trainer",
        "Trainer requires JobSet, which is not installed",
        "add `jobset: {}` to `operators`",
    ),
    "trainjob-misfit": Case(
        make_settings(
            make_distributed(kind="TrainJob", roles={"Master": Role(), "Worker": Role(args=("--b",))}),
            operators=Operators(),
        ),
        "workloads.runs[train].roles.Worker.args",
        "differs from Master's, but a TrainJob has one kind of node",
        "use the same value in all roles, or set kind to PyTorchJob",
    ),
    "manifest-missing": Case(
        make_settings(
            operators=Operators(
                training_operator=make_training_operator(manifest=make_manifest(url=None, path="x.yaml"))
            )
        ),
        "operators.trainingOperator.manifest.path",
        "file x.yaml does not exist",
        "correct the path, or name an address: `manifest: {path: null, url: …, sha256: …}`",
    ),
    "manifest-mismatch": Case(
        make_settings(
            operators=Operators(
                training_operator=make_training_operator(manifest=make_manifest(url=None, path="LICENSE"))
            )
        ),
        "operators.trainingOperator.manifest.sha256",
        f"LICENSE has sha256 {sha256((ROOT / 'LICENSE').read_bytes()).hexdigest()}, not {'0' * 64}",
        "run `trainstack dev tools`, or pin the new digest if the change is intended",
    ),
    "volume-one-pod": Case(
        make_settings(
            make_distributed(), storage=make_storage(volumes=(make_volume(access_modes=("ReadWriteOncePod",)),))
        ),
        "workloads.runs[train].volumes[0].volume",
        "3 pods mount volume training, but only one can (ReadWriteOncePod)",
        "give the volume `ReadWriteMany`, or mount it in one role with one pod",
    ),
    "volume-one-node": Case(
        make_settings(
            make_distributed(), storage=make_storage(volumes=(make_volume(access_modes=("ReadWriteOnce",)),))
        ),
        "workloads.runs[train].volumes[0].volume",
        "3 pods mount volume training, which only one node can mount (ReadWriteOnce)",
        "give the volume `ReadWriteMany`, or make sure that the pods fit on one node",
        "warning",
    ),
    "mount-duplicate": Case(
        make_settings(make_run(volumes=(make_mount(), make_mount(mount_path="/mnt/training/")))),
        "workloads.runs[train].volumes",
        "/mnt/training is the mount path of 2 volumes",
        "give each volume, and the code, its own path; Trainstack reserves some paths",
    ),
    "record-unmounted": Case(
        make_settings(make_run(volumes=(make_mount(read_only=True),))),
        "workloads.runs[train].record.volume",
        "volume training is mounted read-only, so the run cannot be recorded",
        "remove readOnly from its mount",
    ),
    "data-unmounted": Case(
        make_settings(
            make_distributed(
                roles={"Master": Role(), "Worker": Role(volumes=())},
                data=Data(manifest="LICENSE", volume="training", path="data"),
            )
        ),
        "workloads.runs[train].data.volume",
        "Worker does not mount volume training, which holds the data",
        "add training to the volumes, with a mountPath",
        "warning",
    ),
    "name-derived": Case(
        make_settings(make_distributed(name="3d")),
        "workloads.runs[3d].name",
        "workload 3d: the training operator creates a Service for each pod named after it, so its name must start with "
        "a letter",
        "put a letter before the workload's name",
    ),
    "name-duplicate": Case(
        make_settings(storage=make_storage(volumes=(make_volume(), make_volume(size="1Gi")))),
        "storage.volumes",
        "research/training is listed 2 times",
        "rename or remove all but one",
    ),
    "data-missing": Case(
        make_settings(make_run(data=Data(manifest="nowhere.json", volume="training", path="data"))),
        "workloads.runs[train].data.manifest",
        "file nowhere.json does not exist",
        "prepare the data, and commit its `manifest.json` under that name",
    ),
    "dockerfile-missing": Case(
        make_settings(make_run(image=Image(build="settings"))),
        "workloads.runs[train].image.build",
        "file settings/Dockerfile does not exist",
        "write it, or name an existing image with `image: {name: …}`",
    ),
    "passphrase-published": Case(
        # Pulumi.dev.yaml without `environment.state: embedded`.
        make_settings(stack="dev"),
        "environment.state",
        "`encryptionsalt` was made with the published passphrase",
        "run `pulumi stack change-secrets-provider` and change the secrets, or set `environment.state: embedded`",
    ),
    "image-unpinned": Case(
        make_settings(
            make_run(),
            environment=Environment(namespaces=(Namespace(name="research"),), pinned=True),
            operators=Operators(),
            pins={"busybox:1.35": f"sha256:{'1' * 64}"},
        ),
        "workloads.runs[train].image.name",
        "image python:3.11 has no digest, and pins/test.yaml does not pin it",
        "run `trainstack pin -s test`",
    ),
    "sweep-stale": Case(
        make_settings(sweeps=make_sweeps(space=make_space(seed=1))),
        "sweeps.sweeps[search]",
        "sweeps/search/hyperparams.yml does not match space.yaml, which was edited since",
        "run `trainstack sweep expand search`",
    ),
    "sweep-name-taken": Case(
        make_settings(make_run(name="search"), sweeps=make_sweeps()),
        "sweeps.sweeps[search].name",
        "a run also has the name search",
        "rename the run, or the sweep's folder",
    ),
    "sweep-too-large": Case(
        make_settings(
            sweeps=make_sweeps(
                space=make_space(file="/sets.yml"),
                expansion=make_expansion({"note": "x" * 600_000}, {"note": "y" * 600_000}),
                sets_text="x" * 1_200_000,
            )
        ),
        "sweeps.sweeps[search]",
        "its 2 sets need 1200000 bytes, but a ConfigMap holds 1048576 (1 sets)",
        "move the others to a second sweep",
    ),
    "sweep-cost": Case(
        make_settings(
            queues=make_queues(local_queues=()),
            sweeps=make_sweeps(
                form="indexed",
                parallelism=1,
                max_gpu_hours=3.0,
                run=make_run(
                    name="search",
                    queue=None,
                    priority=None,
                    active_deadline_seconds=1800,
                    backoff_limit=1,
                    resources=TWO_GPUS,
                ),
            ),
        ),
        "sweeps.sweeps[search].maxGpuHours",
        "4 sets of 2 GPUs with up to 1800 s and 2 attempts each cost up to 8.0 GPU hours; the limit is 3",
        "lower `run.activeDeadlineSeconds`, remove sets, or raise the limit",
    ),
    "tenant-cluster-scoped": Case(
        make_settings(
            environment=Environment(profile="tenant", namespaces=(Namespace(name="research"),)),
            queues=make_queues(flavors=(), cohorts=(), cluster_queues=(), priority_classes=(), local_queues=()),
            storage=make_storage(classes=(), volumes=()),
            operators=Operators(),
        ),
        "environment.namespaces",
        "a tenant's stack cannot declare cluster-scoped objects (research)",
        "leave them to the platform's owner, and set what defaults.yaml declares to null",
    ),
}
