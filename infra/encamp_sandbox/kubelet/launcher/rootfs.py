"""The files that a container sees: its own root, the host's programs read-only below it, its volumes above.

The root is a tmpfs. What stands for an image is bound into it read-only: the host's programs and libraries, /etc, and
the folders that the kubelet names beside them (the interpreter, encamp's tools). Nothing else of the host is there, no
home and no data; what the kubelet names as hidden is not there either, wherever it lies. What a volume is mounted on
may not exist on the host; the folder that lacks it is then replaced by one of the container's own, whose entries are
links to what the host has.
"""

# The paths of a root that is not the root yet are text, and importing pathlib would slow every start.
# ruff: noqa: PTH102, PTH103, PTH108, PTH110, PTH112, PTH114, PTH115, PTH116, PTH118, PTH120, PTH211

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any

from encamp_sandbox.kubelet.launcher import kernel

#: Folder in which replaced folders of the host stay reachable for the links into them.
_HOST = "/.host"
#: Folder of the kubelet's own files of the pod (hosts, resolv.conf, the certificates).
_POD = "/.pod"
_PRIVATE = {"/run": "755", "/tmp": "1777", "/var/tmp": "1777"}  # noqa: S108 - of the container
#: Top-level folders of the host that stand for an image's: programs, libraries, and what is installed beside them.
_PROGRAMS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt", "nix")
_SETTINGS = "/etc"
#: Size of ``/dev/shm`` that container runtimes give a container by default. Belief: container-shared-memory.
_SHARED_MEMORY_BYTES = 64 * 2**20
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: As container runtimes have them (github.com/containerd/containerd, pkg/oci/spec.go): a pod of root's sandbox could
#: else change settings of the machine.
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_PROC_MASKED = ("acpi", "asound", "kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "scsi")
_DEV_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_POD_FILES = {
    "/etc/hosts": "hosts",
    "/etc/hostname": "hostname",
    "/etc/resolv.conf": "resolv.conf",
    "/etc/nsswitch.conf": "nsswitch.conf",
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt": "ca-certificates.crt",
}


class Root:
    """A root filesystem in the making, in the mount namespace of the caller.

    Args:
        folder: an empty folder to mount it on.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._devices: set[int] = set()
        self._hidden: list[str] = []
        self._shown: list[str] = [*(f"/{name}" for name in _PROGRAMS), _SETTINGS]

    def build(self, spec: dict[str, Any]) -> None:
        """Make what ``spec`` (``launcher.__main__`` describes it) asks for, and make it the root."""
        self._hidden = [os.path.realpath(path) for path in spec["hidden"]]
        self._shown += spec["kept"]
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        self._own_mount("/", "755")
        kernel.mount("none", self._folder, None, kernel.MS_UNBINDABLE)  # else it would be bound into itself
        self._host_folders()
        self._dev()
        self._proc()
        for path, mode in _PRIVATE.items():
            self._own_mount(path, mode)
        os.mkdir(self._at("/tmp/home"), 0o700)  # noqa: S108 - of the container
        self._etc(spec["etc"])
        kept = [path for path in spec["kept"] if os.path.exists(path)]
        self._make_room([*kept, *(mount["target"] for mount in spec["mounts"])])
        for path in kept:
            if not os.path.exists(self._at(self._resolved(path))):
                _bind_read_only(path, self._place(path, folder=os.path.isdir(path)))
                self._cover(path, self._at(self._resolved(path)))
        for mount in spec["mounts"]:
            if "memory" in mount:
                self._memory(mount["target"], mount["memory"])
            else:
                self.bind(_source(mount), mount["target"], read_only=mount["read_only"])
        kernel.pivot_root(self._folder)

    def _make_room(self, targets: list[str]) -> None:
        """Open the folders that what is mounted lies in, outer ones first: opening one covers what lies below it."""
        paths = {self._resolved(target) for target in targets}
        outermost = [path for path in paths if not any(_is_below(path, other) for other in paths if other != path)]
        for path in sorted(outermost, key=lambda one: one.count("/")):
            if not os.path.lexists(self._at(path)):
                self._open(os.path.dirname(path))

    def _cover(self, path: str, place: str) -> None:
        """Take from the host's folder ``path``, bound to ``place``, what is hidden of it."""
        for hidden in self._hidden:
            if _is_below(hidden, path):
                there = place + hidden[len(path.rstrip("/")) :]
                if os.path.isdir(there):
                    kernel.mount("tmpfs", there, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
                    self._devices.add(os.stat(there).st_dev)
                elif os.path.exists(there):
                    kernel.mount("/dev/null", there, None, kernel.MS_BIND)

    def _is_shown(self, path: str) -> bool:
        """Whether the host's ``path`` is one that a container sees: the innermost folder named decides."""
        real = os.path.realpath(path)
        shown = max((len(one) for one in self._shown if _is_below(path, one)), default=-1)
        return shown > max((len(one) for one in self._hidden if _is_below(real, one)), default=-1)

    def bind(self, source: str, target: str, *, read_only: bool) -> None:
        """Mount a file or folder of the host on any path of the container."""
        place = self._place(target, folder=os.path.isdir(source))
        kernel.mount(source, place, None, kernel.MS_BIND | kernel.MS_REC)
        if read_only:
            kernel.make_read_only(place)

    def _memory(self, target: str, size: int) -> None:
        """Mount a volume that lies in memory, of so many bytes; 0 for the kernel's default."""
        place, options = self._place(target, folder=True), f",size={size}" if size else ""
        kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode=1777{options}")

    def _at(self, path: str) -> str:
        return self._folder + path.rstrip("/")

    def _own_mount(self, path: str, options: str) -> None:
        place = self._at(path)
        os.makedirs(place, exist_ok=True)
        kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={options}")
        self._devices.add(os.stat(place).st_dev)

    def _host_folders(self) -> None:
        for name in _PROGRAMS:
            path, place = f"/{name}", self._at(f"/{name}")
            if os.path.islink(path):
                os.symlink(os.readlink(path), place)
            elif os.path.isdir(path):
                os.mkdir(place)
                _bind_read_only(path, place)
                self._cover(path, place)
        os.mkdir(self._at("/sys"))
        with contextlib.suppress(OSError):
            _bind_read_only("/sys", self._at("/sys"))

    def _dev(self) -> None:
        self._own_mount("/dev", "755")
        dev = self._at("/dev")
        for name in _DEVICES:
            with contextlib.suppress(OSError):
                _touch(f"{dev}/{name}")
                kernel.mount(f"/dev/{name}", f"{dev}/{name}", None, kernel.MS_BIND)
        for name, target in _DEV_LINKS.items():
            os.symlink(target, f"{dev}/{name}")
        self._own_mount("/dev/shm", f"1777,size={_SHARED_MEMORY_BYTES}")  # noqa: S108 - of the container
        os.mkdir(f"{dev}/pts")
        with contextlib.suppress(OSError):
            kernel.mount("devpts", f"{dev}/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620")

    def _proc(self) -> None:
        place = self._at("/proc")
        os.mkdir(place)
        try:
            kernel.mount("proc", place, "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        except OSError:  # a masked /proc of an outer container forbids a new one; the outer one shows our processes too
            kernel.mount("/proc", place, None, kernel.MS_BIND | kernel.MS_REC)
        for name in (*_PROC_READ_ONLY, *_PROC_MASKED):
            there = f"{place}/{name}"
            if not os.path.lexists(there):
                continue
            if name in _PROC_READ_ONLY:
                _bind_read_only(there, there)
            elif os.path.isdir(there):
                kernel.mount("tmpfs", there, "tmpfs", kernel.MS_RDONLY)
            else:
                kernel.mount("/dev/null", there, None, kernel.MS_BIND)

    def _etc(self, source: str) -> None:
        """Mount the host's /etc as links, with the pod's own files in their places."""
        os.mkdir(self._at(_POD))
        _bind_read_only(source, self._at(_POD))
        for path, name in _POD_FILES.items():
            if os.path.exists(f"{source}/{name}"):
                place = self._place(path, folder=False)
                os.unlink(place)
                os.symlink(f"{_POD}/{name}", place)

    def _place(self, target: str, *, folder: bool) -> str:
        """Return a mount point for a file or folder ``target`` below the root in the making, created if missing."""
        path = self._resolved(target)
        place = self._at(path)
        if os.path.lexists(place) and not os.path.islink(place) and path not in _POD_FILES:
            return place
        self._open(os.path.dirname(path))
        if os.path.islink(place):
            os.unlink(place)
        if folder:
            os.mkdir(place)
        else:
            _touch(place)
        return place

    def _resolved(self, target: str) -> str:
        """Return the path with the container's own links followed, but not those that stand for the host's entries."""
        parts = [part for part in os.path.normpath("/" + target).split("/") if part]
        path = "/"
        while parts:
            step = os.path.join(path, parts.pop(0))
            if os.path.islink(self._at(step)) and not (link := os.readlink(self._at(step))).startswith(_HOST):
                parts = [part for part in os.path.normpath(os.path.join(path, link)).split("/") if part] + parts
                path = "/"
            else:
                path = step
        return path

    def _open(self, path: str) -> None:
        """Make the folder ``path`` one of the container's own, in which entries can be made."""
        place = self._at(path)
        if os.path.lexists(place) and not os.path.islink(place):
            if os.stat(place).st_dev in self._devices:
                return
            kept = self._keep(path)
            self._own_mount(path, "755")
        else:
            self._open(os.path.dirname(path))
            kept = self._keep(path)
            if os.path.islink(place):
                os.unlink(place)
            if not os.path.lexists(place):
                os.mkdir(place)
        if kept:
            for entry in os.scandir(path):
                link = os.readlink(entry.path) if entry.is_symlink() else f"{_HOST}{path}/{entry.name}"
                os.symlink(link, f"{place}/{entry.name}")

    def _keep(self, path: str) -> bool:
        """Keep the host's folder ``path`` reachable for links into it; False if the container has none of it."""
        if not os.path.isdir(path) or any(_is_below(path, own) for own in _PRIVATE):
            return False
        if not self._is_shown(path):
            return False
        kept = self._at(f"{_HOST}{path}")
        if not os.path.isdir(kept):
            os.makedirs(kept)
            _bind_read_only(path, kept)
            self._cover(path, kept)
        return True


def _is_below(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _source(mount: dict[str, Any]) -> str:
    """Return the source of a mount; ``below`` is a folder of a file system that only containers see, made if missing.

    A link in there may lead anywhere and would name a file of the host, so none is followed.
    """
    source: str = mount["source"]
    if below := mount.get("below"):
        base = os.path.realpath(source)
        source = os.path.join(base, os.path.normpath(below))
        if not mount["read_only"]:
            os.makedirs(source, exist_ok=True)
        if os.path.realpath(source) != source or not source.startswith(f"{base}/"):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), below)
    return source


def _bind_read_only(source: str, place: str) -> None:
    kernel.mount(source, place, None, kernel.MS_BIND | kernel.MS_REC)
    with contextlib.suppress(OSError):  # a kernel before 5.12 may not let us; the container then could write there
        kernel.make_read_only(place)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
