"""Kueue in the sandbox: its real controller beside JobSet's, started when an environment first has queues.

Types and webhooks are those of its chart, as an environment of Google Cloud installs them, with addresses on this
machine. Kueue looks after its certificates itself, in a Secret: it finds there what is issued here, and leaves it.

Belief: kueue-certificates-in-a-secret.
"""

from __future__ import annotations

import base64
import copy
import json
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from encamp.plan.environment.charts import KUEUE, read_chart
from encamp_sandbox.bootstrap import digested, locate, of_types
from encamp_sandbox.controlplane import SMALL
from encamp_sandbox.layout import write_private
from encamp_sandbox.ports import LOOPBACK
from encamp_sandbox.service import Probe, Service
from encamp_sandbox.tools.catalog import TOOLS, build_folder

if TYPE_CHECKING:
    from pathlib import Path

    from encamp_sandbox.layout import Layout

#: Name of its process, its tool and its chart.
NAME = KUEUE
_SERVICE, _SECRET = "kueue-webhook-service", "kueue-webhook-server-cert"
#: Name of Kueue's authority, which it looks for in its certificate.
_AUTHORITY = "kueue-ca"
_FILES = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_LIFETIME = timedelta(days=3650)
#: Kueue makes certificates anew three months before they end.
_RENEW_BEFORE_END = timedelta(days=120)
_QPS, _BURST = 300, 600


def kueue_service(layout: Layout) -> Service:
    """Return the controller's service: configured as its chart does, but on loopback and as the only instance."""
    binary = build_folder(TOOLS[NAME]) / NAME
    chart = read_chart(KUEUE)
    (configured,) = [item for item in chart["objects"] if item["kind"] == "ConfigMap"]
    config = {
        **yaml.safe_load(configured["data"]["controller_manager_config.yaml"]),
        "namespace": chart["namespace"],
        # Nobody reads them, and everybody of this machine could.
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": layout.ports.kueue_webhook, "certDir": str(_certificates(layout))},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True, "webhookServiceName": _SERVICE, "webhookSecretName": _SECRET},
        "clientConnection": {"qps": _QPS, "burst": _BURST},
    }
    path = layout.run / "kueue.json"
    write_private(path, json.dumps(config, indent=2) + "\n")
    argv = (
        str(binary),
        f"--config={path}",
        f"--kubeconfig={layout.admin_kubeconfig}",
        "--zap-log-level=1",
    )
    authority = _certificates(layout) / "ca.crt"
    probe = Probe(layout.ports.kueue_webhook, "/mutate-jobset-x-k8s-io-v1alpha2-jobset", authority)
    return Service(NAME, argv, (probe,), environment=SMALL)


def kueue_objects(layout: Layout) -> list[dict[str, Any]]:
    """Return the objects that the controller needs before its start: namespace, certificates, types and webhooks."""
    issue_kueue_certificates(layout)
    chart = read_chart(KUEUE)
    content = {name: base64.b64encode((_certificates(layout) / name).read_bytes()).decode() for name in _FILES}
    own = {"name": _SECRET, "namespace": chart["namespace"]}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chart["namespace"]}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": own, "data": content},
    ]
    for item in copy.deepcopy(of_types(chart["objects"])):
        locate(item, layout.ports.kueue_webhook, content["ca.crt"])
        objects.append(item)
    return [digested(item) for item in objects]


def _certificates(layout: Layout) -> Path:
    return layout.pki / "kueue-webhook"


def issue_kueue_certificates(layout: Layout) -> None:
    """Make an authority of Kueue's own and its server's certificate, where they are missing or end soon."""
    folder = _certificates(layout)
    folder.mkdir(mode=0o700, exist_ok=True)
    now = datetime.now(UTC)
    try:
        found = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
        if found.not_valid_after_utc - _RENEW_BEFORE_END > now and all((folder / name).is_file() for name in _FILES):
            return
    except (OSError, ValueError):
        pass
    authority, server = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    signed = _certificate(_AUTHORITY, [x509.DNSName(_AUTHORITY)], authority, authority, now, authority=True)
    own = f"{_SERVICE}.{read_chart(KUEUE)['namespace']}.svc"
    served: list[x509.GeneralName] = [
        x509.DNSName(own),
        x509.DNSName("localhost"),
        x509.IPAddress(IPv4Address(LOOPBACK)),
    ]
    issued = _certificate(own, served, server, authority, now, authority=False)
    # Kueue reads keys in this old form alone.
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    write_private(folder / "ca.crt", signed.public_bytes(serialization.Encoding.PEM))
    write_private(folder / "ca.key", authority.private_bytes(*form))
    write_private(folder / "tls.key", server.private_bytes(*form))
    write_private(folder / "tls.crt", issued.public_bytes(serialization.Encoding.PEM))


def _certificate(
    name: str,
    names: list[x509.GeneralName],
    key: rsa.RSAPrivateKey,
    signer: rsa.RSAPrivateKey,
    now: datetime,
    *,
    authority: bool,
) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(_AUTHORITY))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
