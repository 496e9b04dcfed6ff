"""``launcher VERB FILE``: does what the JSON object in FILE says; descriptors in it are numbers of inherited files.

``node``: ``{channel, gateway, prefix_length, further, listen: [[address, port]]}``. Sends over the unix socket
``channel`` the user and network namespace, its packet filter, and one listening socket for each of ``listen``.

``connect``: ``{channel, user, net, address, port}``. Sends a connection to an address of that network.

``pod``: ``{channel, user, net, hostname, interface, address, prefix_length, gateway}``. Sends the pod's user,
network, UTS and IPC namespace, and its packet filter.

``mounts``: ``{channel, user, places: [{source, target, flags}]}``. Mounts a FUSE file system on each place, in a mount
namespace of the pod's, and sends this namespace and the open /dev/fuse of each; nobody serves them yet.

``container``: ``{user, net, uts, ipc, mnt?, status, root: {folder, etc, hidden, kept, mounts}, argv, env, cwd}``.
Runs the command as process 1 of its own process and mount namespaces, with a root made of what ``mnt`` sees, passes
signals on to it and ends as it ended (128 + n for a signal, as container runtimes report it). What goes wrong before
the command runs is written to ``status``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp_sandbox.kubelet.launcher import kernel, network, nftables
from encamp_sandbox.kubelet.launcher.rootfs import Root

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

#: Exit code that container runtimes report for a container that could not be started.
START_ERROR = 128
_CONNECT_SECONDS = 5.0
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def node(spec: dict[str, Any]) -> None:
    """Make the network that all pods hang on."""
    _own_user_namespace(kernel.CLONE_NEWNET)
    network.make_bridge(spec["gateway"], spec["prefix_length"], spec["further"])
    sockets = [socket.create_server((address, port), backlog=256) for address, port in spec["listen"]]
    files = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "net")]
    with nftables.open_filter() as packet_filter:
        _hand_over(spec["channel"], [*files, packet_filter.fileno(), *(server.fileno() for server in sockets)])


def connect(spec: dict[str, Any]) -> None:
    """Connect to a pod from where it is reached."""
    kernel.setns(spec["user"], kernel.CLONE_NEWUSER)
    kernel.setns(spec["net"], kernel.CLONE_NEWNET)
    with socket.create_connection((spec["address"], spec["port"]), timeout=_CONNECT_SECONDS) as connection:
        _hand_over(spec["channel"], [connection.fileno()])


def pod(spec: dict[str, Any]) -> None:
    """Make the namespaces of a pod, attached to the node's network."""
    kernel.setns(spec["user"], kernel.CLONE_NEWUSER)
    kernel.setns(spec["net"], kernel.CLONE_NEWNET)
    ready, ready_end = os.pipe()
    attached, attached_end = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        kernel.die_with_parent(parent)
        _own_user_namespace(kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
        os.write(ready_end, b".")
        os.close(attached_end)
        if os.read(attached, 1) != b".":
            os._exit(1)
        socket.sethostname(spec["hostname"])
        network.configure_pod(spec["address"], spec["prefix_length"], spec["gateway"])
        files = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "net", "uts", "ipc")]
        with nftables.open_filter() as packet_filter:
            _hand_over(spec["channel"], [*files, packet_filter.fileno()])
        os._exit(0)
    os.close(ready_end)
    if os.read(ready, 1) == b".":
        peer = os.open(f"/proc/{child}/ns/net", os.O_RDONLY)
        network.attach(spec["interface"], peer)
        os.write(attached_end, b".")
    os.close(attached_end)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def mounts(spec: dict[str, Any]) -> None:
    """Make the file systems that the containers of a pod share and others serve."""
    kernel.setns(spec["user"], kernel.CLONE_NEWUSER)
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    flags = {"ro": kernel.MS_RDONLY, "noexec": kernel.MS_NOEXEC, "noatime": kernel.MS_NOATIME}
    devices = [
        kernel.mount_fuse(place["source"], place["target"], sum(flags[one] for one in set(place["flags"])))
        for place in spec["places"]
    ]
    _hand_over(spec["channel"], [os.open("/proc/self/ns/mnt", os.O_RDONLY), *devices])


def container(spec: dict[str, Any]) -> None:
    """Run a container's command and end as it ends."""
    supervisor = os.getppid()
    for kind, flag in (
        ("user", kernel.CLONE_NEWUSER),
        ("net", kernel.CLONE_NEWNET),
        ("uts", kernel.CLONE_NEWUTS),
        ("ipc", kernel.CLONE_NEWIPC),
    ):
        kernel.setns(spec[kind], flag)
        os.close(spec[kind])
    if "mnt" in spec:
        kernel.setns(spec["mnt"], kernel.CLONE_NEWNS)
        os.close(spec["mnt"])
    kernel.die_with_parent(supervisor)
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
    alive, alive_end = os.pipe()  # in a new process namespace the parent's number cannot be asked for
    child = os.fork()
    if child == 0:
        os.close(alive_end)
        _become(spec, alive)
    os.close(spec["status"])
    for number in _FORWARDED:
        signal.signal(number, _forward_to(child))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(code if code >= 0 else START_ERROR - code)


def _become(spec: dict[str, Any], alive: int) -> None:
    """Process 1: set up its root and execute the command; never returns."""
    os.set_inheritable(spec["status"], False)
    try:
        kernel.die_with_parent(0)  # 0: the parent is outside of our process namespace
        os.set_blocking(alive, False)
        with suppress(BlockingIOError):
            if os.read(alive, 1) == b"":
                os._exit(START_ERROR)
        Root(spec["root"]["folder"]).build(spec["root"])
        Path(spec["cwd"]).mkdir(parents=True, exist_ok=True)
        os.chdir(spec["cwd"])
        os.umask(0o022)
        kernel.drop_capabilities()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and an ignored one stays so
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606
    except OSError as error:
        place = error.filename or spec["argv"][0]
        os.write(spec["status"], f"{place}: {error.strerror}".encode())
    except Exception as error:  # noqa: BLE001 - a forked child must not go on with its parent's work
        os.write(spec["status"], f"{type(error).__name__}: {error}".encode())
    os._exit(START_ERROR)


def _forward_to(child: int) -> Callable[[int, FrameType | None], None]:
    def forward(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number)

    return forward


def _own_user_namespace(others: int) -> None:
    """Become root of a new user namespace, with further new namespaces that belong to it."""
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | others)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _hand_over(channel: int, files: list[int]) -> None:
    with socket.socket(fileno=channel) as connection:
        socket.send_fds(connection, [b"."], files)


def main() -> None:
    """Run the command line; a failure is one line on standard error and exit code 1."""
    verb, file = sys.argv[1:]
    try:
        verbs = {"node": node, "connect": connect, "pod": pod, "mounts": mounts, "container": container}
        verbs[verb](json.loads(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        sys.exit(f"{error.strerror}{place}")


if __name__ == "__main__":
    main()
