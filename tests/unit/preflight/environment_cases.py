"""Further environments with one fault: of names, operators and volumes, of labels, versions and silences."""

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_expansion,
    make_kueue,
    make_manifest,
    make_manifest_job,
    make_manifest_run,
    make_mount,
    make_queues,
    make_quota,
    make_run,
    make_secret,
    make_settings,
    make_storage,
    make_sweeps,
    make_training_operator,
    make_volume,
)
from tests.unit.preflight.booking_cases import BOOKING_CASES
from tests.unit.preflight.cases import CASES, Case
from tests.unit.preflight.object_cases import OBJECT_CASES
from tests.unit.preflight.pod_cases import POD_CASES
from tests.unit.preflight.pool_cases import POOL, POOL_CASES
from tests.unit.preflight.slip_cases import SLIP_CASES
from tests.unit.runs.manifests.test_mpijob import make_mpijob
from tests.unit.runs.manifests.test_object import make_object
from tests.unit.runs.manifests.test_rayjob import make_rayjob
from trainstack.kueue.differences import release_of
from trainstack.runs.manifests.pod_template import SHARED_MEMORY_FOLDER, WRAPPER_FOLDER
from trainstack.settings.errors import suggest_name
from trainstack.settings.model import Cluster, Loader, Settings
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.sections.checks import Checks, Silence
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.jobsets import DependsOn
from trainstack.settings.sections.operators import Install, Operators
from trainstack.settings.sections.queues import (
    MULTI_KUEUE_CONTROLLER,
    PROVISIONING_CONTROLLER,
    AdmissionCheck,
    CheckParameters,
    ClusterKubeConfig,
    Cohort,
    FlavorQuotas,
    MultiKueueCluster,
    MultiKueueConfig,
    PriorityClass,
    ProvisioningRequestConfig,
    QueueCheck,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Topology,
)
from trainstack.settings.sections.secrets import Secrets
from trainstack.settings.sections.storage import PersistentVolume, StorageClass
from trainstack.settings.sections.topology import TopologyRequest
from trainstack.settings.sections.workloads import Data, ReplicatedJob, Resources, Role, Workloads

SECURE = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
"""The settings of a container that complies with Pod Security `restricted`."""


def static(**changes: object) -> Settings:
    """Return an environment with a claim for a static volume; `changes` make the volume unsuitable."""
    volume = {
        "name": "disk",
        "storage_class": "manual",
        "size": "2Gi",
        "access_modes": ("ReadWriteMany",),
        "host_path": "/data",
        "labels": {"type": "disk"},
        **changes,
    }
    claim = make_volume(storage_class="manual", selector={"type": "disk"})
    manual = StorageClass(name="manual", provisioner="kubernetes.io/no-provisioner")
    storage = make_storage(
        classes=(manual,), volumes=(claim,), persistent_volumes=(PersistentVolume.model_validate(volume),)
    )
    return make_settings(storage=storage)


MANY_SETS: list[dict[str, Value]] = [{"batch_size": f"{size:02000}"} for size in range(1, 151)]
WORKERS = CheckParameters(kind="MultiKueueConfig", name="workers")


def check_of(name: str, parameters: CheckParameters | None = WORKERS) -> AdmissionCheck:
    return AdmissionCheck(name=name, controller_name=MULTI_KUEUE_CONTROLLER, parameters=parameters)


def dispatching(*checks: AdmissionCheck, queue: dict[str, object], **run: object) -> Settings:
    """Return an environment whose queue has checks of MultiKueue; `queue` are the fields of the checks in the queue."""
    queue_checks = tuple(QueueCheck.model_validate({"name": check.name, **queue}) for check in checks)
    queues = make_queues(
        cluster_queues=(make_cluster_queue(admission_checks=queue_checks),),
        admission_checks=checks,
        multi_kueue_clusters=(MultiKueueCluster(name="west", kube_config=ClusterKubeConfig(location="west")),),
        multi_kueue_configs=(MultiKueueConfig(name="workers", clusters=("west",)),),
    )
    return make_settings(make_run(**run), queues=queues)


def provisioning(release: str) -> Settings:
    """Return an environment whose queue has a check of MultiKueue and one that requests nodes.

    If `release` is empty, the environment does not install Kueue.
    """
    nodes = AdmissionCheck(
        name="nodes",
        controller_name=PROVISIONING_CONTROLLER,
        parameters=CheckParameters(kind="ProvisioningRequestConfig", name="nodes"),
    )
    settings = dispatching(check_of("west"), nodes, queue={})
    configs = {"provisioning_request_configs": (ProvisioningRequestConfig(name="nodes", provisioning_class_name="c"),)}
    kueue = released(kueue=release).operators.kueue if release else None
    return settings.model_copy(
        update={
            "queues": settings.queues.model_copy(update=configs),
            "operators": settings.operators.model_copy(update={"kueue": kueue}),
        }
    )


def with_quota(quota: ResourceQuota) -> Cohort:
    """Return the cohort `local` with this quota on the flavor `cpu`."""
    flavor = FlavorQuotas(name="cpu", resources=(quota,))
    return Cohort(name="local", resource_groups=(ResourceGroup(covered_resources=(quota.name,), flavors=(flavor,)),))


def frameworks(*names: str) -> Settings:
    """Return an environment whose Kueue manages these frameworks."""
    return make_settings(operators=Operators(kueue=make_kueue(frameworks=names)))


def gates(feature_gates: dict[str, bool], version: str = "v0.15.2") -> Settings:
    """Return an environment whose Kueue has these feature gates."""
    kueue = make_kueue(feature_gates=feature_gates).model_copy(update={"manifest": make_manifest(version=version)})
    return make_settings(operators=Operators(kueue=kueue))


def released(*runs: object, **versions: str) -> Settings:
    """Return an environment with these releases of operators and these runs."""
    installs = {
        name.replace("_", ""): Install(manifest=make_manifest(version=version)) for name, version in versions.items()
    }
    kueue = make_kueue(frameworks=("batch/job", "trainer.kubeflow.org/trainjob", "jobset.x-k8s.io/jobset")).model_copy(
        update={"manifest": make_manifest(version=versions["kueue"])}
    )
    settings = make_settings(*runs)  # type: ignore[arg-type]
    return settings.model_copy(update={"operators": Operators.model_validate({**installs, "kueue": kueue})})


def silenced(rule: str, path: str, *runs: object) -> Settings:
    """Return an environment that silences a rule at a path."""
    entry = Silence(rule=rule, path=path, reason="we know")
    settings = make_settings(*runs)  # type: ignore[arg-type]
    return settings.model_copy(update={"checks": Checks(silenced=(entry,))})


TRAINJOB = make_distributed(kind="TrainJob", workers=1)
MANY_ARGUMENTS, LONG_ARGUMENT = (
    make_distributed(kind="TrainJob", workers=1, managed=False, record=None, args=args)
    for args in (("x",) * 129, ("x" * 65_537,))
)
JOBSET = make_run(
    kind="JobSet",
    managed=False,
    record=None,
    command=(),
    resources=make_run().resources,
    replicated_jobs=(
        ReplicatedJob(name="a"),
        ReplicatedJob(name="b", depends_on=(DependsOn(name="a", status="Complete"),)),
    ),
)
LONG = "p" * 64

MORE: dict[str, list[Case]] = {
    **POOL_CASES,
    **SLIP_CASES,
    "limit-without-cohort": [
        Case(
            make_settings(queues=make_queues(cohorts=(with_quota(make_quota("cpu", "1", borrowing_limit="1")),))),
            "queues.cohorts[local].resourceGroups[0].flavors[cpu].resources[cpu].borrowingLimit",
            "cohort local has a borrowingLimit, but no parent",
            "name a cohort or a parent, or remove the limit",
        )
    ],
    "multikueue-checks": [
        Case(
            dispatching(check_of("east"), check_of("west"), queue={}),
            "queues.clusterQueues[research].admissionChecks",
            "cluster queue research has 2 checks of MultiKueue: east, west",
            "keep one check, without `onFlavors`; its MultiKueueConfig lists up to ten clusters",
        ),
        Case(
            dispatching(check_of("west"), queue={"on_flavors": ("cpu",)}),
            "queues.clusterQueues[research].admissionChecks[west].onFlavors",
            "check west of MultiKueue is limited to flavors cpu",
            "keep one check, without `onFlavors`; its MultiKueueConfig lists up to ten clusters",
        ),
        Case(
            provisioning("v0.16.2"),
            "queues.clusterQueues[research].admissionChecks",
            "cluster queue research has checks of MultiKueue and ProvisioningRequest: west, nodes",
            "keep one check, without `onFlavors`; its MultiKueueConfig lists up to ten clusters",
        ),
        Case(
            provisioning(""),
            "queues.clusterQueues[research].admissionChecks",
            "cluster queue research has checks of MultiKueue and ProvisioningRequest: west, nodes; since v0.16 Kueue "
            "keeps it inactive",
            "keep one check, without `onFlavors`; its MultiKueueConfig lists up to ten clusters",
            severity="warning",
        ),
    ],
    "multikueue-parameters": [
        Case(
            make_settings(queues=make_queues(admission_checks=(check_of("west", None),))),
            "queues.admissionChecks[west]",
            "check west of MultiKueue has no parameters",
            "set `parameters: {kind: MultiKueueConfig, name: …}`",
        ),
        Case(
            make_settings(
                queues=make_queues(admission_checks=(check_of("west", CheckParameters(kind="X", name="x")),))
            ),
            "queues.admissionChecks[west].parameters.kind",
            "the parameters of check west are a X of kueue.x-k8s.io",
            "set `parameters: {kind: MultiKueueConfig, name: …}`",
        ),
    ],
    "multikueue-run": [
        Case(
            dispatching(check_of("west"), queue={}, kind="DataLoader", managed=False, record=None),
            "workloads.runs[train].queue",
            "train is a DataLoader, which is not dispatched",
            "use a queue without a check of MultiKueue, or another `kind`",
        ),
        Case(
            dispatching(check_of("west"), queue={}, kind="Pod").model_copy(update={"operators": Operators()}),
            "workloads.runs[train].queue",
            "train is a Pod, which is not dispatched",
            "set kind to Job, or use another queue",
        ),
        Case(
            dispatching(check_of("west"), queue={}).model_copy(
                update={
                    "operators": Operators(),
                    "workloads": Workloads(runs=(make_distributed(kind="TrainJob", workers=1),)),
                }
            ),
            "workloads.runs[train].queue",
            "train is a TrainJob, which is not dispatched",
            "set kind to PyTorchJob or JobSet, which need no TrainingRuntime, or use another queue",
        ),
        Case(
            dispatching(check_of("west"), queue={}).model_copy(
                update={
                    "operators": Operators(),
                    "sweeps": make_sweeps(run=make_run(name="search", kind="Pod")),
                    "workloads": Workloads(),
                }
            ),
            "sweeps.sweeps[search].run.queue",
            "search is a Pod, which is not dispatched",
            "set kind to Job, or use another queue",
        ),
        Case(
            dispatching(check_of("west"), queue={}).model_copy(
                update={
                    "sweeps": make_sweeps(
                        form="indexed",
                        parallelism=2,
                        expansion=make_expansion(*MANY_SETS),
                    ),
                    "workloads": Workloads(),
                }
            ),
            "sweeps.sweeps[search]",
            "its 150 sets need 618971 bytes, but the annotations of a dispatched pod hold 245760 (about 59 sets)",
            "move the others to a second sweep",
        ),
        Case(
            dispatching(check_of("west"), queue={}).model_copy(
                update={
                    "sweeps": make_sweeps(run=make_run(name="search", managed=False, record=None)),
                    "workloads": Workloads(),
                }
            ),
            "sweeps.sweeps[search].run.managed",
            "the results of sweep search are in the logs of its pods, which MultiKueue deletes when a trial ends",
            "leave out `managed`, or have the program save its results elsewhere",
            severity="warning",
        ),
        Case(
            dispatching(check_of("west"), queue={}).model_copy(
                update={"operators": Operators(), "workloads": Workloads(runs=(make_mpijob(1),))}
            ),
            "workloads.runs[train].queue",
            "train is an MPIJob, which is not dispatched",
            "use a queue without a check of MultiKueue, or another `kind`",
        ),
        Case(
            dispatching(check_of("west"), queue={}).model_copy(
                update={"cluster": Cluster(loader=Loader(queue="research"))}
            ),
            "cluster.loader.queue",
            "loaders of namespace research would start in a worker cluster, with its volume",
            "use a queue without a check of MultiKueue",
        ),
    ],
    "receives-incomplete": [
        Case(
            make_settings(workloads=Workloads(receives=("elsewhere",))),
            "workloads.receives[0]",
            "namespace elsewhere receives runs, but has no local queue and no volume",
            "declare the local queue and volumes there, or remove the namespace from `receives`",
            severity="warning",
        )
    ],
    "check-parameters-unknown": [
        Case(
            make_settings(queues=make_queues(multi_kueue_configs=(MultiKueueConfig(name="w", clusters=("west",)),))),
            "queues.multiKueueConfigs[w].clusters",
            "cluster 'west' is not declared",
            "declare it under queues.multiKueueClusters",
        )
    ],
    "queue-unknown": [
        Case(
            make_settings(cluster=Cluster(loader=Loader(queue="reserch"))),
            "cluster.loader.queue",
            "local queue 'reserch' is not declared in namespace research",
            "did you mean research? (or declare it under queues.localQueues)",
        )
    ],
    "namespace-unknown": [
        Case(
            make_settings(secrets=Secrets(secrets=(make_secret(namespace="reserch"),))),
            "secrets.secrets[git].namespace",
            "namespace 'reserch' is not declared",
            "did you mean research? (or declare it under environment.namespaces)",
        ),
        Case(
            make_settings(
                queues=make_queues(cluster_queues=(make_cluster_queue(namespaces=("research", "speach")),)),
                environment=Environment(namespaces=(Namespace(name="research"), Namespace(name="speech"))),
            ),
            f"{POOL}.namespaces",
            "cluster queue research is open to namespace 'speach', which is not declared",
            "did you mean speech? (or declare it under environment.namespaces)",
            "warning",
        ),
    ],
    "never-fits": [
        Case(
            make_settings(make_run(annotations={"kueue.x-k8s.io/podset-required-topology": "rack"})),
            "workloads.runs[train]",
            "the pod requests a topology, but flavor cpu has none",
            "use a queue whose flavors have a topology if and only if the pods request one",
        ),
        Case(
            make_settings(
                make_run(topology_request=TopologyRequest(required="rak")),
                queues=make_queues(
                    topologies=(Topology(name="racks", levels=("rack", "host")),),
                    flavors=(ResourceFlavor(name="cpu", node_labels={"pool": "cpu"}, topology="racks"),),
                ),
            ),
            "workloads.runs[train]",
            "the pod requests level rak, which topology racks of flavor cpu does not have (its levels: rack, host)",
            "request a level of the topology, or use a queue whose flavors have the level",
        ),
    ],
    "loader-shut-out": [
        Case(
            make_settings(
                make_run(
                    data=Data(
                        manifest="workloads/digits/data.json",
                        volume="training",
                        path="data",
                        prepare="trainstack.cli",
                    ),
                    resources=Resources(requests={"cpu": "2", "memory": "1Gi"}),
                ),
                cluster=Cluster(loader=Loader(resources=Resources(requests={"cpu": "1"}))),
            ),
            "workloads.runs[train]",
            "the loader of its data may wait in queue research behind the run itself, which waits for that data",
            "let `cluster.loader.resources` request 0, give the loader its own queue (`cluster.loader.queue`), limit "
            "`parallelism`, or depend on a `DataLoader`",
        )
    ],
    "mount-duplicate": [
        Case(
            make_settings(
                make_run(volumes=(make_mount(), make_mount(volume="other", mount_path=path)), **changes),
                storage=make_storage(volumes=(make_volume(), make_volume(name="other"))),
            ),
            "workloads.runs[train].volumes",
            f"{path} is the mount path of 2 volumes",
            "give each volume, and the code, its own path; Trainstack reserves some paths",
        )
        for path, changes in ((WRAPPER_FOLDER, {}), (SHARED_MEMORY_FOLDER, {"shared_memory": "1Gi"}))
    ],
    "pins-missing": [
        Case(
            make_settings(cluster=Cluster(registry="registry.example.org")),
            "environment.pinned",
            "images of registry.example.org are identified by tags, which may be moved to other images",
            "set it to true and run `trainstack pin -s test`",
            "warning",
        )
    ],
    "pods-refused": [
        Case(
            make_settings(make_run(security="baseline")),
            "workloads.runs[train].security",
            "namespace research enforces Pod Security restricted and refuses baseline pods",
            "remove security, or set the namespace's label pod-security.kubernetes.io/enforce: baseline",
        ),
        Case(
            make_settings(make_distributed(roles={"Master": Role(), "Worker": Role(security="baseline")})),
            "workloads.runs[train].roles.Worker.security",
            "namespace research enforces Pod Security restricted and refuses baseline pods",
            "remove security, or set the namespace's label pod-security.kubernetes.io/enforce: baseline",
        ),
    ],
    "egress-missing": [
        Case(
            make_settings(make_run(code=Code(git="https://git.example.org/mnist", revision="1" * 40, mount_path="/c"))),
            "workloads.runs[train].code",
            "its pods fetch code from https://git.example.org/mnist, but namespace research allows no egress",
            "list the server's addresses under environment.namespaces[research].network.egress",
            "warning",
        ),
        Case(
            make_settings(make_run(command=("sh", "-c", "pip install transformers && python3 train.py"))),
            "workloads.runs[train].command",
            "pip install downloads, but namespace research allows no egress",
            "put it into the image or on a volume, or list the addresses under "
            "environment.namespaces[research].network.egress",
            "warning",
        ),
        Case(
            make_settings(
                make_manifest_run(
                    make_manifest_job(
                        {
                            "initContainers": [
                                {
                                    **SECURE,
                                    "name": "fetch",
                                    "image": "git:1",
                                    "command": ["git", "clone", "https://git.example.org/a"],
                                }
                            ]
                        }
                    )
                )
            ),
            "workloads.runs[train].manifest.spec.template.spec.initContainers[fetch]",
            "git clone downloads, but namespace research allows no egress",
            "put it into the image or on a volume, or list the addresses under "
            "environment.namespaces[research].network.egress",
            "warning",
        ),
    ],
    "ingress-missing": [
        Case(
            make_settings(make_rayjob(queue=None, priority=None)),
            "workloads.runs[train].kind",
            "KubeRay connects to its pods, but namespace research is isolated",
            "add a NetworkPolicy that allows it, and silence this rule, or set "
            "environment.namespaces[research].network.isolated to false",
            "warning",
        )
    ],
    "scheme-clash": [
        Case(
            make_settings(
                make_mpijob(queue=None, priority=None),
                operators=Operators(training_operator=make_training_operator(schemes=("pytorchjob", "mpijob"))),
            ),
            "workloads.runs[train].kind",
            "the training operator is installed with mpijob, whose definition is not that of MPIJob",
            "remove mpijob from operators.trainingOperator.schemes",
        )
    ],
    "scheme-missing": [
        Case(
            make_settings(make_object(), operators=Operators(training_operator=make_training_operator())),
            "workloads.runs[train].kind",
            "the training operator is installed without jaxjob: the cluster does not serve JAXJob",
            "add jaxjob to operators.trainingOperator.schemes",
        )
    ],
    "framework-unlisted": [
        Case(
            make_settings(make_object(), operators=Operators(kueue=make_kueue())),
            "workloads.runs[train].kind",
            "Kueue does not manage kind JAXJob: the run would start at once, outside every quota",
            "add kubeflow.org/jaxjob to operators.kueue.configuration.frameworks",
        )
    ],
    "feature-gate-unknown": [
        Case(
            gates({"AllBeta": True, "LendingLimits": False}),
            "operators.kueue.configuration.featureGates.LendingLimits",
            "unknown feature gate 'LendingLimits'; the Kueue controller would fail to start",
            "did you mean LendingLimit?",
        ),
        Case(
            gates({"LendingLimit": False, "ConfigurableResourceTransformations": False}),
            "operators.kueue.configuration.featureGates.ConfigurableResourceTransformations",
            "feature gate ConfigurableResourceTransformations cannot be changed; the Kueue controller would fail to "
            "start",
            "leave it out",
        ),
        *(
            Case(
                gates({name: False}, version),
                f"operators.kueue.configuration.featureGates.{name}",
                f"{problem} in the modeled {minor}; whether so in Kueue {version} is unknown",
                f"read the feature gates of {version}",
                "unknown",
            )
            for version, minor, name, problem in (
                (
                    "v0.18.6",
                    "v0.18",
                    "PrioritizePreemptorWorkloads",
                    "unknown feature gate 'PrioritizePreemptorWorkloads'",
                ),
                ("v0.18.99", "v0.18", "InNoRelease", "unknown feature gate 'InNoRelease'"),
                ("v0.20.7", "v0.19", "InNoRelease", "unknown feature gate 'InNoRelease'"),
                ("v0.20.7", "v0.19", "HierarchicalCohorts", "feature gate HierarchicalCohorts cannot be changed"),
            )
        ),
        Case(
            gates({"InNoRelease": False}, "v0.18.6"),
            "operators.kueue.configuration.featureGates.InNoRelease",
            "unknown feature gate 'InNoRelease'; the Kueue controller would fail to start",
            suggest_name("InNoRelease", release_of("v0.18.6").gates),
        ),
    ],
    "kueue-unmodelled": [
        Case(
            released(make_run(), kueue=version),
            "operators.kueue.manifest.version",
            f"Kueue {version} admits the runs, and the verdicts are by {rules} is not compared",
            "submit the run, and read `trainstack status`",
            "unknown",
        )
        for version, rules in (
            ("v0.17.99", "the rules of v0.17; v0.17 after v0.17.8"),
            ("v0.20.7", "the rules of v0.19; v0.20"),
        )
    ],
    "framework-unknown": [
        Case(
            frameworks("batch/job", "batch/jobs"),
            "operators.kueue.configuration.frameworks[1]",
            "unknown Kueue framework 'batch/jobs'; the Kueue controller would fail to start",
            "did you mean batch/job?",
        ),
        Case(
            frameworks("pod", "batch/job", "pod"),
            "operators.kueue.configuration.frameworks[2]",
            "framework pod is listed twice; the Kueue controller would fail to start",
            "list it once",
        ),
    ],
    "trainjob-limit": [
        Case(
            released(MANY_ARGUMENTS, kueue="v0.17.3", trainer="v2.2.0", jobset="v0.11.1"),
            "workloads.runs[train]",
            "Trainer v2.2.0 refuses its args of 129 entries; the limit is 128",
            "move arguments or variables into a file in the image or on a volume, or use `kind: PyTorchJob`",
        ),
        Case(
            released(LONG_ARGUMENT, kueue="v0.17.3", trainer="v2.2.1", jobset="v0.11.1"),
            "workloads.runs[train]",
            "Trainer v2.2.1 refuses its argument of 65,537 characters; the limit is 65,536",
            "move arguments or variables into a file in the image or on a volume, or use `kind: PyTorchJob`",
        ),
        Case(
            released(
                TRAINJOB.model_copy(update={"env": {f"V{number}": "1" for number in range(120)}}),
                kueue="v0.17.3",
                trainer="v2.4.0",
                jobset="v0.12.0",
            ),
            "workloads.runs[train]",
            "Trainer v2.4.0 refuses its env of 129 entries; the limit is 128",
            "move arguments or variables into a file in the image or on a volume, or use `kind: PyTorchJob`",
        ),
    ],
    "version-clash": [
        Case(
            released(kueue="v0.14.4"),
            "operators.kueue.manifest.version",
            "Kueue v0.14.4 does not serve kueue.x-k8s.io/v1beta2",
            "use Kueue v0.15.0 or later",
        ),
        Case(
            released(TRAINJOB, kueue="v0.15.2", trainer="v2.2.0", jobset="v0.10.1"),
            "operators.trainer.manifest.version",
            "Kueue v0.15.2 places TrainJobs with podTemplateOverrides, but Trainer v2.2.0 reads runtimePatches: a "
            "queued TrainJob would never start",
            "use Trainer v2.1 with Kueue v0.15 or v0.16, or Trainer v2.2 or later with Kueue v0.17 or later",
        ),
        Case(
            released(TRAINJOB, kueue="v0.17.3", trainer="v2.1.0", jobset="v0.10.1"),
            "operators.trainer.manifest.version",
            "Kueue v0.17.3 places TrainJobs with runtimePatches, but Trainer v2.1.0 reads podTemplateOverrides: a "
            "queued TrainJob would never start",
            "use Trainer v2.1 with Kueue v0.15 or v0.16, or Trainer v2.2 or later with Kueue v0.17 or later",
        ),
        Case(
            released(TRAINJOB, kueue="v0.15.0", trainer="v2.1.0", jobset="v0.10.1"),
            "operators.kueue.manifest.version",
            "Kueue v0.15.0 miscounts the nodes of a TrainJob: its quota is not enforced",
            "use Kueue v0.15.1 or later",
            "warning",
        ),
        Case(
            released(kueue="v0.15.2", trainer="v2.2.0", jobset="v0.10.1").model_copy(
                update={"sweeps": make_sweeps(run=TRAINJOB.model_copy(update={"name": "search"}))}
            ),
            "operators.trainer.manifest.version",
            "Kueue v0.15.2 places TrainJobs with podTemplateOverrides, but Trainer v2.2.0 reads runtimePatches: a "
            "queued TrainJob would never start",
            "use Trainer v2.1 with Kueue v0.15 or v0.16, or Trainer v2.2 or later with Kueue v0.17 or later",
        ),
        Case(
            released(JOBSET, kueue="v0.15.2", jobset="v0.7.2"),
            "operators.jobset.manifest.version",
            "JobSet v0.7.2 does not support dependsOn: all Jobs of a JobSet would start at once",
            "use JobSet v0.8.0 or later",
        ),
    ],
    "volume-access-mode": [
        Case(
            make_settings(
                storage=make_storage(classes=(StorageClass(name="shared", provisioner="rook-ceph.rbd.csi.ceph.com"),))
            ),
            "storage.volumes[training].accessModes",
            "class shared (rook-ceph.rbd.csi.ceph.com) does not support ReadWriteMany file systems",
            "use a class of shared storage (NFS, CephFS, …), or `ReadWriteOnce`",
        )
    ],
    "volume-read-only": [
        Case(
            make_settings(make_run(), storage=make_storage(volumes=(make_volume(access_modes=("ReadOnlyMany",)),))),
            "workloads.runs[train].volumes[0].readOnly",
            "volume training is read-only (ReadOnlyMany), but it is mounted for writing",
            "set `readOnly: true` on the mount, or give the volume `ReadWriteMany`",
        ),
        Case(
            make_settings(
                make_run(volumes=(make_mount(), make_mount(volume="data", mount_path="/data"))),
                storage=make_storage(
                    volumes=(make_volume(), make_volume(name="data", access_modes=("ReadOnlyMany",))),
                ),
            ),
            "workloads.runs[train].volumes[1].readOnly",
            "volume data is read-only (ReadOnlyMany), but it is mounted for writing",
            "set `readOnly: true` on the mount, or give the volume `ReadWriteMany`",
            "warning",
        ),
    ],
    "volume-unbindable": [
        Case(
            static(**change),
            "storage.volumes[training]",
            f"no volume of class manual matches: disk {why}",
            "correct the claim, or declare a matching volume under `storage.persistentVolumes`",
        )
        for change, why in (
            ({"access_modes": ("ReadWriteOnce",)}, "is not ReadWriteMany"),
            ({"size": "1Gi"}, "has 1Gi of 2Gi"),
            ({"labels": {"type": "tape"}}, "lacks the labels that the claim selects"),
        )
    ],
    "label-invalid": [
        Case(
            make_settings(
                make_run(priority=LONG), queues=make_queues(priority_classes=(PriorityClass(name=LONG, value=1),))
            ),
            "workloads.runs[train].priority",
            f"{LONG} has 64 characters, but the label kueue.x-k8s.io/priority-class has at most 63",
            "use a class with a shorter name",
        ),
    ],
    "silence-unknown": [
        Case(
            silenced("never-fit", "workloads.runs[train]"),
            "checks.silenced[0].rule",
            "unknown rule 'never-fit'",
            "did you mean never-fits?",
        ),
        Case(
            silenced("x", "y"),
            "checks.silenced[0].rule",
            "unknown rule 'x'",
            "use an id that `trainstack explain` lists",
        ),
    ],
    "silence-refused": [
        Case(
            silenced("covered-resources", POOL),
            "checks.silenced[0].rule",
            "rule covered-resources cannot be silenced: the change would be refused anyway",
            "correct what the rule finds, and remove the entry",
        )
    ],
    "silence-unused": [
        Case(
            silenced("data-unmounted", "workloads.runs[train]", make_run()),
            "checks.silenced[0]",
            "there is no finding of data-unmounted at workloads.runs[train]",
            "remove the entry",
            "warning",
        )
    ],
}


def every_case() -> list[tuple[str, Case]]:
    """Return all cases of the preflight rules, with the id of the rule that finds the fault."""
    more = (*MORE.items(), *POD_CASES.items(), *BOOKING_CASES.items(), *OBJECT_CASES.items())
    return [*CASES.items(), *((rule, case) for rule, cases in more for case in cases)]
