"""A create for an existing job id: a retry whose answer was lost, a race, or another job."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from encamp.errors import UsageError
from encamp.run.store import holder

if TYPE_CHECKING:
    from sqlalchemy import Row

#: How long the same create may be retried, and which retry is a race between two clients: the answer to the first was
#: sent so shortly before that nobody can have waited for it in vain.
AGAIN_SECONDS = 60.0
RACE_SECONDS = 0.25
#: How long another machine's server is trusted to be at work on a create that it has not answered.
ELSEWHERE_SECONDS = 5.0


class Again(Enum):
    """How to answer a create for an existing job id."""

    SAME = "the same create again, whose answer was lost: answer with the job as it is"
    PENDING = "the same create, which another server is about to answer: it may be asked for again"
    OTHER = "another one's, or another job, or a race: the id is taken"


class AlreadyUsedError(UsageError):
    """The id of a submission was used before; ``again`` says how to answer its create."""

    def __init__(self, job_id: str, again: Again) -> None:
        super().__init__("this job id was used before; ids are unique for ever", where=job_id, hint="choose another id")
        self.job_id = job_id
        self.again = again


class NameUsedError(UsageError):
    """The cloud name of a job is that of another one of the record: nothing of the one may be taken for the other's."""

    def __init__(self, job_id: str, name: str) -> None:
        super().__init__(f"the cloud name {name} was used by another job", where=job_id, hint="choose another id")


def judged(row: Row[Any] | None, *, digest: str, by: str, arrived: float, now: float) -> Again:
    """Decide how to answer a create for an existing job id.

    Args:
        row: of the first one, None if nobody handed that job in.
        digest: of the job that it brings.
        by: the caller of the create.
        arrived: when it came, in seconds since the epoch.
        now: in the same.
    """
    if row is None or (row.digest, row.creator) != (digest, by) or now - row.at > AGAIN_SECONDS:
        return Again.OTHER
    if row.answered is not None:
        late = row.answered == 0.0 or arrived - row.answered > RACE_SECONDS
        return Again.SAME if late else Again.OTHER
    if not holder.alive(row.taken_by, row.at + AGAIN_SECONDS, now):
        return Again.SAME
    if holder.is_here(row.taken_by):
        return Again.OTHER
    return Again.PENDING if now - row.at < ELSEWHERE_SECONDS else Again.SAME
