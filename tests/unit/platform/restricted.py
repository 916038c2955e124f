"""The rules of the Pod Security level `restricted`, as far as our pods could violate them.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from typing import Any


def violations(pod: dict[str, Any]) -> list[str]:
    """Return the violations of a pod's spec in a namespace that enforces `restricted`; empty if it is admitted."""
    shared = pod.get("securityContext", {})
    problems = [f"pod sets {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        name, own = container["name"], container.get("securityContext", {})
        if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True:
            problems.append(f"{name} may run as root")
        if own.get("runAsUser", shared.get("runAsUser")) == 0:
            problems.append(f"{name} runs as root")
        if own.get("seccompProfile", shared.get("seccompProfile", {})).get("type") not in (
            "RuntimeDefault",
            "Localhost",
        ):
            problems.append(f"{name} has no seccomp profile")
        if own.get("allowPrivilegeEscalation") is not False:
            problems.append(f"{name} may escalate")
        if "ALL" not in own.get("capabilities", {}).get("drop", []) or own["capabilities"].get("add"):
            problems.append(f"{name} has capabilities")
    allowed = {"configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
    problems += [f"volume {v['name']} is of a kind" for v in pod.get("volumes", []) if not allowed & {*v}]
    return problems
