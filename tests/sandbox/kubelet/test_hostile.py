"""A job against the machine that it runs on: nothing that the hostile trainer tries may lead anywhere."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.sandbox

REPOSITORY = Path(__file__).resolve().parents[3]
TRAINER = Path(__file__).with_name("hostile.py")
HOME = pwd.getpwuid(os.getuid()).pw_dir


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A place for the sandbox that is not below /tmp, which pods have of their own anyway."""
    made = REPOSITORY / ".encamp" / f"hostile-{os.getpid()}"
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def camp(folder: Path, opened_camp: Callable[[Path], Any]) -> Iterator[Any]:
    with ExitStack() as stack:
        yield stack.enter_context(opened_camp(folder / "sb"))


def given(camp: Any) -> dict[str, Any]:
    """What the trainer is told: more than a real one would know."""
    layout = camp.cluster.layout
    ports = {name: port for name, port in dataclasses.asdict(layout.ports).items() if port}
    own = [one.address for card in psutil.net_if_addrs().values() for one in card if one.family.name == "AF_INET"]
    home = [str(path) for path in sorted(Path(HOME).glob(".*"))[:20] if path.is_file()]
    etc = [path for path in ("/etc/shadow", "/etc/gshadow") if os.access(path, os.R_OK)]
    return {
        "ports": ports,
        "own": own,
        "files": [
            *(str(layout.root / name) for name in ("sandbox.json", "access-token", "admin.kubeconfig", "pki/ca.key")),
            str(layout.cloud_database),
            str(REPOSITORY / "README.md"),
            *home,
            *etc,
        ],
        "folders": [str(layout.root), str(layout.pki), HOME, "/home", "/var/lib", str(REPOSITORY)],
        # What stands for the image lies there, and the volumes that the pod asked for.
        "needed": [".venv", "infra", ".encamp", "beside", "mine", ".cache", ".pyenv", ".local", "sb", "pki"],
        "marks": ["encamp_sandbox", "kube-apiserver", "etcd"],
        "pids": [camp.cluster.kubelet_pid(), os.getpid(), os.getppid()],
        "gateway": "10.8.0.1",
    }


def test_a_hostile_trainer_stays_in_its_pod(camp: Any, folder: Path) -> None:
    cluster = camp.cluster
    data = {"trainer.py": TRAINER.read_text(), "given.json": json.dumps(given(camp))}
    text = {"metadata": {"name": "hostile"}, "data": data}
    cluster.create("/api/v1/namespaces/trials/configmaps", text)
    # A volume's place has the folder around it replaced by links to what the host has there.
    places = ["/trainer", f"{HOME}/mine", f"{folder.parent}/beside", f"{cluster.layout.pki}/mine", "/opt/mine"]
    kinds: list[dict[str, Any]] = [{"configMap": {"name": "hostile"}}, *({"emptyDir": {}} for _ in places[1:])]
    volumes = [{"name": f"v{number}", **kind} for number, kind in enumerate(kinds)]
    mounts = [{"name": f"v{number}", "mountPath": place} for number, place in enumerate(places)]
    command = ["python", "/trainer/trainer.py", "/trainer/given.json"]
    cluster.run("hostile", "", volumes=volumes, container={"command": command, "volumeMounts": mounts})
    ended = cluster.terminated("hostile")
    said = cluster.log("hostile")
    assert "BROKEN" not in said, "\n".join(line for line in said.splitlines() if "BROKEN" in line)
    assert ended["exitCode"] == 0, said[-3000:]
    assert "0 led out" in said
    # The pod's log names what the proxy was asked for.
    assert re.search(r"^encamp: no connection to 127.0.0.1:\d+: pods reach ports 80 and 443", said, re.MULTILINE)


def test_the_log_names_what_was_refused_and_why(camp: Any) -> None:
    script = "from urllib.request import build_opener, ProxyHandler\n"
    script += "build_opener(ProxyHandler({'https': 'http://10.8.0.1:3128'})).open('https://localhost/', timeout=9)"
    camp.cluster.run("asks", "", container={"command": ["python", "-c", script]})
    assert camp.cluster.terminated("asks")["exitCode"] == 1
    said = camp.cluster.log("asks")
    assert re.search(r"^encamp: no connection to localhost:443: (127.0.0.1|::1) is this machine$", said, re.MULTILINE)
    assert "403 Forbidden" in said


def test_pip_reaches_its_index_and_the_log_names_it(camp: Any) -> None:
    """The ordinary client's default index; where this machine has no way there, the proxy still lets it try."""
    script = "python -m pip download --no-deps --no-binary :none: -d /tmp/got six==1.17.0"
    camp.cluster.run("packages", script)
    camp.cluster.terminated("packages")
    said = camp.cluster.log("packages")
    assert "encamp: connected to pypi.org:443" in said or "pypi.org:443: it cannot be reached" in said
