"""The cluster's certificates and kubeconfigs.

The authority and the key of service accounts exist as long as the cluster's data, so that issued kubeconfigs and tokens
remain valid. Certificates are issued again at each start, because the node's address may have changed.
"""

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.network import API_SERVICE_IP, Slot
from trainstack.local_cluster.registry_access import AUTHORITY, CLIENT, SERVER
from trainstack.local_cluster.spec import NODE_NAME
from trainstack.local_cluster.state_folder import Layout

AUTHORITY_DAYS = 3650
"""Lifetime of the cluster's authority."""
LEAF_DAYS = 730
"""Lifetime of the certificates, and of the registry's authority, which are all issued again at each start."""
API_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True)
class LeafCertificate:
    """The subject of a certificate, and its files."""

    name: str
    """Base name of its files."""
    common_name: str
    organization: str = ""
    """The Kubernetes group; empty for none."""
    hosts: tuple[str, ...] = ()
    """DNS names and addresses of a server; empty for a client's certificate."""
    kubeconfig: bool = False
    """Whether to write `<name>.kubeconfig` as well."""


def leaf_certificates(slot: Slot) -> tuple[LeafCertificate, ...]:
    api_hosts = (*API_NAMES, "127.0.0.1", API_SERVICE_IP, slot.node_ip)
    return (
        LeafCertificate("apiserver", "kube-apiserver", hosts=api_hosts),
        LeafCertificate("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
        LeafCertificate("front-proxy", "front-proxy"),
        LeafCertificate(
            "kubelet", f"system:node:{NODE_NAME}", "system:nodes", (NODE_NAME, slot.node_ip), kubeconfig=True
        ),
        LeafCertificate("controller-manager", "system:kube-controller-manager", kubeconfig=True),
        LeafCertificate("scheduler", "system:kube-scheduler", kubeconfig=True),
        LeafCertificate("proxy", "system:kube-proxy", kubeconfig=True),
        LeafCertificate("coredns", "system:coredns", kubeconfig=True),
        LeafCertificate("storage", "system:local-path-provisioner", kubeconfig=True),
        LeafCertificate("admin", "trainstack-admin", "system:masters", kubeconfig=True),
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that other accounts cannot read at any time, also not before it is complete."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)


def _distinguished_name(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _certificate_builder(subject: x509.Name, issuer: x509.Name, days: int) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        # Valid an hour ago: the clock of a virtual machine may be set back after the start.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _load_or_create_authority(certs: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the cluster's authority and its key. Read them if they exist, else create them."""
    certificate_path, key_path = certs / "ca.crt", certs / "ca.key"
    if certificate_path.exists() and key_path.exists():
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise LocalClusterError(
                f"{key_path} is not this cluster's key; create another one with `trainstack cluster reset`."
            )
        return x509.load_pem_x509_certificate(certificate_path.read_bytes()), key
    certificate, key = _create_authority("trainstack local cluster", AUTHORITY_DAYS)
    write_secret(key_path, _pem(key))
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _create_authority(common_name: str, days: int) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _distinguished_name(common_name)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _certificate_builder(name, name, days)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate, key


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _issue(certs: Path, leaf: LeafCertificate, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _certificate_builder(
        _distinguished_name(leaf.common_name, leaf.organization), authority.subject, LEAF_DAYS
    )
    if leaf.hosts:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names = x509.SubjectAlternativeName([_general_name(host) for host in leaf.hosts])
        builder = builder.add_extension(names, critical=False)
    certificate = (
        builder.public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    write_secret(certs / f"{leaf.name}.key", _pem(key))
    (certs / f"{leaf.name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def base64_text(content: bytes) -> str:
    """Return the Base64 text with which a kubeconfig embeds a file."""
    return base64.b64encode(content).decode()


def kubeconfig(server: str, authority: bytes, user: Mapping[str, str], namespace: str = "") -> str:
    """Return a kubeconfig with all files embedded, as JSON, which is also YAML.

    `user` has the credentials by the kubeconfig's keys. An empty `namespace` means `default`.
    """
    name = "trainstack-local"
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    cluster = {"server": server, "certificate-authority-data": base64_text(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"


def issue_registry_certificates(certs: Path, host: str) -> None:
    """Write the certificates of an image registry at `host` and of its clients.

    Their authority is not the cluster's, which also signs the certificates of the API's users. It is created at each
    start, so that the registry refuses client certificates of earlier starts.
    """
    authority, signer = _create_authority("trainstack local registry", LEAF_DAYS)
    (certs / f"{AUTHORITY}.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    _issue(certs, LeafCertificate(SERVER, "registry", hosts=(host,)), authority, signer)
    _issue(certs, LeafCertificate(CLIENT, "registry-client"), authority, signer)


def issue_certificates(layout: Layout, slot: Slot) -> None:
    """Write all certificates, keys and kubeconfigs of a cluster with the addresses of `slot`."""
    certs = layout.certs
    authority, signer = _load_or_create_authority(certs)
    if not (certs / "service-account.key").exists():
        account_key = ec.generate_private_key(ec.SECP256R1())
        public_key = account_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (certs / "service-account.pub").write_bytes(public_key)
        write_secret(certs / "service-account.key", _pem(account_key))
    for leaf in leaf_certificates(slot):
        _issue(certs, leaf, authority, signer)
        if leaf.kubeconfig:
            ca, crt, key = ((certs / name).read_bytes() for name in ("ca.crt", f"{leaf.name}.crt", f"{leaf.name}.key"))
            user = {"client-certificate-data": base64_text(crt), "client-key-data": base64_text(key)}
            write_secret(certs / f"{leaf.name}.kubeconfig", kubeconfig(slot.server, ca, user).encode())
    write_secret(layout.kubeconfig, (certs / "admin.kubeconfig").read_bytes())
    issue_registry_certificates(certs, slot.node_ip)
