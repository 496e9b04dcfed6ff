"""Whether this machine lets pods have file systems of their own (FUSE): tried, and told to pods and ``doctor``.

A mount in a user namespace asks for no rights but for one: to open /dev/fuse, which most systems give everybody
(fuse(4); Linux 4.18 and newer let user namespaces mount).
"""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass

DEVICE = "/dev/fuse"


@dataclass(frozen=True)
class FuseProblem:
    """Why FUSE is missing, and a remedy."""

    text: str
    remedy: str


def look_for_fuse(device: str = DEVICE) -> FuseProblem | None:
    """Open the device as a mount does; None if that works."""
    if sys.platform != "linux":
        return FuseProblem(f"{sys.platform} has no FUSE that pods could use", "run the sandbox on Linux")
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO)
        if missing:
            remedy = f"sudo modprobe fuse; in a container, start it with --device {device}"
        elif error.errno == errno.EACCES:
            remedy = f"sudo chmod 666 {device}, as most systems have it"
        else:
            remedy = f"in a container, start it with --device {device}"
        return FuseProblem(f"{device} cannot be opened: {error.strerror}", remedy)
    return None
