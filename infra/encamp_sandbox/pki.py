"""The sandbox's own certificate authority and every certificate and key below it, random per sandbox.

Nothing here is trusted by the machine: clients trust the authority because ``bundle.crt`` or a kubeconfig
says so. What is missing or ends soon is issued anew; what is there and good stays, so that a running client
of an earlier ``up`` goes on working.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from encamp_sandbox.layout import write_private
from encamp_sandbox.ports import API_ADDRESS

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout

_LIFETIME = timedelta(days=3650)
_RENEW_BEFORE_END = timedelta(days=30)
#: Allows for a clock that is set back after the sandbox was made.
_BACKDATED = timedelta(days=1)
_LOOPBACK_NAMES = ("localhost", "127.0.0.1")
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
#: Files in which systems keep their certificates: Debian, Fedora, Alpine and macOS, openSUSE.
_SYSTEM_STORES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)
_STORE_VARIABLES = ("REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")


@dataclass(frozen=True)
class _Leaf:
    """A certificate to issue: file name below ``pki/`` without suffix, subject, server names, and whether it calls."""

    name: str
    common_name: str
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    client: bool = False


# Users and groups that the API server's default RBAC knows: kubernetes.io/docs/reference/access-authn-authz/rbac.
_LEAVES = (
    _Leaf("etcd", "etcd", names=_LOOPBACK_NAMES, client=True),
    _Leaf(
        "apiserver",
        "kube-apiserver",
        names=(
            *_LOOPBACK_NAMES,
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            API_ADDRESS,
        ),
    ),
    _Leaf("kubelet-client", "kube-apiserver-kubelet-client", ("system:masters",), client=True),
    _Leaf("kubelet", "kubelet", names=_LOOPBACK_NAMES),
    _Leaf("controller-manager", "system:kube-controller-manager", names=_LOOPBACK_NAMES, client=True),
    _Leaf("scheduler", "system:kube-scheduler", names=_LOOPBACK_NAMES, client=True),
    _Leaf("admin", "encamp-admin", ("system:masters",), client=True),
    _Leaf("jobset-webhook/tls", "jobset-webhook", names=_LOOPBACK_NAMES),
    _Leaf(
        "front",
        "googleapis.com",
        names=(
            *_LOOPBACK_NAMES,
            "googleapis.com",
            "*.googleapis.com",
            "*.storage.googleapis.com",
            "accounts.google.com",
            "metadata.google.internal",
        ),
    ),
)


def issue_certificates(layout: Layout) -> None:
    """Make the authority, every certificate, the service account signing key and the bundle, where they are missing."""
    authority, key = _authority(layout)
    for leaf in _LEAVES:
        path = layout.pki / f"{leaf.name}.crt"
        if not _good(path, authority):
            _issue(layout, leaf, authority, key)
    signing = layout.pki / "service-account.key"
    if not signing.exists():
        private = ec.generate_private_key(ec.SECP256R1())
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_private(layout.pki / "service-account.pub", public)
        write_private(signing, _pem(private))
    write_private(layout.bundle, _bundle(layout))


def _authority(layout: Layout) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key_file = layout.pki / "ca.key"
    if _good(layout.ca_certificate) and key_file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return x509.load_pem_x509_certificate(layout.ca_certificate.read_bytes()), key
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("encamp sandbox", ())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(key_file, _pem(key))
    write_private(layout.ca_certificate, certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _issue(layout: Layout, leaf: _Leaf, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] * bool(leaf.names) + [ExtendedKeyUsageOID.CLIENT_AUTH] * leaf.client
    builder = (
        _builder(_name(leaf.common_name, leaf.groups), authority.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if leaf.names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(n) for n in leaf.names]), False)
    certificate = builder.sign(signer, hashes.SHA256())
    # The key first: a certificate that is there says that its key is too.
    write_private(layout.pki / f"{leaf.name}.key", _pem(key))
    write_private(layout.pki / f"{leaf.name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str, groups: tuple[str, ...]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(IPv4Address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _good(path: Path, authority: x509.Certificate | None = None) -> bool:
    """Whether a certificate is there, is the authority's, and does not end soon."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        if authority is not None:
            certificate.verify_directly_issued_by(authority)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    return certificate.not_valid_after_utc - _RENEW_BEFORE_END > datetime.now(UTC)


def _bundle(layout: Layout) -> str:
    """Return the sandbox's authority and all that this machine trusts, each certificate once."""
    defaults = ssl.get_default_verify_paths()
    stores = [defaults.cafile, *(os.environ.get(name) for name in _STORE_VARIABLES), *_SYSTEM_STORES]
    certificates = {_certificates(layout.ca_certificate)[0]: None}
    for store in stores:
        if store and Path(store).is_file() and Path(store).resolve() != layout.bundle.resolve():
            certificates.update(dict.fromkeys(_certificates(Path(store))))
    return "\n".join(certificates) + "\n"


def _certificates(path: Path) -> list[str]:
    text = path.read_text(encoding="ascii", errors="replace")
    return [f"{_BEGIN}{part.partition(_END)[0]}{_END}" for part in text.split(_BEGIN)[1:]]
