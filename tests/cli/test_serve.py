"""``encamp serve``: what it is asked for becomes what is served, and what would be unsafe is refused before."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from encamp.api.dispatcher import DRIVERS
from encamp.api.identity import USUAL_CLIENTS
from encamp.cli import serve
from encamp.cli.serve import command, exports
from encamp.errors import UsageError
from encamp.plan.environment.api import PORT, api_objects
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import EnvironmentSpec, parse_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.api.service import ServiceOptions

FILE = Path(__file__).parents[1] / "components" / "environments" / "with-an-api.yaml"


def spec(**changed: Any) -> EnvironmentSpec:
    return parse_environment(yaml.safe_load(FILE.read_text()) | changed, project=None, source="x")


def sandbox() -> EnvironmentSpec:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    return parse_environment(data, project="sandbox-x", source="x")


class Served:
    """What would be served."""

    def __init__(self) -> None:
        self.spec = spec()
        self.options: ServiceOptions | None = None
        self.addresses: tuple[str, ...] = ()

    def enter(self, _: str) -> EnvironmentSpec:
        return self.spec

    @contextlib.contextmanager
    def open(self, _: EnvironmentSpec, __: Any, options: ServiceOptions) -> Iterator[None]:
        self.options = options
        yield None

    def serve(self, _: Any, listening: Any, *, started: Any, **__: Any) -> None:
        self.addresses = listening.addresses
        started()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Served:
    made = Served()
    monkeypatch.setenv("ENCAMP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("encamp.jobs.target.enter", made.enter)
    monkeypatch.setattr("encamp.api.service.opened_service", made.open)
    monkeypatch.setattr("encamp.api.server.serve", made.serve)
    return made


def run(served: Served, *words: str) -> str:
    ran = CliRunner().invoke(command, ["--port", "0", *words], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert served.options is not None
    return str(ran.stdout)


def test_the_environments_block_says_how_many_are_driven_and_whose_tokens_are_taken(served: Served) -> None:
    run(served)
    assert served.options is not None
    assert served.options.drivers == 8
    identity = served.options.identity
    assert identity is not None
    assert (identity.audiences, identity.clients, identity.admins) == (
        ("https://jobs.example.com",),
        USUAL_CLIENTS,
        frozenset(),
    )


def test_flags_go_before_the_block(served: Served) -> None:
    run(served, "--drivers", "2", "--audience", "https://other.example.com", "--in-cluster")
    assert served.options is not None
    assert (served.options.drivers, served.options.in_cluster) == (2, True)
    assert served.options.identity is not None
    assert served.options.identity.audiences == ("https://other.example.com",)


def test_without_a_block_it_has_its_own_numbers(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.spec = sandbox()
    monkeypatch.setattr("encamp.cloud.whoami.google_account", lambda: "admin@sandbox-x.iam.gserviceaccount.com")
    run(served)
    assert served.options is not None
    assert served.options.drivers == DRIVERS == serve.DEFAULT_DRIVERS
    # Who has the sandbox's own key may do everything in it; elsewhere nobody may.
    assert served.options.identity is not None
    assert served.options.identity.admins == {"admin@sandbox-x.iam.gserviceaccount.com"}


def test_it_listens_on_loopback_unless_it_is_told_otherwise(served: Served) -> None:
    run(served)
    assert [address.partition(":")[0] for address in served.addresses] == ["127.0.0.1"]
    assert PORT == serve.DEFAULT_PORT


def test_nobody_is_let_in_from_elsewhere_without_credentials(served: Served) -> None:
    with pytest.raises(UsageError, match="no credentials"):
        CliRunner().invoke(command, ["--host", "0.0.0.0", "--no-credentials"], catch_exceptions=False)  # noqa: S104
    assert served.options is None
    run(served, "--no-credentials")
    assert served.options is not None
    assert served.options.identity is None


def test_calls_are_written_down_beside_the_record_or_where_it_is_said(served: Served, tmp_path: Path) -> None:
    run(served)
    assert served.options is not None
    assert served.options.audit == tmp_path / "state" / "audit.jsonl"
    run(served, "--audit-log", str(tmp_path / "calls"))
    assert served.options.audit == tmp_path / "calls"
    # What takes entries from stdout takes nothing else from there.
    assert run(served, "--audit-log", "-") == ""


@pytest.mark.parametrize("is_open", [False, True])
def test_a_shell_takes_what_is_printed_for_it(served: Served, *, is_open: bool) -> None:
    printed = run(served, *(["--no-credentials"] if is_open else []))
    shown = subprocess.check_output(["/bin/sh", "-eu", "-c", f"{printed}\nexec /usr/bin/env"], text=True, env={})
    values = dict(line.split("=", 1) for line in shown.splitlines())
    url = f"http://{served.addresses[0]}"
    assert values["ENCAMP_API_URL"] == url
    for api in ("ML", "LOGGING"):
        # gcloud refuses an override that does not end in a slash.
        assert values[f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}"] == f"{url}/"
    assert values["CLOUDSDK_CORE_PROJECT"] == "my-lab-project"
    assert ("CLOUDSDK_AUTH_DISABLE_CREDENTIALS" in values) == is_open


def test_a_sandboxs_own_variables_come_first() -> None:
    lines = list(exports(sandbox(), "http://127.0.0.1:1", credentials=True))
    # They lead Cloud Logging to the sandbox's own.
    assert lines.index('eval "$(encamp sandbox env)"') < next(
        number for number, line in enumerate(lines) if "OVERRIDES_LOGGING" in line
    )


def test_what_pods_of_the_cluster_run_is_this_command() -> None:
    plan = plan_environment(spec()).api
    assert plan is not None
    (deployment,) = [one for one in api_objects(plan, "prod") if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    program, verb, *words = container["command"]
    assert (program, verb) == ("encamp", "serve")
    found = command.make_context("serve", list(words)).params
    assert (found["environment"], found["port"], found["in_cluster"]) == ("prod", PORT, True)
    assert (found["audit_log"], found["no_credentials"]) == ("-", False)


@pytest.mark.slow
def test_its_help_starts_no_server() -> None:
    script = (
        "import sys; from encamp.cli.serve import command; command.make_context('serve', ['--port', '0'])\n"
        "heavy = {'starlette', 'uvicorn', 'sqlalchemy', 'cryptography', 'pydantic'} & sys.modules.keys()\n"
        "print(*sorted(heavy))"
    )
    path = str(Path(__file__).parents[2] / "infra")
    assert subprocess.check_output([sys.executable, "-c", script], env={"PYTHONPATH": path}, text=True) == "\n"
