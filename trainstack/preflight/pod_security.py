"""Violations of a namespace's Pod Security level by a pod template.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/, and the checks of
k8s.io/pod-security-admission/policy for the release of the local cluster. The rules for Linux also apply to
Windows pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Body = Mapping[str, Any]
_BASELINE_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
_SAFE_SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
    *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
    *("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"),
}
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_RESTRICTED_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"),
    "secret",
}
_PROFILE_TYPES = ("RuntimeDefault", "Localhost")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_APPARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_APPARMOR_VALUES = ("", "runtime/default")


@dataclass(frozen=True)
class PodSecurityViolation:
    """A part of a pod template that a level forbids."""

    level: Literal["baseline", "restricted"]
    """Lowest level that forbids the part; `restricted` also forbids what `baseline` forbids."""
    path: str
    """Path in the template, such as `spec.containers[training].securityContext.privileged`."""
    problem: str
    remedy: str = "remove it"


def find_pod_security_violations(template: Body, level: str) -> list[PodSecurityViolation]:
    """Return the parts of a pod template that a namespace with this enforced level forbids; none for other levels."""
    if level not in ("baseline", "restricted"):
        return []
    spec = template["spec"]
    violations = [
        *_metadata_violations(template.get("metadata") or {}),
        *_pod_violations(spec),
        *_security_context_violations("spec", spec),
    ]
    for path, container in _containers(spec):
        violations += [*_security_context_violations(path, container), *_container_violations(path, container)]
    if level == "restricted":
        violations += _restricted_violations(spec)
    return violations


def _containers(spec: Body) -> Iterator[tuple[str, Body]]:
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            yield f"spec.{field}[{container['name']}]", container


def _baseline_violation(path: str, problem: str) -> PodSecurityViolation:
    return PodSecurityViolation("baseline", path, problem)


def _metadata_violations(metadata: Body) -> Iterator[PodSecurityViolation]:
    for key, value in (metadata.get("annotations") or {}).items():
        if key.startswith(_APPARMOR_PREFIX) and value not in _APPARMOR_VALUES and not value.startswith("localhost/"):
            yield _baseline_violation(f"metadata.annotations.{key}", f"sets the AppArmor profile {value}")


def _pod_violations(spec: Body) -> Iterator[PodSecurityViolation]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield _baseline_violation(f"spec.{field}", f"sets {field}")
    for volume in spec.get("volumes") or ():
        if "hostPath" in volume:
            yield _baseline_violation(f"spec.volumes[{volume['name']}]", "mounts a folder of the node (hostPath)")
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or ():
        if sysctl["name"] not in _SAFE_SYSCTLS:
            yield _baseline_violation("spec.securityContext.sysctls", f"sets {sysctl['name']}")


def _security_context_violations(owner_path: str, pod_or_container: Body) -> Iterator[PodSecurityViolation]:
    """Yield what `baseline` forbids in the security context of a pod or a container."""
    context, path = pod_or_container.get("securityContext") or {}, f"{owner_path}.securityContext"
    for field in ("appArmorProfile", "seccompProfile"):
        profile = (context.get(field) or {}).get("type")
        if profile is not None and profile not in _PROFILE_TYPES:
            yield _baseline_violation(f"{path}.{field}", f"has the profile {profile}")
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in _SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield _baseline_violation(f"{path}.seLinuxOptions", "sets a type, user or role of SELinux")
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield _baseline_violation(f"{path}.windowsOptions", "is a host process")


def _container_violations(path: str, container: Body) -> Iterator[PodSecurityViolation]:
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield _baseline_violation(f"{path}.securityContext.privileged", "is privileged")
    if context.get("procMount", "Default") != "Default":
        yield _baseline_violation(f"{path}.securityContext.procMount", f"has the procMount {context['procMount']}")
    forbidden_capabilities = [
        name for name in (context.get("capabilities") or {}).get("add") or () if name not in _BASELINE_CAPABILITIES
    ]
    if forbidden_capabilities:
        yield _baseline_violation(f"{path}.securityContext.capabilities", f"adds {', '.join(forbidden_capabilities)}")
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            yield _baseline_violation(
                f"{path}.ports[{port['containerPort']}]", f"binds port {port['hostPort']} of the node"
            )
    hooks = container.get("lifecycle") or {}
    handlers = {field: container.get(field) for field in _PROBES}
    handlers |= {f"lifecycle.{field}": hook for field, hook in hooks.items()}
    for field, handler in handlers.items():
        if any(((handler or {}).get(action) or {}).get("host") for action in ("httpGet", "tcpSocket")):
            yield _baseline_violation(f"{path}.{field}", "connects to another host")


def _restricted_violations(spec: Body) -> Iterator[PodSecurityViolation]:
    pod_context = spec.get("securityContext") or {}
    for volume in spec.get("volumes") or ():
        # A volume of no kind is an emptyDir.
        if kinds := sorted(volume.keys() - {"name", "hostPath"} - _RESTRICTED_VOLUMES):
            yield PodSecurityViolation(
                "restricted", f"spec.volumes[{volume['name']}]", f"is a volume of {', '.join(kinds)}"
            )
    for owner_path, context in (
        ("spec", pod_context),
        *((path, _security_context(container)) for path, container in _containers(spec)),
    ):
        if context.get("runAsNonRoot") is False:
            yield PodSecurityViolation("restricted", f"{owner_path}.securityContext.runAsNonRoot", "is false")
        if context.get("runAsUser") == 0:
            yield PodSecurityViolation("restricted", f"{owner_path}.securityContext.runAsUser", "is root")
    for path, container in _containers(spec):
        yield from _restricted_container_violations(path, _security_context(container), pod_context)


def _restricted_container_violations(
    container_path: str, container_context: Body, pod_context: Body
) -> Iterator[PodSecurityViolation]:
    path = f"{container_path}.securityContext"
    if container_context.get("runAsNonRoot") is None and not pod_context.get("runAsNonRoot"):
        yield PodSecurityViolation("restricted", f"{path}.runAsNonRoot", "is not true", "set it to true")
    if not container_context.get("seccompProfile") and not pod_context.get("seccompProfile"):
        yield PodSecurityViolation("restricted", f"{path}.seccompProfile", "is not set", "set it to RuntimeDefault")
    if container_context.get("allowPrivilegeEscalation") is not False:
        yield PodSecurityViolation("restricted", f"{path}.allowPrivilegeEscalation", "is not false", "set it to false")
    capabilities = container_context.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield PodSecurityViolation("restricted", f"{path}.capabilities", "does not drop ALL", "add ALL to drop")
    forbidden_capabilities = [
        name for name in capabilities.get("add") or () if name != "NET_BIND_SERVICE" and name in _BASELINE_CAPABILITIES
    ]
    if forbidden_capabilities:
        yield PodSecurityViolation("restricted", f"{path}.capabilities", f"adds {', '.join(forbidden_capabilities)}")


def _security_context(body: Body) -> Body:
    context: Body = body.get("securityContext") or {}
    return context
