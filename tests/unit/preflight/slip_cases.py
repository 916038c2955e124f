"""Environments with one fault: in amounts of resources, reserved variables, and mistakes that Kubernetes accepts."""

from tests.unit.make import (
    make_cluster_queue,
    make_distributed,
    make_group,
    make_manifest_job,
    make_manifest_run,
    make_mount,
    make_queues,
    make_run,
    make_secret,
    make_settings,
    make_space,
    make_storage,
    make_sweeps,
    make_training_operator,
    make_volume,
)
from tests.unit.preflight.cases import Case
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import ControllerResources, Operators
from trainstack.settings.sections.queues import LocalQueue
from trainstack.settings.sections.secrets import Encrypted, Secrets
from trainstack.settings.sections.storage import PersistentVolume, StorageClass
from trainstack.settings.sections.workloads import Data, Resources, Role, Workload, Workloads

UNQUEUED = make_queues(local_queues=(LocalQueue(name="other", namespace="default", cluster_queue="research"),))
"""The queues of an environment in which the runs' namespace has no local queue."""
GPU = "nvidia.com/gpu"
POOL = "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].resources"


def unqueued(**changes: object) -> Settings:
    """Return an environment with a run without a queue."""
    return make_settings(make_run(queue=None, priority=None, **changes), queues=UNQUEUED)


def requesting(requests: dict[str, str], limits: dict[str, str]) -> Settings:
    """Return an environment with a run with these resources and without a queue."""
    return unqueued(resources=Resources(requests=requests, limits=limits))


def with_quota(**amounts: str) -> Settings:
    """Return an environment whose cluster queue has 2 cpu, and these amounts of other resources."""
    quotas = {"cpu": "2", "memory": "8Gi", **{name.replace("gpu", GPU): amount for name, amount in amounts.items()}}
    queue = make_cluster_queue(resource_groups=(make_group(("cpu", quotas)),))
    return make_settings(queues=make_queues(cluster_queues=(queue,)))


def stopping(entry: str) -> Settings:
    """Return an environment with a run `train` and this entry of `workloads.stop`."""
    return make_settings().model_copy(update={"workloads": Workloads(runs=(make_run(),), stop=(entry,))})


def discarding(entry: str) -> Settings:
    """Return an environment with the claim `research/training` and this entry of `storage.discard`."""
    return make_settings(storage=make_storage(discard=(entry,)))


def data_of(prepare: str) -> Workload:
    """Return a run whose data this module prepares."""
    return make_run(data=Data(manifest="LICENSE", volume="training", path="data", prepare=prepare))


def secret_of(text: str) -> Settings:
    """Return an environment with a Secret with one value, whose ciphertext is this text."""
    secret = make_secret(type="Opaque", values={"token": Encrypted(secure=text)})
    return make_settings(secrets=Secrets(secrets=(secret,)))


STATIC = PersistentVolume(
    name="disk", storage_class="manual", size="2", access_modes=("ReadWriteMany",), host_path="/data"
)
RESOURCES = "workloads.runs[train].resources"
_UNIT = ("add a unit, such as 512Mi or 10Gi", "warning")
_LITTLE = "is less than 1Mi (without a unit, an amount is in bytes; m is thousandths)"
_RESET = "set it with `pulumi config set --secret --path`; if the file holds the secret, rotate it"

_IN_PLAIN = "in plain text, which manifests, the engine's state and records would show"


def _secret_env(variable: str) -> str:
    """Return the remedy for a credential of a run."""
    return (
        "revoke it, and set a new one with `pulumi config set --secret --path "
        f"'trainstack:secrets.secrets[0].values.{variable}'`; refer to it with `secretEnv: {{{variable}: {{secret: "
        f"<its name>, key: {variable}}}}}`, in arguments as `$({variable})`"
    )


SLIP_CASES: dict[str, list[Case]] = {
    "credential-plain": [
        Case(
            make_settings(make_run(env={"WANDB_API_KEY": "0123456789abcdef"})),
            "workloads.runs[train].env.WANDB_API_KEY",
            f"contains the value of WANDB_API_KEY {_IN_PLAIN}",
            _secret_env("WANDB_API_KEY"),
        ),
        Case(
            make_settings(make_run(args=("--wandb-key=abcd1234",))),
            "workloads.runs[train].args[0]",
            f"contains the value of --wandb-key, probably a credential, {_IN_PLAIN}",
            _secret_env("WANDB_KEY"),
            "warning",
        ),
        Case(
            make_settings(make_run(args=("hf_abcdefghijklmnop",))),
            "workloads.runs[train].args[0]",
            f"contains a Hugging Face token {_IN_PLAIN}",
            _secret_env("TOKEN"),
        ),
        Case(
            make_settings(sweeps=make_sweeps(space=make_space(env={"HF_TOKEN": "abcdefghijkl"}))),
            "sweeps.sweeps[search].space.env.HF_TOKEN",
            f"contains the value of HF_TOKEN {_IN_PLAIN}",
            _secret_env("HF_TOKEN"),
        ),
        Case(
            make_settings(
                storage=make_storage(
                    classes=(StorageClass(name="shared", provisioner="x", parameters={"userPassword": "hunter2"}),)
                )
            ),
            "storage.classes[shared].parameters.userPassword",
            f"contains the value of userPassword, probably a credential, {_IN_PLAIN}",
            "remove it, and revoke it",
            "warning",
        ),
    ],
    "env-reserved": [
        Case(
            unqueued(env={"TRAINSTACK_RUN": "x"}),
            "workloads.runs[train].env",
            "workload train: env sets TRAINSTACK_RUN, which is reserved for a managed workload",
            "remove or rename it",
        ),
        Case(
            make_settings(sweeps=make_sweeps(run=make_run(name="search", env={"JOB_ID": "x"}))),
            "sweeps.sweeps[search].run.env",
            "sweep search: env sets JOB_ID, which is reserved for its trials",
            "remove the variable, or rename it",
        ),
    ],
    "resources-refused": [
        Case(
            make_settings(make_run(resources=Resources(requests={"cpu": "2"}, limits={"cpu": "1"}))),
            f"{RESOURCES}.requests.cpu",
            "2 of cpu is more than the limit of 1",
            "lower the request, or raise the limit",
        ),
        Case(
            requesting({"cpu": "1", GPU: "1"}, {}),
            f'{RESOURCES}.requests["{GPU}"]',
            f"{GPU} is requested without a limit, which must be equal to the request",
            f"add {GPU} to the limits",
        ),
        Case(
            requesting({"cpu": "1", "hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "4Mi"}),
            f"{RESOURCES}.requests.hugepages-2Mi",
            "2Mi of hugepages-2Mi is not equal to the limit of 4Mi",
            "use the same amount in both",
        ),
        Case(
            requesting({"cpu": "1"}, {GPU: "500m"}),
            f'{RESOURCES}.limits["{GPU}"]',
            f"500m of {GPU} is not a whole number of devices",
            "write a whole number",
        ),
        Case(
            requesting({"cpu": "1"}, {"hugepages-2Mi": "3Mi"}),
            f"{RESOURCES}.limits.hugepages-2Mi",
            "3Mi of hugepages-2Mi is not a multiple of 2Mi",
            "write a multiple of 2Mi",
        ),
        Case(
            requesting({}, {"hugepages-2Mi": "2Mi"}),
            RESOURCES,
            "huge pages require a request of cpu or memory",
            "add requests of cpu and memory",
        ),
    ],
    "amount-odd": [
        Case(requesting({"memory": "512"}, {}), f"{RESOURCES}.requests.memory", f"512 of memory {_LITTLE}", *_UNIT),
        Case(unqueued(shared_memory="64m"), "workloads.runs[train].sharedMemory", f"64m of memory {_LITTLE}", *_UNIT),
        Case(
            make_settings(storage=make_storage(volumes=(make_volume(size="2"),))),
            "storage.volumes[training].size",
            f"2 of storage {_LITTLE}",
            *_UNIT,
        ),
        Case(
            make_settings(storage=make_storage(persistent_volumes=(STATIC,))),
            "storage.persistentVolumes[disk].size",
            f"2 of storage {_LITTLE}",
            *_UNIT,
        ),
        Case(
            make_settings(
                operators=Operators(training_operator=make_training_operator(requests=ControllerResources(memory="64")))
            ),
            "operators.trainingOperator.requests.memory",
            f"64 of memory {_LITTLE}",
            *_UNIT,
        ),
        Case(with_quota(memory="8"), f"{POOL}[memory].nominalQuota", f"8 of memory {_LITTLE}", *_UNIT),
        Case(
            with_quota(gpu="1500m"),
            f"{POOL}[{GPU}].nominalQuota",
            f"1500m of {GPU} is not a whole number of devices",
            "write a whole number",
            "warning",
        ),
        Case(
            requesting({}, {"cpu": "2000"}),
            f"{RESOURCES}.limits.cpu",
            "2k of cpu is more cores than a node has",
            "use m for thousandths of a core, such as 500m",
            "warning",
        ),
    ],
    "priority-unused": [
        Case(
            make_settings(make_run(queue=None), queues=make_queues(local_queues=())),
            "workloads.runs[train].priority",
            "the run has no queue, so its priority normal has no effect",
            "add `queue:`, or leave out `priority`",
            "warning",
        )
    ],
    "queue-left-out": [
        Case(
            make_settings(make_run(queue=None), operators=operators),
            "workloads.runs[train]",
            "the run has no queue: it would start at once, outside every quota, and its priority normal has no effect",
            "add `queue: research`",
            "warning",
        )
        for operators in (make_settings().operators, Operators())
    ]
    + [
        Case(
            make_settings(
                make_run(queue=None),
                queues=make_queues(
                    local_queues=(LocalQueue(name="default", namespace="research", cluster_queue="research"),)
                ),
            ),
            "workloads.runs[train]",
            "the run has no queue: Kueue puts it into queue default of its namespace",
            "add `queue: default`",
            "warning",
        )
    ],
    "queue-in-labels": [
        Case(
            make_settings(make_run(labels={label: value})),
            f'workloads.runs[train].labels["{label}"]',
            f"the label {label} is set by `{key}`",
            f"remove the label, and set `{key}: {value}`",
        )
        for label, key, value in (
            ("kueue.x-k8s.io/queue-name", "queue", "research"),
            ("kueue.x-k8s.io/priority-class", "priority", "normal"),
        )
    ]
    + [
        Case(
            make_settings(
                make_distributed(
                    roles={"Master": Role(), "Worker": Role(labels={"kueue.x-k8s.io/queue-name": "research"})}
                )
            ),
            'workloads.runs[train].roles.Worker.labels["kueue.x-k8s.io/queue-name"]',
            "the label kueue.x-k8s.io/queue-name is set by `queue`",
            "remove the label, and set `queue: research`",
        )
    ],
    "namespace-privileged": [
        Case(
            make_settings(
                environment=Environment(
                    namespaces=(
                        Namespace(name="research", labels={"pod-security.kubernetes.io/enforce": "privileged"}),
                    )
                )
            ),
            'environment.namespaces[research].labels["pod-security.kubernetes.io/enforce"]',
            "Pod Security level privileged allows pods to act as root on their nodes",
            "use `baseline` or `restricted`",
            "warning",
        )
    ],
    "prepare-missing": [
        Case(
            make_settings(data_of("workloads.digits.prepair")),
            "workloads.runs[train].data.prepare",
            "module workloads.digits.prepair does not exist",
            "write workloads/digits/prepair.py, or remove prepare and upload the data",
            "warning",
        ),
        Case(
            make_settings(data_of("workloads/digits/prepare")),
            "workloads.runs[train].data.prepare",
            "workloads/digits/prepare is not the name of a module",
            "use a name like workloads.digits.prepare",
            "warning",
        ),
    ],
    "path-upward": [
        Case(
            unqueued(working_dir="/opt/../digits"),
            "workloads.runs[train].workingDir",
            "/opt/../digits contains '..'",
            "write the path without `..`",
            "warning",
        )
    ],
    "mount-hides-system": [
        Case(
            unqueued(volumes=(make_mount(mount_path="/etc/"),)),
            "workloads.runs[train].volumes[0].mountPath",
            "/etc/ is a system folder of the image, and the volume would hide its files",
            "mount the volume below `/mnt` or `/data`",
            "warning",
        )
    ],
    "secret-undecryptable": [
        Case(
            secret_of(text),
            "secrets.secrets[git].values.token",
            "the value is not a ciphertext of the engine and cannot be decrypted",
            _RESET,
            "warning",
        )
        for text in ("hunter2", "v1:YWJj")
    ],
    "stop-unknown": [
        Case(
            stopping("train"),
            "workloads.stop[0]",
            "train is not a run id",
            "use the id that `trainstack status` shows: the name and 10 hexadecimal digits",
            "warning",
        ),
        Case(
            stopping("trian-0123456789"),
            "workloads.stop[0]",
            "no run has the name trian",
            "did you mean train-0123456789?",
            "warning",
        ),
    ],
    "discard-unknown": [
        Case(
            discarding("reserch/old"),
            "storage.discard[0]",
            "unknown namespace reserch",
            "correct the entry or remove it",
            "warning",
        ),
        Case(
            discarding("research/trainin"),
            "storage.discard[0]",
            "unknown claim research/trainin",
            "did you mean research/training?",
            "warning",
        ),
    ],
    "program-refused": [
        Case(
            make_settings(make_run(args=("--output=$TRAINSTACK_OUTPTU",))),
            "workloads.runs[train].args",
            "unknown variables in the command: $TRAINSTACK_OUTPTU; valid are $TRAINSTACK_OUTPUT, "
            "$TRAINSTACK_CHECKPOINT, $TRAINSTACK_RESUME, $TRAINSTACK_RUN_ID, and $TRAINSTACK_SEED if the workload has "
            "a seed",
            "correct the name. `$TRAINSTACK_SEED` requires `seed`",
        ),
        Case(
            make_settings(make_run(env={"TRAINSTACK_DATA_TIMEOUT": "soon"})),
            "workloads.runs[train].env",
            "TRAINSTACK_DATA_TIMEOUT is 'soon': it must be a number of seconds between 0 and one year",
            "correct or remove the variable",
        ),
    ],
    "variable-unexpanded": [
        Case(
            make_settings(make_manifest_run(make_manifest_job(env=[{"name": "PATH", "value": "$PATH:/opt/mpi/bin"}]))),
            "workloads.runs[train].manifest.spec.template.spec.containers[main].env[PATH]",
            "variable PATH refers to $PATH, which is not expanded there",
            "write the whole value: that of the image is not known there",
            "warning",
        ),
        Case(
            make_settings(make_manifest_run(make_manifest_job(env=[{"name": "OUT", "value": "$TRAINSTACK_OUTPUT"}]))),
            "workloads.runs[train].manifest.spec.template.spec.containers[main].env[OUT]",
            "variable OUT refers to $TRAINSTACK_OUTPUT, which is not set before it",
            "move it to the command or the arguments",
            "warning",
        ),
        Case(
            make_settings(make_distributed(args=("--rank=$RANK",))),
            "workloads.runs[train].args",
            "'--rank=$RANK' refers to $RANK, which no shell expands",
            "write $(RANK), or have a shell start the program",
        ),
        Case(
            make_settings(make_run(args=("--data=${DATA}",), env={"DATA": "/data"})),
            "workloads.runs[train].args",
            "'--data=${DATA}' refers to ${DATA}, which no shell expands",
            "write $(DATA), unless the program expands it",
            "warning",
        ),
        Case(
            make_settings(make_run(env={"DATA": "$TRAINSTACK_OUTPUT"})),
            "workloads.runs[train].env.DATA",
            "variable DATA refers to $TRAINSTACK_OUTPUT, which is not set before it",
            "move it to the command or the arguments",
        ),
    ],
    "argument-too-long": [
        Case(
            make_settings(make_run(command=("sh", "-c", "x" * 131_072))),
            "workloads.runs[train]",
            f"argument '{'x' * 39}…' of 131,072 bytes; the limit is 131,071",
            "move long values into files in the image or on a volume",
        ),
    ],
    "object-too-large": [
        Case(
            make_settings(make_run(args=("x" * 100_000,) * 11)),
            "workloads.runs[train]",
            "the ledger of train of 1,101,911 bytes; the limit is 1,040,384",
            "shorten arguments, variables or annotations, or move long values into files in the image or on a volume",
        ),
    ],
    "parallelism-unused": [
        Case(
            make_settings(make_run(parallelism=4)),
            "workloads.runs[train].parallelism",
            "parallelism is 4, but the run has one pod, because completions is 1 by default",
            "set `completions` to the number of pods, or leave out `parallelism`",
            "warning",
        ),
    ],
}
