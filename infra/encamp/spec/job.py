"""The Job resource as written, and encamp's own block beside it."""

from __future__ import annotations

from typing import Any

from encamp.spec.encamp import EncampSpec
from encamp.spec.fields import Text, Written
from encamp.spec.training import TrainingInputSpec

#: Fields of a Job that the service writes; a described job that is run again still has them.
OUTPUT_ONLY = (
    "training_output",
    "prediction_output",
    "create_time",
    "start_time",
    "end_time",
    "state",
    "error_message",
    "job_position",
    "etag",
)


class TrainingJobSpec(Written):
    """A training job. Where the file has no id, the command gives one or the file's name does."""

    job_id: Text | None = None
    """Unique in the project: a letter, then letters, digits and ``_``, at most 128 characters."""
    training_input: TrainingInputSpec = TrainingInputSpec()
    """The training."""
    labels: dict[Text, Text] | None = None
    """Labels for grouping jobs."""
    encamp: EncampSpec = EncampSpec()
    """encamp's own options."""
    prediction_input: Any = None
    """Batch prediction; not a training job."""
    explanation_input: Any = None
    """Batch explanation; not a training job."""
    training_output: Any = None
    """Written by the service, ignored."""
    prediction_output: Any = None
    """Written by the service, ignored."""
    create_time: Any = None
    """Written by the service, ignored."""
    start_time: Any = None
    """Written by the service, ignored."""
    end_time: Any = None
    """Written by the service, ignored."""
    state: Any = None
    """Written by the service, ignored."""
    error_message: Any = None
    """Written by the service, ignored."""
    job_position: Any = None
    """Written by the service, ignored."""
    etag: Any = None
    """Version of a job that was read, ignored."""
