"""Whole jobs of an environment that tells people of their ends, by webhook and mail; no secret stays behind."""

from __future__ import annotations

from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml
from tests.notices.services import TOKEN, MailServer, Webhook, mail_server, webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

NOTICES = {
    "targets": [
        {"name": "team-chat"},
        {"name": "oncall", "states": ["FAILED"]},
        {"name": "mail", "everyJob": False},
    ]
}


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[Webhook, Webhook, MailServer]]:
    """The team's chat, a pager that refuses every message, and a mail server."""
    with webhook() as team, webhook() as oncall, mail_server() as mail:
        oncall.status = 404
        yield team, oncall, mail


@pytest.fixture(scope="module")
def told_camp(
    camps: Any, services: tuple[Webhook, Webhook, MailServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Camp]:
    checkout = camps.copied_checkout(tmp_path_factory.mktemp("notices") / "checkout")
    stack = checkout / "stacks" / "Pulumi.sandbox.yaml"
    written = yaml.safe_load(stack.read_text())
    written["config"]["encamp:environment"]["notices"] = NOTICES
    stack.write_text(yaml.safe_dump(written))
    root, said = tmp_path_factory.mktemp("camp") / "sb", tmp_path_factory.mktemp("said")
    with camps.opened_camp(root, said, checkout=checkout) as camp:
        team, oncall, mail = services
        addresses = {"TEAM_CHAT": team.address, "ONCALL": oncall.address, "MAIL": mail.address}
        camp.environment.update({f"ENCAMP_NOTICE_{name}": address for name, address in addresses.items()})
        yield camp


@pytest.fixture
def camp(told_camp: Camp, monkeypatch: pytest.MonkeyPatch) -> Camp:
    """The sandbox whose environment has notices instead of the shared one."""
    told_camp.enter(monkeypatch)
    return told_camp


@pytest.fixture
def team(services: tuple[Webhook, Webhook, MailServer]) -> Webhook:
    return services[0]


def asking(path: str, *notices: dict[str, Any]) -> str:
    """The job file with notices of its own."""
    written = yaml.safe_load(Path(path).read_text())
    written["encamp"]["notices"] = list(notices)
    Path(path).write_text(yaml.safe_dump(written))
    return path


def holds(folder: Path) -> list[str]:
    """Files below a folder that hold the services' token."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [str(path) for path in files if TOKEN.encode() in path.read_bytes()]


def test_a_test_message_goes_to_every_target(camp: Camp, services: tuple[Webhook, Webhook, MailServer]) -> None:
    team, _, mail = services
    said = camp.encamp("notices", "test", code=3)
    rows = {line.split()[0]: line for line in said.splitlines()}
    assert "sent" in rows["team-chat"]
    assert "every end of every job" in rows["team-chat"]
    assert "not sent: the service answered 404" in rows["oncall"]
    assert "FAILED of every job" in rows["oncall"]
    assert "every end of jobs that name it" in rows["mail"]
    assert [one["title"] for one in team.taken] == ["encamp: test from sandbox"]
    assert len(mail.mails) == 1
    assert "sent" in camp.encamp("notices", "test", "mail")
    assert "declares team-chat, oncall, mail" in camp.encamp("notices", "test", "nobody", code=2)


def test_a_job_that_succeeds_is_told_once_and_to_whom_it_names(
    camp: Camp, job: Callable[..., str], services: tuple[Webhook, Webhook, MailServer]
) -> None:
    team, _, mail = services
    before = len(mail.mails)
    path = asking(job("chief-0=exit:0:3"), {"target": "mail", "states": ["SUCCEEDED"]})
    assert "mail: SUCCEEDED" in camp.encamp("plan", path)
    said = camp.encamp("run", path, "--job-id", "told_succeeded")
    assert "notice to team-chat: sent" in said
    assert "team-chat (sent)" in said
    (taken,) = team.about("told_succeeded")
    assert (taken["title"], taken["type"]) == ("encamp: told_succeeded SUCCEEDED", "success")
    assert "logs: gs://sandbox-encamp-artifacts/jobs/told_succeeded/logs/" in taken["message"]
    assert "cost: about" in taken["message"]
    (sent,) = mail.mails[before:]
    assert message_from_string(sent)["Subject"] == "encamp: told_succeeded SUCCEEDED"
    assert [(one["target"], one["sent"]) for one in camp.receipt("told_succeeded")["notices"]] == [
        ("mail", True),
        ("team-chat", True),
    ]
    camp.assert_nothing_left("told_succeeded")


def test_a_job_that_fails_is_told_and_a_service_that_refuses_changes_nothing(
    camp: Camp, job: Callable[..., str], team: Webhook
) -> None:
    said = camp.encamp("run", job("chief-0=import:lightgbm"), "--job-id", "told_failed", code=1)
    assert "notice to oncall: not sent, the service answered 404" in said
    (taken,) = team.about("told_failed")
    assert taken["type"] == "failure"
    assert "why: The replica master 0 exited with a non-zero status of 1. ModuleNotFoundError" in taken["message"]
    told = {one["target"]: one for one in camp.receipt("told_failed")["notices"]}
    assert (told["oncall"]["sent"], told["oncall"]["why"]) == (False, "the service answered 404")
    camp.assert_nothing_left("told_failed")


def test_a_job_whose_driver_died_is_told_by_whoever_reaps_it(
    camp: Camp, job: Callable[..., str], team: Webhook
) -> None:
    command = camp.start("run", job("chief-0=exit:0:8"), "--job-id", "told_reaped")
    command.until("the job is RUNNING")
    family = [driver := psutil.Process(command.process.pid), *driver.children(recursive=True)]
    for process in family:
        process.kill()
    command.process.wait()
    assert team.about("told_reaped") == []
    assert "told_reaped" in camp.encamp("reap", "--job", "told_reaped", "--wait")
    (taken,) = team.about("told_reaped")
    assert taken["title"] == "encamp: told_reaped SUCCEEDED"
    camp.encamp("reap", "--job", "told_reaped")
    assert len(team.about("told_reaped")) == 1
    camp.assert_nothing_left("told_reaped")


def test_no_address_stays_anywhere(camp: Camp) -> None:
    """Comes last: the sandbox's folder holds record, states, storage and logs of all jobs above."""
    assert camp.storage().read("sandbox-encamp-artifacts", "jobs/told_failed/receipt.json") is not None
    assert holds(camp.layout.root) == []
    assert holds(camp.checkout / "stacks") == []
    assert holds(camp.outputs) == []
