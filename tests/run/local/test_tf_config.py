"""TF_CONFIG of the old client's flags, as measured on gcloud 528.0.0, but for roles without replicas."""

from __future__ import annotations

import json
from pathlib import Path

from encamp.run.local.tf_config import DEFAULT_COUNTS, Host, flag_replicas, ports_needed
from encamp.spec.roles import COUNTED_ROLES, Role

HOST = Host(Path("/usr/bin/python3"), Path("/src"), {"PATH": "/bin", "PYTHONUNBUFFERED": "0"})
ARGS = ("--epochs", "3", "--job-dir", "/out")


def config(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found


def test_a_single_process_has_an_empty_cluster() -> None:
    (alone,) = flag_replicas("trainer.task", ARGS, HOST, counts=None, primary="chief", ports=())
    assert alone.argv == ("/usr/bin/python3", "-m", "trainer.task", *ARGS)
    assert alone.cwd == Path("/src")
    assert alone.primary
    assert config(alone.env["TF_CONFIG"]) == {
        "job": {"job_name": "trainer.task", "args": list(ARGS)},
        "task": {},
        "cluster": {},
        "environment": "cloud",
    }


def test_ports_go_to_the_primary_then_parameter_servers_then_workers() -> None:
    counts = {Role.WORKER: 2, Role.PARAMETER_SERVER: 1, Role.EVALUATOR: 1}
    assert ports_needed(counts) == 4
    found = flag_replicas("m", ARGS, HOST, counts=counts, primary="chief", ports=(5, 6, 7, 8))
    cluster = {
        "chief": ["localhost:5"],
        "ps": ["localhost:6"],
        "worker": ["localhost:7", "localhost:8"],
    }
    configs = [config(replica.env["TF_CONFIG"]) for replica in found]
    assert all(each["cluster"] == cluster for each in configs)
    assert [each["task"] for each in configs] == [
        {"type": "chief", "index": 0},
        {"type": "ps", "index": 0},
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
        {"type": "evaluator", "index": 0},
    ]
    assert [(replica.role, replica.index) for replica in found if replica.primary] == [(Role.MASTER, 0)]


def test_roles_without_replicas_are_left_out_and_the_primary_may_be_called_master() -> None:
    counts = dict.fromkeys(COUNTED_ROLES, 0)
    (alone,) = flag_replicas("m", (), HOST, counts=counts, primary="master", ports=(5,))
    found = config(alone.env["TF_CONFIG"])
    assert found["cluster"] == {"master": ["localhost:5"]}
    assert found["task"] == {"type": "master", "index": 0}


def test_what_the_caller_set_stays() -> None:
    (alone,) = flag_replicas("m", (), HOST, counts=None, primary="chief", ports=())
    assert alone.env["PATH"] == "/bin"
    assert alone.env["PYTHONUNBUFFERED"] == "0"


def test_every_counted_role_has_a_default_count() -> None:
    assert DEFAULT_COUNTS.keys() == set(COUNTED_ROLES)
