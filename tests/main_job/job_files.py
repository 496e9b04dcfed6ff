"""A job file with a trainer of one module, of a test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def write_job(folder: Path, trainer: str, encamp: dict[str, Any], **training_input: Any) -> str:
    """Write a job file and the package of its trainer; gives the file's path.

    Args:
        folder: an empty folder for both.
        trainer: text of ``trainer/task.py``.
        encamp: further fields of the job's ``encamp`` block.
        training_input: further fields of its ``trainingInput``.
    """
    package = folder / "trainer"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(trainer)
    content = {
        "trainingInput": {
            "region": "us-central1",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "pythonModule": "trainer.task",
            "scheduling": {"maxRunningTime": "900s"},
            **training_input,
        },
        "encamp": {"packagePath": "trainer", **encamp},
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)
