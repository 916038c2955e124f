"""What to write instead of a key of Kubernetes' API that is not a setting, such as one of a pasted manifest."""

from collections.abc import Mapping

from pydantic import BaseModel

from trainstack.settings.sections.workloads import Mount, PodOverrides, Workload
from trainstack.settings.values.pod_fields import FieldForm

_WHOLE_OBJECT = "set the whole object as manifest, or let `trainstack convert FILE` write the run"
_IN_ROLES = "set roles, by role with its replicas, and the fields of the pods in the run"
_SET_BY_KUEUE = "leave it out: Kueue sets it"
_HOSTNAME = "leave it out: replicas find each other by the names that their controller sets"
_POD_PRIORITY = "set priorityClassName, a PriorityClass, which has the policy"
_RUN_REMEDIES: Mapping[str, str] = {
    "apiVersion": _WHOLE_OBJECT,
    "metadata": _WHOLE_OBJECT,
    "spec": _WHOLE_OBJECT,
    "status": "leave it out: the cluster sets it",
    "template": _WHOLE_OBJECT,
    "containers": "set image, command and args of the run, and list further containers under podPatch.spec.containers",
    "elasticPolicy": "set elastic",
    "entrypoint": "set command",
    "ephemeralContainers": "list it under podPatch.spec.initContainers or containers",
    "hostname": _HOSTNAME,
    "hostnameOverride": _HOSTNAME,
    "setHostnameAsFQDN": _HOSTNAME,
    "automountServiceAccountToken": "set serviceAccount, whose token is then mounted",
    "mpiReplicaSpecs": _IN_ROLES,
    "nodeName": "set nodeSelector or affinity, by which Kueue and the scheduler choose nodes",
    "preemptionPolicy": _POD_PRIORITY,
    "pytorchReplicaSpecs": _IN_ROLES,
    "queueName": "set queue",
    "rayClusterSpec": _IN_ROLES,
    "replicas": "set it for a role, in roles",
    "resourceClaims": "request devices under resources, since quota does not count claims",
    "runPolicy": "set cleanPodPolicy, backoffLimit, activeDeadlineSeconds and ttlSecondsAfterFinished of the run",
    "runtimeRef": "set runtime",
    "schedulingGates": _SET_BY_KUEUE,
    "securityContext": (
        "set runAsUser, runAsGroup, fsGroup, security or capabilities, and other fields under "
        "podPatch.spec.securityContext"
    ),
    "serviceAccountName": "set serviceAccount",
    "suspend": _SET_BY_KUEUE,
    "trainer": "set image, command, args, env, resources and roles of the run",
    "volumeMounts": "list claims with their mountPath under volumes, and empty volumes under scratch",
}
"""The remedies for keys in a run that a patch of its pods would not express, or that a setting expresses better."""
_MOUNT_REMEDIES: Mapping[str, str] = {
    "name": "set volume, the name of the claim",
    "persistentVolumeClaim": "set volume, the name of the claim",
    "claimName": "set volume",
    "emptyDir": "list it under scratch",
    "subPathExpr": "mount it under podPatch.spec.containers",
}
"""The remedies for keys of a volume or a volume mount in `volumes` of a run."""


def object_keys() -> list[str]:
    """Return the keys of objects, other than those of pods, for which a run has other settings."""
    pod_fields = {*(FieldForm("PodSpec").fields or ()), *(FieldForm("Container").fields or ())}
    return sorted(_RUN_REMEDIES.keys() - pod_fields)


def kubernetes_remedy(model: type[BaseModel], key: str) -> str | None:
    """Return the remedy for an unknown key in a section if it is a key of Kubernetes' API there; else None."""
    if issubclass(model, PodOverrides) and key in {field.alias for field in Workload.model_fields.values()}:
        return f"set {key} of the run, which all its pods have"
    if issubclass(model, (Workload, PodOverrides)):
        return _RUN_REMEDIES.get(key) or _patch_remedy(key)
    if model is Mount:
        is_source = key in (FieldForm("Volume").fields or ())
        return _MOUNT_REMEDIES.get(key) or ("list the volume under podPatch.spec.volumes" if is_source else None)
    if key in ("apiVersion", "metadata", "spec"):
        return "let `trainstack convert FILE` write the object as keys of this section"
    return None


def _patch_remedy(key: str) -> str | None:
    """Return where a patch of the pods has the key."""
    if key in (FieldForm("PodSpec").fields or ()):
        return f"set it under podPatch.spec.{key}"
    if key in (FieldForm("Container").fields or ()):
        return f"set it in podPatch.spec.containers, as {{name: <container>, {key}: …}}"
    return None
