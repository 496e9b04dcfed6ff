"""The catalog of tools, the key of each build, and its folder. Reads files, starts nothing."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from encamp.errors import SandboxError
from encamp.resources import resource

#: Moves the cache of tools, for people with a small home folder and for tests.
CACHE_VARIABLE = "ENCAMP_CACHE_DIR"
#: Raised when what a build leaves beside the binaries changes its form.
_FORMAT = 1
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Tool:
    """One ``go.mod`` of ``tools/`` and what is built from it.

    Attributes:
        name: the folder below ``tools/``.
        module: the module that the tool comes from, without version; its version in ``go.mod`` is the tool's.
        packages: each main package below the module (empty for the module itself) and its binary's name; none where
            only its manifests are wanted.
        stamps: variables that the linker sets to the version, full import paths.
        manifests: folders of Kubernetes manifests in the module that are kept beside the binary as ``manifests.json``.
        on_demand: the sandbox comes up without it; it is built when something first needs it.
    """

    name: str
    module: str
    packages: dict[str, str]
    stamps: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    on_demand: bool = False

    @property
    def folder(self) -> Path:
        """The folder of its ``go.mod`` and ``go.sum``."""
        try:
            return resource("tools", self.name, "go.mod").parent
        except FileNotFoundError:
            raise SandboxError("this installation of encamp came without its tools' go.mod", where=self.name) from None

    @property
    def version(self) -> str:
        """The version that ``go.mod`` requires, with its ``v``."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        match = re.search(rf"^\s*(?:require\s+)?{re.escape(self.module)}\s+(v\S+)", text, re.MULTILINE)
        if match is None:
            raise SandboxError(f"{self.module} is not required", where=f"tools/{self.name}/go.mod")
        return match[1]

    @property
    def needed_go(self) -> tuple[int, ...]:
        """The version of Go that ``go.mod`` asks for, such as (1, 26)."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        match = re.search(r"^go (\d+(?:\.\d+)*)", text, re.MULTILINE)
        return tuple(int(part) for part in match[1].split(".")) if match else ()

    @property
    def import_paths(self) -> list[str]:
        """The main packages, as ``go build`` takes them."""
        return [f"{self.module}/{package}" if package else self.module for package in self.packages]

    @property
    def build_flags(self) -> list[str]:
        """The flags of ``go build`` beside the packages."""
        stamps = " ".join(f"-X {variable}={self.version}" for variable in self.stamps)
        return ["-mod=readonly", "-trimpath", "-ldflags", f"-s -w {stamps}".strip()]

    @property
    def key(self) -> str:
        """A hash of all that decides the build's outcome; 16 hexadecimal digits."""
        parts = {
            "format": _FORMAT,
            "go.mod": _digest(self.folder / "go.mod"),
            "go.sum": _digest(self.folder / "go.sum"),
            "flags": self.build_flags,
            "packages": self.packages,
            "manifests": self.manifests,
            "platform": target(),
            "cgo": False,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("etcd", "go.etcd.io/etcd/server/v3", {"": "etcd"}),
        Tool(
            "kubernetes",
            "k8s.io/kubernetes",
            {f"cmd/{name}": name for name in _KUBERNETES},
            stamps=("k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"),
        ),
        Tool(
            "jobset",
            "sigs.k8s.io/jobset",
            {"": "jobset"},
            stamps=("sigs.k8s.io/jobset/pkg/version.GitVersion",),
        ),
        Tool(
            "kueue",
            "sigs.k8s.io/kueue",
            {"cmd/kueue": "kueue"},
            stamps=("sigs.k8s.io/kueue/pkg/version.GitVersion",),
            on_demand=True,
        ),
        # Nothing of it runs: the kubelet's autoscaler answers requests of its type for machines.
        Tool("autoscaler", "k8s.io/autoscaler/cluster-autoscaler/apis", {}, manifests=("config/crd",)),
        # The Automation API refuses a command line that does not know its version.
        Tool(
            "pulumi",
            "github.com/pulumi/pulumi/pkg/v3",
            {"cmd/pulumi": "pulumi"},
            stamps=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",),
        ),
        Tool(
            "gcsfuse",
            "github.com/googlecloudplatform/gcsfuse/v3",
            {"": "gcsfuse"},
            stamps=("github.com/googlecloudplatform/gcsfuse/v3/common.gcsfuseVersion",),
            on_demand=True,
        ),
    )
}


#: Renders charts when one of them is upgraded (``tools/charts.py``); nothing that runs needs it.
HELM = Tool("helm", "helm.sh/helm/v3", {"cmd/helm": "helm"})


def target() -> str:
    """Return the system and processor that tools are built for: this machine's, as Go names them."""
    machine = platform.machine().lower()
    return f"{sys.platform}/{_ARCHITECTURES.get(machine, machine)}"


def cache_folder() -> Path:
    """Return the folder of tools' builds, for every checkout of this user."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute() / "tools"
    return platformdirs.user_cache_path("encamp") / "tools"


def build_folder(tool: Tool) -> Path:
    """Return the folder of this build of a tool, whether or not it exists."""
    return cache_folder() / tool.name / tool.key


def is_installed(tool: Tool) -> bool:
    """Whether this build of a tool is there, with every binary."""
    folder = build_folder(tool)
    files = [*tool.packages.values(), *(["manifests.json"] if tool.manifests else [])]
    return all((folder / name).is_file() for name in files)


def missing() -> list[Tool]:
    """Return the tools that still have to be built before the sandbox can come up."""
    return [tool for tool in TOOLS.values() if not tool.on_demand and not is_installed(tool)]


def installed() -> dict[str, Path]:
    """Name of each binary (``etcd``, ``kubectl``, ...) to its file.

    Raises:
        SandboxError: a tool has not been built yet.
    """
    if absent := missing():
        names = ", ".join(tool.name for tool in absent)
        raise SandboxError(f"tools of the sandbox are not built yet: {names}", hint="encamp sandbox up builds them")
    return {
        name: build_folder(tool) / name
        for tool in TOOLS.values()
        for name in tool.packages.values()
        if not tool.on_demand or is_installed(tool)
    }


def manifest_files(*, jobset: bool = True) -> list[Path]:
    """Return the manifests of every cluster: JobSet's chart, unless an environment installs it, and those of tools."""
    charts = [resource("templates", "charts", "jobset.json")] if jobset else []
    return [*charts, *(build_folder(tool) / "manifests.json" for tool in TOOLS.values() if tool.manifests)]


@functools.cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
