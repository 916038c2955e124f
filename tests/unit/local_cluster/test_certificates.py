"""Certificates: their subjects, their addresses, and what is kept across restarts."""

import base64
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainstack.local_cluster import certificates
from trainstack.local_cluster.network import Slot
from trainstack.local_cluster.state_folder import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Create a state folder with its subfolders."""
    state_layout = Layout.of(tmp_path / "state")
    state_layout.make_folders()
    return state_layout


def read(layout: Layout, name: str) -> x509.Certificate:
    """Read one certificate."""
    return x509.load_pem_x509_certificate((layout.certs / f"{name}.crt").read_bytes())


def test_every_certificate_is_signed_and_names_its_owner(layout: Layout) -> None:
    """The API server's authorizer uses these names."""
    certificates.issue_certificates(layout, Slot(0))
    authority = read(layout, "ca")
    public = authority.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    subjects = {}
    for leaf in certificates.leaf_certificates(Slot(0)):
        certificate = read(layout, leaf.name)
        certificate.verify_directly_issued_by(authority)
        subjects[leaf.name] = certificate.subject.rfc4514_string()
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert (ExtendedKeyUsageOID.SERVER_AUTH in usages) == bool(leaf.hosts)
    assert subjects == {
        "apiserver": "CN=kube-apiserver",
        "apiserver-kubelet-client": "CN=kube-apiserver-kubelet-client",
        "front-proxy": "CN=front-proxy",
        "kubelet": "CN=system:node:local,O=system:nodes",
        "controller-manager": "CN=system:kube-controller-manager",
        "scheduler": "CN=system:kube-scheduler",
        "proxy": "CN=system:kube-proxy",
        "coredns": "CN=system:coredns",
        "storage": "CN=system:local-path-provisioner",
        "admin": "CN=trainstack-admin,O=system:masters",
    }


def test_the_authority_stays_and_the_address_follows_the_slot(layout: Layout) -> None:
    """Earlier kubeconfigs and tokens are valid after a restart; the API server has its new address."""
    certificates.issue_certificates(layout, Slot(0))
    kept = [(layout.certs / name).read_bytes() for name in ("ca.crt", "service-account.key")]
    certificates.issue_certificates(layout, Slot(5))
    assert [(layout.certs / name).read_bytes() for name in ("ca.crt", "service-account.key")] == kept
    names = read(layout, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "198.18.128.1", "198.18.254.22"}
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)


def test_the_kubeconfig_is_complete_and_private(layout: Layout) -> None:
    """It is valid in any folder, since it refers to no other file. Other users cannot read its key."""
    certificates.issue_certificates(layout, Slot(0))
    content = json.loads(layout.kubeconfig.read_text())
    assert content["clusters"][0]["cluster"]["server"] == "https://198.18.254.2:6443"
    user = content["users"][0]["user"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    assert certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"
    assert set(user) == {"client-certificate-data", "client-key-data"}
    assert layout.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert layout.certs.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in layout.certs.glob("*.key")} == {0o600}
