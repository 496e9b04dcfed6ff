"""Where everything of one sandbox lies, and the few facts that were chosen for it: ports, project and token.

A sandbox is a folder: ``$ENCAMP_SANDBOX_DIR``, else ``.encamp/sandbox`` of the project, else of the current
folder. Its folders are 0700 and its files with secrets 0600. Nothing here starts or watches a process.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from encamp.errors import SandboxError
from encamp.guard.sockets import LONGEST_SOCKET_PATH, temporary_folder
from encamp.project import find_project
from encamp_sandbox.ports import Ports

#: The environment variable that names the sandbox's folder, for people and for the sandbox's own processes.
ROOT_VARIABLE = "ENCAMP_SANDBOX_DIR"
PROJECT = "sandbox-encamp"
#: Projects whose environments know that they are in a sandbox: encamp.spec.environment.model.SANDBOX_PREFIX.
OWN_PREFIX = "sandbox-"
OURS, OFFICIAL = "ours", "official"
_VERSION = 2
_FOLDERS = (
    "pki",
    "pki/jobset-webhook",
    "logs",
    "run",
    "bin",
    "data",
    "data/etcd",
    "data/storage",
    "data/pulumi",
    "data/pulumi-home",
    "data/kubelet",
)


@dataclasses.dataclass(frozen=True)
class SandboxConfig:
    """The content of ``sandbox.json``.

    Attributes:
        project: the only Google Cloud project that this sandbox serves; a real one's, to rehearse a stack of it here.
        token: the administrator's bearer token for the REST front and, through the exec plugin, for the API server.
        kubernetes_provider: ``ours`` or ``official``: who serves the engine's ``kubernetes`` types.
        gcp_provider: the same for its ``gcp`` types.
    """

    ports: Ports
    token: str
    project: str = PROJECT
    kubernetes_provider: str = OURS
    gcp_provider: str = OURS
    version: int = _VERSION

    @property
    def installs_controllers(self) -> bool:
        """Whether its environments install JobSet and Kueue in their cluster, as on Google Cloud."""
        return not self.project.startswith(OWN_PREFIX)

    def to_json(self) -> dict[str, Any]:
        """Give the content of the file."""
        return {
            "version": self.version,
            "project": self.project,
            "ports": self.ports.to_json(),
            "token": self.token,
            "kubernetesProvider": self.kubernetes_provider,
            "gcpProvider": self.gcp_provider,
        }

    def provider(self, package: str) -> str:
        """Give who serves the types of a package."""
        return {"kubernetes": self.kubernetes_provider, "gcp": self.gcp_provider}[package]


class Layout:
    """The paths below a sandbox's root folder, and its configuration, which is read at its first use."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self.config_file = self.root / "sandbox.json"
        self.pki = self.root / "pki"
        self.logs = self.root / "logs"
        self.run = self.root / "run"
        self.bin = self.root / "bin"
        self.data = self.root / "data"
        self.kubeconfig = self.root / "kubeconfig"
        self.admin_kubeconfig = self.root / "admin.kubeconfig"
        self.google_credentials = self.root / "google-credentials.json"
        #: The administrator's token alone, as gcloud reads one, and gcloud's own folder: the user's is left alone.
        self.access_token = self.root / "access-token"
        self.gcloud = self.root / "gcloud"
        #: gsutil's config file.
        self.boto_config = self.root / "boto.cfg"
        self.etcd_data = self.data / "etcd"
        self.storage_data = self.data / "storage"
        self.cloud_database = self.data / "cloud.sqlite3"
        self.pulumi_backend = self.data / "pulumi"
        self.pulumi_home = self.data / "pulumi-home"
        self.kubelet_data = self.data / "kubelet"
        #: There when somebody has asked for queues: Kueue runs then, until the sandbox is reset.
        self.queues_mark = self.data / "queues-wanted"
        #: There when the sandbox is to do otherwise than a belief says, see ``sandbox.lies``.
        self.lies = self.data / "lies.json"
        self.state_file = self.run / "state.json"
        self.ca_certificate = self.pki / "ca.crt"
        self.bundle = self.pki / "bundle.crt"

    @classmethod
    def located(cls) -> Layout:
        """Give the layout of the folder that this call is about, whether or not a sandbox is there."""
        if root := os.environ.get(ROOT_VARIABLE):
            return cls(Path(root))
        return cls((find_project() or Path.cwd()) / ".encamp" / "sandbox")

    @classmethod
    def open(cls, root: Path | None = None) -> Layout:
        """Open the sandbox in ``root``, or in the folder that this call is about.

        Raises:
            SandboxError: no sandbox was made there, or its configuration cannot be read.
        """
        layout = cls(root) if root is not None else cls.located()
        _ = layout.config
        return layout

    @classmethod
    def create(cls, root: Path | None = None, project: str = PROJECT) -> Layout:
        """Make the folders and the configuration where they are missing; what is there stays."""
        layout = cls(root) if root is not None else cls.located()
        try:
            layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in _FOLDERS:
                (layout.root / folder).mkdir(exist_ok=True, mode=0o700)
            if not layout.config_file.exists():
                layout.save(SandboxConfig(Ports.choose(), secrets.token_urlsafe(32), project))
            # The sandbox never becomes part of the repository that it happens to lie in.
            write_private(layout.root / ".gitignore", "*\n")
        except OSError as error:
            raise SandboxError(
                f"the sandbox's folder cannot be made: {error.strerror}",
                where=str(error.filename or layout.root),
                hint=f"choose another folder by {ROOT_VARIABLE}",
            ) from error
        return cls.open(layout.root)

    @functools.cached_property
    def config(self) -> SandboxConfig:
        """The configuration as it was when first asked for."""
        try:
            data = json.loads(self.config_file.read_text(encoding="utf-8"))
            version = data["version"]
            if version != _VERSION:
                raise SandboxError(
                    f"this sandbox is of version {version}, this encamp knows version {_VERSION}",
                    where=str(self.config_file),
                    hint="encamp sandbox reset",
                )
            return SandboxConfig(
                ports=Ports.from_json(data["ports"]),
                token=data["token"],
                project=data["project"],
                kubernetes_provider=data.get("kubernetesProvider", OURS),
                gcp_provider=data.get("gcpProvider", OURS),
            )
        except FileNotFoundError:
            raise SandboxError("there is no sandbox yet", where=str(self.root), hint="encamp sandbox up") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SandboxError(
                f"the sandbox's configuration cannot be read ({error})",
                where=str(self.config_file),
                hint="encamp sandbox reset",
            ) from error

    def save(self, config: SandboxConfig) -> None:
        """Write the configuration, for this object too."""
        write_private(self.config_file, json.dumps(config.to_json(), indent=2) + "\n")
        self.__dict__["config"] = config

    @property
    def ports(self) -> Ports:
        """The port of each server."""
        return self.config.ports

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.config.token

    @property
    def project(self) -> str:
        """The Google Cloud project of this sandbox."""
        return self.config.project

    def log(self, process: str) -> Path:
        """The log file of a process of the sandbox."""
        return self.logs / f"{process}.log"

    def socket_folder(self, name: str) -> Path:
        """A path for a folder of unix sockets with names of up to eight letters; its parent is private."""
        return self.socket(f"{name}/{'x' * 8}").parent

    def socket(self, name: str) -> Path:
        """A path for a unix socket: in ``run/``, or where that is too long for one, in a private temporary folder."""
        path = self.run / name
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            return path
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        folder = Path(temporary_folder()) / f"encamp-{os.getuid()}-{digest}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise SandboxError("the folder for sockets belongs to somebody else", where=str(folder))
        folder.chmod(0o700)
        return folder / name


def write_private(path: Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Put ``content`` at ``path`` at once, for its owner alone; readers see the old or the new, never a part."""
    data = content.encode() if isinstance(content, str) else content
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
