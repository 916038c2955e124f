"""The cluster's programs, with their arguments and order; pure."""

import sys
from collections.abc import Callable
from pathlib import Path

from trainstack.dev.cluster import network
from trainstack.dev.cluster.config import (
    CONTAINERD_SOCKET,
    HELPER_IMAGE,
    STORAGE_ACCOUNT,
    STORAGE_CONFIG_MAP,
    STORAGE_NAMESPACE,
)
from trainstack.dev.cluster.layout import KUBELET_ROOT, Layout
from trainstack.dev.cluster.network import Slot
from trainstack.dev.cluster.plan import Component, Probe
from trainstack.dev.cluster.registry_access import CLIENT
from trainstack.dev.cluster.spec import NODE_NAME, ClusterSpec

SHARED_PROVISIONER = "rancher.io/local-path"
"""Provisioner of classes whose volumes every node reaches; any access mode."""
NODE_PROVISIONER = "rancher.io/local-path-node"
"""Provisioner of classes whose volumes belong to one node; ReadWriteOnce only."""
RECONCILED = "/run/trainstack-reconciled"
"""Created in the cluster's /run once its objects are applied."""
REQUEST_LIMITS = ("--kube-api-qps=300", "--kube-api-burst=600")
"""The default of 20 requests a second delays a new cluster by 4 s, and bursts of Jobs by more."""

Find = Callable[[str], Path]
"""Returns a program's path."""


def components(layout: Layout, slot: Slot, spec: ClusterSpec, find: Find) -> tuple[Component, ...]:
    """Return every component after those that it needs."""
    return (
        *_base(layout, slot, find),
        *_control_plane(layout, slot, spec, find),
        *_node(layout, slot, find),
        *_services(layout, find),
        *([_kwok(layout, slot, find)] if spec.simulated_nodes else []),
    )


def _base(layout: Layout, slot: Slot, find: Find) -> list[Component]:
    etcd = (
        f"{find('etcd')}",
        f"--data-dir={layout.etcd}",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        # Not synced to disk: a crash of the machine (not of a process) may lose the cluster's objects.
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    images = " && ".join(
        f"ctr --address {CONTAINERD_SOCKET} --namespace k8s.io images import '{layout.config}/{name}.tar'"
        for name in ("pause", "helper")
    )
    return [
        Component("etcd", etcd, Probe("http", "http://127.0.0.1:2379/health")),
        Component(
            "registry",
            ("docker-registry", "serve", f"{layout.config}/registry.yaml"),
            Probe("http", f"https://{slot.registry}/v2/", CLIENT),
        ),
        Component(
            "containerd",
            ("containerd", "--config", f"{layout.config}/containerd.toml", "--log-level", "warn"),
            Probe("socket", CONTAINERD_SOCKET),
        ),
        Component("images", ("/bin/sh", "-c", images), Probe("started"), after=("containerd",), once=True),
    ]


def _control_plane(layout: Layout, slot: Slot, spec: ClusterSpec, find: Find) -> list[Component]:
    certs = layout.certs
    audit = (f"--audit-policy-file={layout.audit_policy}", f"--audit-log-path={layout.audit}")
    apiserver = (
        f"{find('kube-apiserver')}",
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--advertise-address={slot.node_ip}",
        f"--secure-port={network.API_PORT}",
        f"--tls-cert-file={certs}/apiserver.crt",
        f"--tls-private-key-file={certs}/apiserver.key",
        f"--client-ca-file={certs}/ca.crt",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={certs}/service-account.pub",
        f"--service-account-signing-key-file={certs}/service-account.key",
        f"--service-cluster-ip-range={network.SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # Beta and off in 1.34; sites use it as shared clusters use a webhook.
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        "--allow-privileged=true",
        f"--kubelet-client-certificate={certs}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={certs}/apiserver-kubelet-client.key",
        f"--kubelet-certificate-authority={certs}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={certs}/ca.crt",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={certs}/front-proxy.crt",
        f"--proxy-client-key-file={certs}/front-proxy.key",
        *(audit if spec.audit else ()),
    )
    controllers = (
        f"{find('kube-controller-manager')}",
        f"--kubeconfig={certs}/controller-manager.kubeconfig",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={certs}/service-account.key",
        f"--root-ca-file={certs}/ca.crt",
        f"--cluster-signing-cert-file={certs}/ca.crt",
        f"--cluster-signing-key-file={certs}/ca.key",
        f"--service-cluster-ip-range={network.SERVICE_RANGE}",
        f"--cluster-cidr={network.POD_RANGE}",
        *REQUEST_LIMITS,
    )
    scheduler = (
        f"{find('kube-scheduler')}",
        f"--kubeconfig={certs}/scheduler.kubeconfig",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        *REQUEST_LIMITS,
    )
    reconcile = (sys.executable, "-P", "-m", "trainstack.dev.cluster.reconcile", str(layout.state), slot.node_ip)
    return [
        Component("apiserver", apiserver, Probe("http", f"{slot.server}/readyz"), after=("etcd",)),
        Component(
            "controller-manager", controllers, Probe("http", "https://127.0.0.1:10257/healthz"), after=("apiserver",)
        ),
        Component("scheduler", scheduler, Probe("http", "https://127.0.0.1:10259/healthz"), after=("apiserver",)),
        Component("reconcile", reconcile, Probe("file", RECONCILED), after=("apiserver",)),
    ]


def _node(layout: Layout, slot: Slot, find: Find) -> list[Component]:
    kubelet = (
        f"{find('kubelet')}",
        f"--config={layout.config}/kubelet.json",
        f"--kubeconfig={layout.certs}/kubelet.kubeconfig",
        f"--root-dir={KUBELET_ROOT}",
        f"--cert-dir={KUBELET_ROOT}/pki",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={slot.node_ip}",
    )
    proxy = (
        f"{find('kube-proxy')}",
        f"--kubeconfig={layout.certs}/proxy.kubeconfig",
        f"--hostname-override={NODE_NAME}",
        f"--cluster-cidr={network.POD_RANGE}",
        "--proxy-mode=iptables",
        # The connection table's size belongs to the machine and cannot be set from a namespace.
        "--conntrack-max-per-core=0",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
    )
    return [
        Component(
            "kubelet",
            kubelet,
            Probe("http", "http://127.0.0.1:10248/healthz"),
            after=("apiserver", "containerd", "images"),
        ),
        Component("proxy", proxy, Probe("http", "http://127.0.0.1:10249/healthz"), after=("apiserver",)),
    ]


def _services(layout: Layout, find: Find) -> list[Component]:
    coredns = (f"{find('coredns')}", "-conf", f"{layout.config}/Corefile")

    def storage(kind: str, provisioner: str) -> tuple[str, ...]:
        return (
            f"{find('local-path-provisioner')}",
            "start",
            f"--config={layout.config}/storage-{kind}.json",
            f"--helper-pod-file={layout.config}/storage-helper-pod.yaml",
            f"--helper-image={HELPER_IMAGE}",
            f"--kubeconfig={layout.certs}/storage.kubeconfig",
            f"--namespace={STORAGE_NAMESPACE}",
            f"--configmap-name={STORAGE_CONFIG_MAP}",
            f"--service-account-name={STORAGE_ACCOUNT}",
            f"--provisioner-name={provisioner}",
        )

    return [
        Component("coredns", coredns, Probe("http", "http://127.0.0.1:8181/ready"), after=("reconcile",)),
        Component("storage-shared", storage("shared", SHARED_PROVISIONER), Probe("started"), after=("reconcile",)),
        Component("storage-node", storage("node", NODE_PROVISIONER), Probe("started"), after=("reconcile",)),
    ]


def _kwok(layout: Layout, slot: Slot, find: Find) -> Component:
    argv = (
        f"{find('kwok')}",
        f"--kubeconfig={layout.certs}/admin.kubeconfig",
        f"--config={layout.config}/kwok.yaml",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--cidr={network.SIMULATED_POD_SUBNET}",
        f"--node-ip={slot.node_ip}",
        "--node-lease-duration-seconds=40",
        "--server-address=127.0.0.1:10247",
    )
    return Component("kwok", argv, Probe("http", "http://127.0.0.1:10247/healthz"), after=("reconcile",))
