"""Checks of this machine for the sandbox, each by trial, with a remedy for what it forbids."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from encamp.errors import EncampError
from encamp.findings import Finding, Grade
from encamp.guard.peers import can_tell
from encamp_sandbox.kubelet.fuse import DEVICE, look_for_fuse
from encamp_sandbox.kubelet.isolation import NAMESPACES, isolation
from encamp_sandbox.ports import Ports
from encamp_sandbox.pythons.report import versions
from encamp_sandbox.tools import TOOLS, cache_folder, missing
from encamp_sandbox.tools.catalog import is_installed

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp_sandbox.layout import Layout

GOOD, NOTE, BAD = Grade.OK, Grade.NOTE, Grade.BAD
_GIB = 1024**3
_SECONDS = 10
_MINIMUM_PYTHON = (3, 11)
_MINIMUM_FILES = 4096
_MEMORY_NEEDED, _MEMORY_WANTED = 2 * _GIB, 4 * _GIB
_CACHED_DISK, _BUILD_DISK = 1 * _GIB, 5 * _GIB
_OFFICIAL = ("pulumi-language-python", "pulumi-resource-kubernetes", "pulumi-resource-gcp")
#: Namespaces that a pod of ours needs of the kernel: user, network, mount and process, made by an ordinary user.
_NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "true"]


def examine(layout: Layout) -> list[Finding]:
    """Look at everything; nothing is changed."""
    looks: tuple[Callable[[], Finding | list[Finding]], ...] = (
        _system,
        _python,
        _tensorflow,
        _images,
        _tools,
        _go,
        _namespaces,
        _network_policies,
        _other_users,
        _files_of_buckets,
        _memory,
        lambda: _disk(layout),
        _files,
        _ports,
        _official_plugins,
        lambda: _shell(layout),
    )
    findings: list[Finding] = []
    for look in looks:
        found = look()
        findings += found if isinstance(found, list) else [found]
    return findings


def _system() -> Finding:
    text = f"{platform.system()} {platform.release()} on {platform.machine()}, {os.cpu_count()} cores"
    if sys.platform == "linux":
        return Finding("system", GOOD, f"{text}, user id {os.getuid()}")
    return Finding(
        "system",
        NOTE,
        f"{text}: pods share this machine's network",
        "on Linux every pod has a network of its own",
    )


def _python() -> Finding:
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < _MINIMUM_PYTHON:
        return Finding("Python", BAD, text, "encamp needs Python 3.11 or newer")
    return Finding("Python", GOOD, text)


def _tensorflow() -> Finding:
    if importlib.util.find_spec("tensorflow"):
        return Finding("TensorFlow", GOOD, "installed, so the example trainers run")
    return Finding("TensorFlow", NOTE, "not installed: the example trainers need it", "pip install 'encamp[trainer]'")


def _images() -> Finding:
    found = versions()
    groups = (
        ("exactly", [one.version for one in found if one.exact]),
        ("exactly once they are brought", [one.version for one in found if one.possible and not one.exact]),
        ("only nearly", [one.version for one in found if not one.possible]),
    )
    text = "; ".join(f"{how}: {', '.join(names)}" for how, names in groups if names)
    nearly = [one for one in found if not one.exact]
    advice = "encamp sandbox images says how they differ, and pull VERSION brings one" if nearly else ""
    return Finding("Python of runtime versions", GOOD, text, advice)


def _tools() -> Finding:
    try:
        absent = [tool.name for tool in missing()]
    except EncampError as error:
        return Finding("tools", BAD, str(error))
    folder = cache_folder()
    if not absent:
        later = [tool.name for tool in TOOLS.values() if tool.on_demand and not is_installed(tool)]
        more = f" ({', '.join(later)} when a pod first needs it)" if later else ""
        text = f"all {len(TOOLS) - len(later)} built{more}, {_size(folder)} in {folder}; it may be removed any time"
        return Finding("tools", GOOD, text)
    return Finding(
        "tools",
        NOTE,
        f"to be built: {', '.join(absent)}",
        "encamp sandbox up builds them, ten minutes on two cores",
    )


def _go() -> Finding:
    needed = max(tool.needed_go for tool in TOOLS.values())
    advice = f"install Go {'.'.join(map(str, needed[:2]))} or newer"
    found = _run(["go", "version"])
    if found is None:
        return Finding("Go", BAD if missing() else NOTE, "not found, and the tools are built with it", advice)
    text = found.removeprefix("go version ")
    version = re.search(r"go(\d+)\.(\d+)", text)
    if version and tuple(map(int, version.groups())) < needed[:2]:
        return Finding("Go", NOTE, f"{text} is older than the tools need; it may fetch a newer one by itself", advice)
    return Finding("Go", GOOD, text)


def _namespaces() -> Finding:
    if sys.platform != "linux":
        return Finding("namespaces", NOTE, "this system has none: pods share one network and addresses are rewritten")
    if shutil.which("unshare") is None:
        return Finding("namespaces", NOTE, "unshare is missing, so they were not tried", "install util-linux")
    if _run(_NAMESPACES) is not None:
        return Finding("namespaces", GOOD, "tried: a pod gets its own user, network, mounts and processes")
    return Finding(
        "namespaces",
        NOTE,
        "this system forbids user namespaces: pods share one network and addresses are rewritten",
        _namespace_advice(),
    )


def _network_policies() -> Finding:
    subject = "network policies"
    verdict = isolation()
    if verdict.mode != NAMESPACES:
        return Finding(subject, NOTE, f"not enforced, {verdict}", "docs/security.md says what jobs reach then")
    if verdict.unenforced:
        advice = (
            "use a kernel with nf_tables (modules nft_ct and nft_redir among them), and let user namespaces load it"
        )
        return Finding(subject, NOTE, f"not enforced: {verdict.unenforced}", advice)
    return Finding(subject, GOOD, "tried: pods reach what the policies of their jobs allow")


def _other_users() -> Finding:
    subject = "other users of this machine"
    if can_tell():
        return Finding(subject, GOOD, "the sandbox's servers let in its own user alone")
    text = "this system does not say whose a connection is: whoever shares the machine can act as you in the sandbox"
    return Finding(subject, NOTE, text, "use a machine of your own; docs/security.md says what is open")


def _files_of_buckets() -> Finding:
    subject = "Cloud Storage as files"
    if problem := look_for_fuse():
        return Finding(subject, NOTE, f"pods that mount a bucket will wait: {problem.text}", problem.remedy)
    if _run(_NAMESPACES) is None:
        return Finding(subject, NOTE, "pods that mount a bucket will wait: they need namespaces", _namespace_advice())
    return Finding(subject, GOOD, f"{DEVICE} opened: pods may mount buckets")


def _namespace_advice() -> str:
    for setting, wanted in (
        ("kernel.apparmor_restrict_unprivileged_userns", "0"),
        ("kernel.unprivileged_userns_clone", "1"),
        ("user.max_user_namespaces", "15000"),
    ):
        value = _read(f"/proc/sys/{setting.replace('.', '/')}")
        if value is not None and value != wanted and (value == "0" or wanted == "0"):
            return f"sudo sysctl -w {setting}={wanted}"
    return "in a container, start it with --security-opt seccomp=unconfined"


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    if (limit := _container_limit()) is not None:
        free = min(free, limit)
    text = f"{free / _GIB:.1f} GB are free; the servers take about 1, each TensorFlow replica about 0.5"
    if free < _MEMORY_NEEDED:
        return Finding("memory", BAD, text, "end other programs, or give the container more")
    return Finding("memory", GOOD if free >= _MEMORY_WANTED else NOTE, text)


def _container_limit() -> int | None:
    """Return the memory that a cgroup leaves, in bytes; None without a limit."""
    limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    return int(limit) - int(used) if limit and used and limit.isdigit() else None


def _disk(layout: Layout) -> list[Finding]:
    findings = []
    for subject, folder, needed in (
        ("disk of the sandbox", layout.root, _CACHED_DISK),
        ("disk of the tools", cache_folder(), _BUILD_DISK if missing() else 0),
    ):
        place = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(place).free
        text = f"{free / _GIB:.1f} GB are free at {place}"
        if free < needed:
            findings.append(Finding(subject, BAD, f"{text}, {needed / _GIB:.0f} are needed", "free some"))
        else:
            findings.append(Finding(subject, GOOD, text))
    return findings


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= _MINIMUM_FILES or soft == resource.RLIM_INFINITY:
        return Finding("open files", GOOD, f"{soft} for each process")
    possible = hard == resource.RLIM_INFINITY or hard >= _MINIMUM_FILES
    return Finding(
        "open files", NOTE, f"only {soft} for each process", f"ulimit -n {_MINIMUM_FILES if possible else hard}"
    )


def _ports() -> Finding:
    try:
        Ports.choose()
    except EncampError as error:
        return Finding("ports", BAD, error.what, error.hint or "")
    return Finding("ports", GOOD, "free ones are there on loopback")


def _official_plugins() -> list[Finding]:
    used = {
        "pulumi-language-python": "it runs the programs instead of ours",
        "pulumi-resource-kubernetes": "the sandbox uses it instead of ours",
        "pulumi-resource-gcp": "the sandbox never uses it, ours serves these types",
    }
    return [
        Finding(name, GOOD, f"at {found}: {used[name]}" if found else "not on PATH, ours is used")
        for name in _OFFICIAL
        for found in [shutil.which(name)]
    ]


def _shell(layout: Layout) -> Finding:
    if not layout.config_file.is_file():
        return Finding("kubectl", NOTE, "comes with the sandbox", "encamp sandbox up")
    found = shutil.which("kubectl")
    if found and Path(found).parent == layout.bin:
        return Finding("kubectl", GOOD, "this shell's is the sandbox's")
    advice = 'eval "$(encamp sandbox env)"'
    return Finding("kubectl", NOTE, f"this shell's is {found or 'missing'}, not the sandbox's", advice)


def _size(folder: Path) -> str:
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{total / _GIB:.1f} GB"


def _run(argv: list[str]) -> str | None:
    """Return a command's output, None if it fails or is not installed."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
