"""Log entries as Cloud Logging had them for AI Platform's jobs: lines of replicas, and the service's own messages.

Times are texts of one width, and ids grow with the place in the log, so that both compare as texts, which is how gcloud
tells what it has seen. Sources: cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry; the same site on
structured logging (``severity`` and ``message`` of a line that is JSON); the monitored resource ``ml_job``; belief
``ai-platform-severity-by-stream``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from encamp.run.store.journal import SUBMITTED
from encamp.run.store.states import State
from encamp.run.times import micros, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.run.logs.log_lines import Line
    from encamp.run.store.journal import Entry, RunRecord

SERVICE: Final = "service"
_LABEL: Final = "ml.googleapis.com/"
_TRIAL: Final = re.compile(r"trial-(\d+)-(.+)")
_LEVELS: Final = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_SEVERITIES: Final = frozenset(
    {"DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY"}
)
#: Prefixes of log records: absl's, those of TensorFlow's own library, and Python's by ``logging.BASIC_FORMAT``.
_RECORD: Final = re.compile(
    r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6}\s+\d+ [^\s:]{1,200}:\d+\] "
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: ([IWEF]) "
    r"|(DEBUG|INFO|WARNING|ERROR|CRITICAL):[^\s:]{1,200}:"
)
_LETTERS: Final = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
_SAID: Final = {
    State.QUEUED: "The job was accepted and is queued.",
    State.PREPARING: "The job is being prepared: its machines and replicas are on their way.",
    State.RUNNING: "The job is running: every replica has started.",
    State.CANCELLING: "The job is being cancelled.",
}


def line_entry(project: str, job_id: str, line: Line) -> dict[str, Any]:
    """Return the entry of a line."""
    trial = _TRIAL.fullmatch(line.replica)
    text = line.text.decode("utf-8", "backslashreplace")
    severity, payload = _payload(text, "ERROR" if line.stderr else "INFO")
    return _entry(
        project,
        job_id,
        task=trial[2] if trial else line.replica,
        trial=trial[1] if trial else None,
        at=line.at,
        insert_id=f"{line.replica}-{line.offset:015d}",
        severity=severity,
        payload=payload,
    )


def service_entries(project: str, record: RunRecord, last: int | None) -> Iterator[dict[str, Any]]:
    """Yield the service's own entries of a job, oldest first.

    ``last`` is the time of the last line of all its logs; None while more may come: then its end is not told yet.
    """
    at = number = 0
    for entry in record.entries:
        for ends, severity, text in _said(record, entry):
            if ends and last is None:
                return
            at = max(at, micros(entry.at), (last or 0) + 1 if ends else 0)
            insert_id = f"{SERVICE}-{number:015d}"
            number += 1
            yield _entry(
                project, record.job_id, task=SERVICE, trial=None, at=at, insert_id=insert_id, severity=severity,
                payload={"textPayload": text},
            )  # fmt: skip


def key_of(entry: dict[str, Any]) -> tuple[str, str, str]:
    """Return an entry's place in the order of all entries."""
    return entry["timestamp"], entry["insertId"], entry["resource"]["labels"]["job_id"]


def _said(record: RunRecord, entry: Entry) -> Iterator[tuple[bool, str, str]]:
    """Whether it is the end, the severity and the text of what people are told of an entry of the journal."""
    if entry.kind != "state" or entry.data.get("state") not in set(State):
        return
    state = State(entry.data["state"])
    message = record.outcome.message if record.outcome is not None else ""
    if not state.ended:
        yield False, "INFO", _SAID[state]
        for warning in _warnings(record) if state is State.QUEUED else ():
            yield False, "WARNING", warning
    elif state is State.SUCCEEDED:
        yield True, "INFO", "The job has completed successfully."
    elif state is State.CANCELLED:
        yield True, "WARNING", _sentence("The job was cancelled", message)
    else:
        yield True, "ERROR", _sentence("The job has failed", message)


def _warnings(record: RunRecord) -> list[str]:
    """Return the warnings for the submitter of the job."""
    told = [entry.data.get("warnings") for entry in record.entries if entry.kind == SUBMITTED]
    return [str(warning) for warnings in told if isinstance(warnings, list) for warning in warnings]


def _sentence(what: str, why: str) -> str:
    return f"{what}: {why}" if why else f"{what}."


def _payload(text: str, usual: str) -> tuple[str, dict[str, Any]]:
    """Return the severity and payload of a line; ``usual`` is the severity of what says none itself.

    A JSON object with a message and a severity says both. A record of Python's logging in its usual form says its
    level, as do those of absl and of TensorFlow's own library, whichever stream it is written to.
    """
    if text.startswith("{") and text.endswith("}"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        if isinstance(data, dict) and isinstance(data.get("message"), str):
            level = str(data.get("severity") or data.get("levelname") or "").upper()
            level = _LEVELS.get(level, level)
            if level in _SEVERITIES:
                return level, {"jsonPayload": {key: value for key, value in data.items() if key != "severity"}}
    found = _RECORD.match(text)
    if found is not None:
        return _LETTERS.get(found[1] or found[2] or "") or str(found[3]), {"textPayload": text}
    return usual, {"textPayload": text}


def _entry(
    project: str,
    job_id: str,
    *,
    task: str,
    trial: str | None,
    at: int,
    insert_id: str,
    severity: str,
    payload: dict[str, Any],
) -> dict[str, Any]:
    labels = {"job_id": job_id, "task_name": task, **({"trial_id": trial} if trial is not None else {})}
    return {
        "insertId": insert_id,
        "labels": {f"{_LABEL}{name}": value for name, value in labels.items()},
        "logName": f"projects/{project}/logs/{task}",
        "resource": {"type": "ml_job", "labels": {"job_id": job_id, "project_id": project, "task_name": task}},
        "severity": severity,
        "timestamp": written(at),
        "receiveTimestamp": written(at),
        **payload,
    }
