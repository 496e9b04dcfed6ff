"""The files that a container sees: its own root, the host's programs read-only below it, its volumes above.

The root is a tmpfs. The host's top-level folders are bound into it read-only, but for those that a container has of
its own (/dev, /etc, /proc, /run, /tmp, /var/tmp). What a volume is mounted on may not exist on the host; the folder
that lacks it is then replaced by one of the container's own, whose entries are links to what the host has.
"""

# The paths of a root that is not the root yet are text, and importing pathlib would slow every start.
# ruff: noqa: PTH102, PTH103, PTH108, PTH110, PTH112, PTH114, PTH115, PTH116, PTH118, PTH120, PTH211

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any

from encamp.sandbox.kubelet.launcher import kernel

#: Where folders of the host that were replaced stay reachable for the links into them.
_HOST = "/.host"
#: Where the kubelet's own files of the pod are (hosts, resolv.conf, the certificates).
_POD = "/.pod"
_PRIVATE = {"/run": "755", "/tmp": "1777", "/var/tmp": "1777"}  # noqa: S108 - of the container
_OWN = ("dev", "etc", "proc", "run", "sys", "tmp", "lost+found")
#: What container runtimes give a container that has no volume there. Belief: container-shared-memory.
_SHARED_MEMORY_BYTES = 64 * 2**20
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
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

    def build(self, spec: dict[str, Any]) -> None:
        """Make what ``spec`` (``launcher.__main__`` describes it) asks for, and make it the root."""
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
        for hidden in spec["hidden"]:
            if os.path.isdir(self._at(self._resolved(hidden))):
                self._own_mount(self._resolved(hidden), "755")
        for kept in spec["kept"]:
            if not os.path.exists(self._at(kept)):
                self.bind(kept, kept, read_only=True)
        for mount in spec["mounts"]:
            if "memory" in mount:
                self._memory(mount["target"], mount["memory"])
            else:
                self.bind(_source(mount), mount["target"], read_only=mount["read_only"])
        kernel.pivot_root(self._folder)

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
        if not os.path.isdir(place):
            os.mkdir(place)
        kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={options}")
        self._devices.add(os.stat(place).st_dev)

    def _host_folders(self) -> None:
        for entry in os.scandir("/"):
            place = self._at(entry.path)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)
            elif entry.is_dir() and entry.name not in _OWN:
                os.mkdir(place)
                _bind_read_only(entry.path, place)
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

    def _etc(self, source: str) -> None:
        """The host's /etc as links, with the pod's own files in their places."""
        os.mkdir(self._at(_POD))
        _bind_read_only(source, self._at(_POD))
        for path, name in _POD_FILES.items():
            if os.path.exists(f"{source}/{name}"):
                place = self._place(path, folder=False)
                os.unlink(place)
                os.symlink(f"{_POD}/{name}", place)

    def _place(self, target: str, *, folder: bool) -> str:
        """Have a file or folder to mount on at ``target``; its place below the root in the making."""
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
        """The path with the container's own links followed, but not those that stand for the host's entries."""
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
        """Have the folder ``path`` as one of the container's own, in which entries can be made."""
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
        """Keep the host's folder ``path`` reachable for links into it; False where the container has none of it."""
        if not os.path.isdir(path) or any(path == own or path.startswith(f"{own}/") for own in _PRIVATE):
            return False
        kept = self._at(f"{_HOST}{path}")
        if not os.path.isdir(kept):
            os.makedirs(kept)
            _bind_read_only(path, kept)
        return True


def _source(mount: dict[str, Any]) -> str:
    """What to mount; ``below`` is a folder of a file system that only containers see, made where it is missing.

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
