"""What the Pod Security level `restricted` demands of a pod, as far as a pod of ours could fail it.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from typing import Any


def violations(pod: dict[str, Any]) -> list[str]:
    """What a namespace that enforces `restricted` would say against a pod's spec; empty when it lets it in."""
    shared = pod.get("securityContext", {})
    found = [f"pod sets {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        name, own = container["name"], container.get("securityContext", {})
        if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True:
            found.append(f"{name} may run as root")
        if own.get("runAsUser", shared.get("runAsUser")) == 0:
            found.append(f"{name} runs as root")
        if own.get("seccompProfile", shared.get("seccompProfile", {})).get("type") not in (
            "RuntimeDefault",
            "Localhost",
        ):
            found.append(f"{name} has no seccomp profile")
        if own.get("allowPrivilegeEscalation") is not False:
            found.append(f"{name} may escalate")
        if "ALL" not in own.get("capabilities", {}).get("drop", []) or own["capabilities"].get("add"):
            found.append(f"{name} has capabilities")
    allowed = {"configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
    found += [f"volume {v['name']} is of a kind" for v in pod.get("volumes", []) if not allowed & {*v}]
    return found
