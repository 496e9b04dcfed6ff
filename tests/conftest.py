"""Options and fixtures that every room's tests share."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import HealthCheck, settings

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.rest import GoogleClient
from encamp.jobs import target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.camp import Camp


# The tests' own gRPC servers run in threads while other tests start processes; what is started execs at once.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# The engine and the control plane are Go programs: with memory to spare they compute less.
os.environ.setdefault("GOGC", "400")

# How long drawn data takes says something of the machine alone.
settings.register_profile("however busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("however busy")

# A sandbox that a test starts ends with this process, also where that is killed before its fixtures can end anything.
os.environ["ENCAMP_SANDBOX_WITH"] = str(os.getpid())

# A shell starts what it puts into the background with signals ignored, and what tests start would inherit that.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens", action="store_true", help="write tests/golden/ anew from what the code does now"
    )


#: What takes longest begins first, so that two workers end together.
_ORDER = (
    "faults",
    "strategies",
    "sandbox/kubelet",
    "main_job",
    "sandbox/kubernetes",
    "sandbox/test_lifecycle.py",
    "sandbox",
)
#: What one worker takes together, rooms or files, because it shares a control plane, a process of programs, or the
#: sandbox of the whole jobs with its environment up (in `make test`; the many files of `make test-jobs` are spread).
#: Elsewhere a worker takes a file.
_TOGETHER = {
    "camp": (
        "main_job/test_example.py",
        "property/test_api_server.py",
        "property/test_access_rules.py",
        "api/test_serve.py",
    ),
    "components": ("components/",),
    "kubelet": tuple(f"sandbox/kubelet/test_{name}.py" for name in ("jobsets", "nodes", "pods")),
    "kubernetes": ("sandbox/kubernetes/",),
}
_COLLECTED = pytest.StashKey[frozenset[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest rooms first, and note which files were collected before any test is left out."""
    config.stash[_COLLECTED] = frozenset(item.nodeid.partition("::")[0] for item in items)
    items.sort(key=lambda item: next((at for at, room in enumerate(_ORDER) if _is_in(item.nodeid, room)), len(_ORDER)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` a room whose files share something stays on one worker too."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - single tests need no workers

    class LoadRoomScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            shared = (name for name, parts in _TOGETHER.items() if any(_is_in(nodeid, part) for part in parts))
            return next(shared, file)

    return LoadRoomScheduling(config, log)


def _is_in(nodeid: str, room: str) -> bool:
    return nodeid.partition("::")[0].removeprefix("tests/").startswith(room)


@pytest.fixture
def collected(pytestconfig: pytest.Config) -> frozenset[str] | None:
    """Files of which this very process has collected tests, None where it was asked for some of them only."""
    asked = {pytestconfig.rootpath / one for one in pytestconfig.args}
    return pytestconfig.stash[_COLLECTED] if asked == {Path(__file__).parent} else None


@pytest.fixture
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    """Whether the golden files are to be written anew."""
    return bool(request.config.getoption("--rewrite-goldens"))


def _module(name: str, file: str) -> Any:
    """A module of the tests; they are files, not packages, so it is loaded by its path."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def _servers() -> Any:
    return _module("encamp_test_servers", "cloud/servers.py")


def _camps() -> Any:
    return _module("encamp_test_camp", "camp.py")


@pytest.fixture(scope="session")
def load_module() -> Callable[[str, str], Any]:
    """Loads a module of the tests: its name, and its file below ``tests/``."""
    return _module


@pytest.fixture(scope="session")
def shared_camp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Camp]:
    """The one sandbox of this test process, with its environment up; for fixtures that live longer than a test."""
    with _camps().opened_camp(tmp_path_factory.mktemp("camp") / "sb", tmp_path_factory.mktemp("said")) as camp:
        yield camp


@pytest.fixture
def camp(shared_camp: Camp, monkeypatch: pytest.MonkeyPatch) -> Camp:
    """The shared sandbox; the test itself asks its cloud too."""
    shared_camp.enter(monkeypatch)
    return shared_camp


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a stack reads, in which a test may change stacks and program."""
    copied: Path = _camps().copied_checkout(tmp_path / "checkout")
    return copied


@pytest.fixture(scope="session")
def camps() -> Any:
    """The module ``camp.py``, for tests with a sandbox of their own."""
    return _camps()


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., str]:
    """Writes a job file of one master and two workers that act as told; gives its path."""
    write: Callable[..., str] = functools.partial(_camps().write_job, tmp_path)
    return write


@pytest.fixture
def google() -> Iterator[Any]:
    with _servers().GoogleServer() as server:
        yield server


@pytest.fixture
def client(google: Any) -> Iterator[GoogleClient]:
    with requests.Session() as session:
        yield GoogleClient(session, environ=google.environ(), sleep=lambda _: None)


@pytest.fixture
def committed(google: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The committed environment of the sandbox without the sandbox, for commands and calls in this process."""
    google.add_bucket("sandbox-encamp-artifacts")
    for key, value in google.environ().items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("ENCAMP_STATE_DIR", str(tmp_path))
    for key in ("ENCAMP_RECORD_URL", "ENCAMP_ENVIRONMENT"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr(target, "_enter_sandbox", lambda: None)


@pytest.fixture
def kubernetes() -> Iterator[Any]:
    with _servers().KubernetesServer() as server:
        yield server


@pytest.fixture
def cluster(kubernetes: Any) -> Iterator[Cluster]:
    opened = Cluster(kubernetes.kubeconfig(), sleep=lambda _: None)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def until() -> Any:
    return _servers().until
