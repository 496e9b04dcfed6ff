"""The Job resource as written, and encamp's own block beside it."""

from __future__ import annotations

from typing import Any

from encamp.spec.encamp import EncampSpec
from encamp.spec.fields import CommandFlag, FlagGroup, Text, Written, declared_fields, field
from encamp.spec.training import TrainingInputSpec


class TrainingJobSpec(Written):
    """A training job. Where the file has no id, the command gives one or the file's name does."""

    job_id: Text | None = field(rule="V01")
    """Unique in the project: a letter, then letters, digits and ``_``, at most 128 characters."""
    training_input: TrainingInputSpec = TrainingInputSpec()
    """The training."""
    labels: dict[Text, Text] | None = field(
        rule="V23", flag=CommandFlag("K=V,...", FlagGroup.OPTIONS, help="Labels of the job; they replace the file's.")
    )
    """Labels for grouping jobs."""
    encamp: EncampSpec = EncampSpec()
    """encamp's own options."""
    prediction_input: Any = field(refused=True)
    """Batch prediction; not a training job."""
    explanation_input: Any = field(refused=True)
    """Batch explanation; not a training job."""
    training_output: Any = field(output_only=True)
    """Written by the service, ignored."""
    prediction_output: Any = field(output_only=True)
    """Written by the service, ignored."""
    create_time: Any = field(output_only=True)
    """Written by the service, ignored."""
    start_time: Any = field(output_only=True)
    """Written by the service, ignored."""
    end_time: Any = field(output_only=True)
    """Written by the service, ignored."""
    state: Any = field(output_only=True)
    """Written by the service, ignored."""
    error_message: Any = field(output_only=True)
    """Written by the service, ignored."""
    job_position: Any = field(output_only=True)
    """Written by the service, ignored."""
    etag: Any = field(output_only=True)
    """Version of a job that was read, ignored."""


#: Fields of a Job that the service writes; a described job that is run again still has them.
OUTPUT_ONLY = declared_fields(TrainingJobSpec, lambda said: said.output_only)
