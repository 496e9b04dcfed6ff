from __future__ import annotations

from typing import Any

import pytest

from encamp.run.logs.last_words import LONGEST_REASON, last_words, requirement_hint
from encamp.run.logs.replicas import read_replica

TRACEBACK = (
    "epoch 1",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.8/runpy.py", line 193, in _run_module_as_main',
    '    return _run_code(code, main_globals, None, "__main__", mod_spec)',
    "ModuleNotFoundError: No module named 'lightgbm'",
)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (TRACEBACK, "ModuleNotFoundError: No module named 'lightgbm'"),
        (TRACEBACK[2:], "ModuleNotFoundError: No module named 'lightgbm'"),
        ((*TRACEBACK[:4], "KeyboardInterrupt"), "KeyboardInterrupt"),
        ((*TRACEBACK[:2], "loss: 0.3", *TRACEBACK[2:]), "ModuleNotFoundError: No module named 'lightgbm'"),
        ((*TRACEBACK[:4], "worker-1 is here", *TRACEBACK[4:]), "ModuleNotFoundError: No module named 'lightgbm'"),
        ((*TRACEBACK[2:4], "worker-1 is here", *TRACEBACK[4:]), "ModuleNotFoundError: No module named 'lightgbm'"),
        ((*TRACEBACK[:4], "trainer.Stuck: no more data", "loss: 0.3"), "trainer.Stuck: no more data"),
        (
            (*TRACEBACK[:4], "tf.errors.NotFoundError: no file", "of that name", "  here"),
            "tf.errors.NotFoundError: no file",
        ),
        ((*TRACEBACK, "", "During handling of the above:", "", *TRACEBACK[1:4], "KeyError: 'x'"), "KeyError: 'x'"),
        (
            ("usage: task.py", "task.py: error: unrecognized arguments: --x", ""),
            "last line: task.py: error: unrecognized arguments: --x",
        ),
        (("step 3", "test accuracy 0.5 is below 0.9"), "last line: test accuracy 0.5 is below 0.9"),
        ((), ""),
        (("", "  "), ""),
    ],
)
def test_the_last_exception_is_told_else_the_last_line(lines: tuple[str, ...], words: str) -> None:
    assert last_words(lines) == words


def test_what_a_trainer_wrote_is_one_short_line_without_controls_and_secrets() -> None:
    told = last_words([*TRACEBACK[:4], "ValueError: \x1b[2J\u202e https://u:pass-word@h/?sig=abcdef " + "x" * 100_000])
    assert len(told) == LONGEST_REASON
    assert told.isprintable()
    assert "pass-word" not in told
    assert "abcdef" not in told


@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        ("lightgbm", "try --requirement lightgbm"),
        ("sklearn", "try --requirement scikit-learn"),
        ("google.cloud.bigquery", "try --requirement google-cloud-bigquery"),
        ("trainer.network", ""),
        ("network", ""),
        ("lightgbm' --index-url http://x '", ""),
    ],
)
def test_only_a_known_distribution_is_proposed(missing: str, hint: str) -> None:
    assert requirement_hint(f"ModuleNotFoundError: No module named '{missing}'") == hint


def ended(code: int, message: str) -> dict[str, Any]:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "master", "batch.kubernetes.io/job-completion-index": "0"}
    state = {"terminated": {"exitCode": code, "message": message}}
    status = {"containerStatuses": [{"name": "replica", "state": state}]}
    return {"metadata": {"name": "p", "uid": "u", "labels": labels}, "status": status}


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (1, '{"reason": "Error", "lastLines": ["step 1", "no data"]}', "last line: no data"),
        (137, '{"reason": "Error", "lastLines": ["step 1"]}', ""),
        (1, '{"reason": "Error", "lastLines": 3}', "Error"),
        (1, "\n".join(TRACEBACK), "ModuleNotFoundError: No module named 'lightgbm'"),
        (1, "no data\x07", "no data\\x07"),
    ],
)
def test_a_replicas_reason_is_what_its_last_lines_tell(code: int, message: str, reason: str) -> None:
    replica = read_replica(ended(code, message))
    assert replica is not None
    assert replica.reason == reason
