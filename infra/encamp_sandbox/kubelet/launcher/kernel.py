"""The system calls that Python's standard library lacks (before 3.12, or altogether)."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_UNBINDABLE = 0x20000
MS_PRIVATE = 0x40000
MS_NOATIME = 0x400
_MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
#: What container runtimes leave to a container (containerd, pkg/oci/spec.go), but for raw sockets: by them a pod could
#: take the address of another, and addresses say here who a pod is. Numbers: linux/capability.h.
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31})
_LAST_CAPABILITY = "/proc/sys/kernel/cap_last_cap"

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Leave the namespaces named by ``flags`` for new ones. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace behind an open file. Raises OSError."""
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """Mount something; the error names the target. Raises OSError."""
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    options = ctypes.c_char_p(arguments[3])
    _check(_libc.mount(arguments[0], arguments[1], arguments[2], ctypes.c_ulong(flags), options), f"mount on {target}")


def mount_fuse(source: str, target: str, flags: int) -> int:
    """Mount a FUSE file system that is still to be served; returns the open /dev/fuse that its server answers on.

    The device has to be opened in the user namespace that the mount belongs to. ``allow_other`` lets in everybody of
    that namespace. Options as GKE's driver sets them (gcs-fuse-csi-driver, pkg/csi_mounter). Raises OSError.
    """
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    mount(source, target, "fuse", flags | MS_NOSUID | MS_NODEV, options)
    return device


def make_read_only(target: str) -> None:
    """Make a mount and all mounts below it read-only (Linux 5.12), or the one alone where the call is unknown."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    if _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, size) == 0:
        return
    kept = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC | 0x400 | 0x800 | 0x200000)
    mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def pivot_root(new_root: str) -> None:
    """Make a mount point the root and drop the old root, with all that is mounted there."""
    os.chdir(new_root)
    _check(_libc.syscall(_SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount of the old root")
    os.chdir("/")


def drop_capabilities() -> None:
    """Leave a container what container runtimes leave it: it must not mount, or undo what was mounted for it.

    Raises:
        OSError: the kernel does not let us.
    """
    with open(_LAST_CAPABILITY, encoding="ascii") as file:  # noqa: PTH123 - importing pathlib would slow every start
        last = int(file.read())
    for number in range(last + 1):
        if number not in _KEPT_CAPABILITIES:
            _check(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), "prctl")
    _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl")


def die_with_parent(parent: int, signal_number: int = 9) -> None:
    """Make the kernel send a signal when the parent ends; ends at once if ``parent`` is no longer the parent.

    A forked child, and a process that took new credentials, must say so again.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal_number)
