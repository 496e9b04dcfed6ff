"""Where objects of a job lie in a folder, and what is said of a job without output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.cloud.storage import Storage, StoredObject
from encamp.errors import UsageError
from encamp.run.history.catalogue import UNSPECIFIED, KnownJob
from encamp.run.history.result_files import ResultFiles, is_living, result_files
from encamp.run.store.states import State

if TYPE_CHECKING:
    from typing import Any

    from encamp.cloud.rest import GoogleClient


def stored(name: str, encoding: str = "") -> tuple[StoredObject, str]:
    return StoredObject("b", name, 1, "1", "", crc32c="AAAAAA==", encoding=encoding), name


def job(state: str) -> KnownJob:
    return KnownJob("j", "j-1", state, {}, "", None, None, None, "b", "jobs/j/", torn_down=False)


def test_names_that_differ_by_case_alone_meet_where_the_file_system_folds_case() -> None:
    found = ResultFiles(
        [stored("output/Model"), stored("output/model"), stored("output/e\u0301"), stored("output/\xe9")]
    )
    files, left = found.placed(folds_case=False)
    assert (len(files), left) == (4, [])
    files, left = found.placed(folds_case=True)
    assert [file.path for file in files] == ["output/Model", "output/e\u0301"]
    assert left[0].uri == "gs://b/output/model"
    assert left[0].reason == "it would lie where output/Model lies"


def test_an_object_whose_bytes_are_decoded_on_the_way_is_left_out() -> None:
    files, (left,) = ResultFiles([stored("output/a.gz", "gzip")]).placed(folds_case=False)
    assert files == []
    assert "Content-Encoding gzip; `gcloud storage cp` copies it" in left.reason


@pytest.mark.parametrize(
    ("state", "living", "said"),
    [
        (State.RUNNING, True, "it has written nothing so far"),
        (State.FAILED, False, "nothing lies in its job dir gs://b/jobs/j/output"),
        (UNSPECIFIED, False, "nothing lies in its job dir gs://b/jobs/j/output"),
    ],
)
def test_a_job_that_runs_may_still_write(
    google: Any, client: GoogleClient, state: str, said: str, *, living: bool
) -> None:
    google.add_bucket("b")
    assert is_living(job(state)) is living
    with pytest.raises(UsageError, match=said):
        result_files(job(state), Storage(client))
