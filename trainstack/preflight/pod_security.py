"""Violations of a namespace's Pod Security level by a pod template.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/, and the checks of
k8s.io/pod-security-admission/policy for the release of the local cluster. The rules for Linux also apply to
Windows pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Body = Mapping[str, Any]
_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
_SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
    *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
    *("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"),
}
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"),
    "secret",
}
_PROFILES = ("RuntimeDefault", "Localhost")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_APPARMOR_VALUES = ("", "runtime/default")


@dataclass(frozen=True)
class Refusal:
    """A part of a pod template that a level forbids."""

    level: Literal["baseline", "restricted"]
    """Lowest level that forbids the part; `restricted` also forbids what `baseline` forbids."""
    path: str
    """Path in the template, such as `spec.containers[training].securityContext.privileged`."""
    problem: str
    remedy: str = "remove it"


def refusals(template: Body, level: str) -> list[Refusal]:
    """Return the parts of a pod template that a namespace with this enforced level forbids; none for other levels."""
    if level not in ("baseline", "restricted"):
        return []
    spec = template["spec"]
    found = [*_of_metadata(template.get("metadata") or {}), *_of_pod(spec), *_of_context("spec", spec)]
    for path, container in _containers(spec):
        found += [*_of_context(path, container), *_of_container(path, container)]
    if level == "restricted":
        found += _restricted(spec)
    return found


def _containers(spec: Body) -> Iterator[tuple[str, Body]]:
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            yield f"spec.{field}[{container['name']}]", container


def _baseline(path: str, problem: str) -> Refusal:
    return Refusal("baseline", path, problem)


def _of_metadata(metadata: Body) -> Iterator[Refusal]:
    for key, value in (metadata.get("annotations") or {}).items():
        if key.startswith(_APPARMOR) and value not in _APPARMOR_VALUES and not value.startswith("localhost/"):
            yield _baseline(f"metadata.annotations.{key}", f"sets the AppArmor profile {value}")


def _of_pod(spec: Body) -> Iterator[Refusal]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield _baseline(f"spec.{field}", f"sets {field}")
    for volume in spec.get("volumes") or ():
        if "hostPath" in volume:
            yield _baseline(f"spec.volumes[{volume['name']}]", "mounts a folder of the node (hostPath)")
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or ():
        if sysctl["name"] not in _SYSCTLS:
            yield _baseline("spec.securityContext.sysctls", f"sets {sysctl['name']}")


def _of_context(owner: str, body: Body) -> Iterator[Refusal]:
    """Yield what `baseline` forbids in the security context of a pod or a container."""
    context, path = body.get("securityContext") or {}, f"{owner}.securityContext"
    for field in ("appArmorProfile", "seccompProfile"):
        profile = (context.get(field) or {}).get("type")
        if profile is not None and profile not in _PROFILES:
            yield _baseline(f"{path}.{field}", f"has the profile {profile}")
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in _SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield _baseline(f"{path}.seLinuxOptions", "sets a type, user or role of SELinux")
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield _baseline(f"{path}.windowsOptions", "is a host process")


def _of_container(path: str, container: Body) -> Iterator[Refusal]:
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield _baseline(f"{path}.securityContext.privileged", "is privileged")
    if context.get("procMount", "Default") != "Default":
        yield _baseline(f"{path}.securityContext.procMount", f"has the procMount {context['procMount']}")
    added = [name for name in (context.get("capabilities") or {}).get("add") or () if name not in _CAPABILITIES]
    if added:
        yield _baseline(f"{path}.securityContext.capabilities", f"adds {', '.join(added)}")
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            yield _baseline(f"{path}.ports[{port['containerPort']}]", f"binds port {port['hostPort']} of the node")
    hooks = container.get("lifecycle") or {}
    handlers = {field: container.get(field) for field in _PROBES}
    handlers |= {f"lifecycle.{field}": hook for field, hook in hooks.items()}
    for field, handler in handlers.items():
        if any(((handler or {}).get(action) or {}).get("host") for action in ("httpGet", "tcpSocket")):
            yield _baseline(f"{path}.{field}", "connects to another host")


def _restricted(spec: Body) -> Iterator[Refusal]:
    shared = spec.get("securityContext") or {}
    for volume in spec.get("volumes") or ():
        # A volume of no kind is an emptyDir.
        if kinds := sorted(volume.keys() - {"name", "hostPath"} - _VOLUMES):
            yield Refusal("restricted", f"spec.volumes[{volume['name']}]", f"is a volume of {', '.join(kinds)}")
    for owner, context in (("spec", shared), *((path, _context(each)) for path, each in _containers(spec))):
        if context.get("runAsNonRoot") is False:
            yield Refusal("restricted", f"{owner}.securityContext.runAsNonRoot", "is false")
        if context.get("runAsUser") == 0:
            yield Refusal("restricted", f"{owner}.securityContext.runAsUser", "is root")
    for path, container in _containers(spec):
        yield from _restricted_container(path, _context(container), shared)


def _restricted_container(container: str, own: Body, shared: Body) -> Iterator[Refusal]:
    path = f"{container}.securityContext"
    if own.get("runAsNonRoot") is None and not shared.get("runAsNonRoot"):
        yield Refusal("restricted", f"{path}.runAsNonRoot", "is not true", "set it to true")
    if not own.get("seccompProfile") and not shared.get("seccompProfile"):
        yield Refusal("restricted", f"{path}.seccompProfile", "is not set", "set it to RuntimeDefault")
    if own.get("allowPrivilegeEscalation") is not False:
        yield Refusal("restricted", f"{path}.allowPrivilegeEscalation", "is not false", "set it to false")
    capabilities = own.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield Refusal("restricted", f"{path}.capabilities", "does not drop ALL", "add ALL to drop")
    added = [name for name in capabilities.get("add") or () if name != "NET_BIND_SERVICE" and name in _CAPABILITIES]
    if added:
        yield Refusal("restricted", f"{path}.capabilities", f"adds {', '.join(added)}")


def _context(body: Body) -> Body:
    context: Body = body.get("securityContext") or {}
    return context
