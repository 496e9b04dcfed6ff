"""The reaper that an environment installs in its own cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def test_an_environment_with_a_reaper_is_what_its_golden_says(*, rewrite_goldens: bool) -> None:
    stack = "environment/with-a-reaper"
    ended = subprocess.run(
        [sys.executable, str(HERE / "declare_stack.py"), stack],
        env={"PYTHONPATH": str(HERE.parents[1] / "infra"), "PATH": "", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    resources: dict[str, Any] = json.loads(ended.stdout)[stack]
    found = {key: inputs for key, inputs in resources.items() if "reaper" in key}
    golden = HERE / "golden" / "reaper.yaml"
    written = yaml.safe_dump(found, sort_keys=True, width=110, allow_unicode=True)
    if rewrite_goldens:
        golden.write_text(written)
    assert yaml.safe_load(golden.read_text()) == yaml.safe_load(written)
    (pod,) = found["kubernetes:batch/v1:CronJob reaper"]["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert pod["command"] == ["encamp", "reap", "--remote", "--environment", stack]
    # What may end jobs may make none: no right to create but that of sealed logs.
    granted = found["gcp:projects/iAMCustomRole:IAMCustomRole reaper"]["permissions"]
    assert [one for one in granted if one.endswith((".create", ".actAs"))] == ["storage.objects.create"]
    verbs = {
        verb for rule in found["kubernetes:rbac.authorization.k8s.io/v1:Role reaper"]["rules"] for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "delete"}
