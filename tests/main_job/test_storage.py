"""Where a job's outputs land, who writes them there, how long they stay, and what is looked at before."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.main_job.job_files import write_job

from encamp.run.history.retention import delete_results, expired

if TYPE_CHECKING:
    from pathlib import Path

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

BUCKET = "sandbox-encamp-artifacts"
TRAINER = """
import argparse
from pathlib import Path

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--job-dir")
where = parser.parse_args().job_dir
tf.io.gfile.makedirs(f"{where}/model")
with tf.io.gfile.GFile(f"{where}/model/done.txt", "w") as file:
    file.write("trained")
print("made", tf.io.gfile.listdir(f"{where}/model"))
files = Path(where.replace("gs://", "/gcs/"))
if files.exists():
    Path("notes.txt").write_text("seen as a file: ")
    said = Path("notes.txt").read_text() + (files / "model" / "done.txt").read_text()
    (files / "model" / "notes.txt").write_text(said)
"""


def test_results_stay_in_a_bucket_of_the_jobs_own_for_their_term(camp: Camp, tmp_path: Path) -> None:
    path = write_job(
        tmp_path,
        TRAINER,
        {
            "storage": {"kind": "OWN_BUCKET"},
            "identity": {"mode": "DIRECT"},
            "retention": {"resultsDays": 3},
            "budget": {"usd": 5},
            "mounts": [{"jobDir": True}],
        },
    )
    camp.encamp("run", path, "--job-id", "direct_own")
    receipt = camp.receipt("direct_own")
    own = receipt["results"]["bucket"]
    bucket = own.removeprefix("gs://")
    storage = camp.storage()
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    assert receipt["results"]["jobDir"] == f"{own}/output"
    assert receipt["left"] == [f"bucket {own} with the job's results"]
    assert receipt["cost"]["amount"] > 0
    assert "gcp:serviceaccount/account:Account" not in {one["type"] for one in receipt["resources"]}
    assert storage.read(bucket, "output/model/done.txt") == b"trained"
    assert storage.read(bucket, "output/model/notes.txt") == b"seen as a file: trained"
    later = datetime.now(UTC) + timedelta(days=3, minutes=1)
    assert [one for one in expired(storage, BUCKET, datetime.now(UTC)) if one.job_id == "direct_own"] == []
    (due,) = [one for one in expired(storage, BUCKET, later) if one.job_id == "direct_own"]
    delete_results(storage, due, later)
    assert storage.bucket(bucket) is None
    assert [item.name for item in storage.objects(BUCKET, "jobs/direct_own/")] == ["jobs/direct_own/receipt.json"]
    assert json.loads(camp.read("direct_own", "receipt.json"))["outcome"] == {"state": "SUCCEEDED"}
    camp.assert_nothing_left("direct_own")
    assert "is never used again" in camp.encamp("run", path, "--job-id", "direct_own", code=2)


def test_a_job_without_its_bucket_is_refused_before_anything_is_made(camp: Camp, tmp_path: Path) -> None:
    path = write_job(tmp_path, TRAINER, {}, jobDir="gs://nobody-made-this/out", packageUris=["gs://nor-this/extra.whl"])
    said = camp.encamp("run", path, "--job-id", "no_bucket", code=2)
    assert "there is no bucket gs://nobody-made-this for the job dir gs://nobody-made-this/out" in said
    assert "there is no bucket gs://nor-this for the package gs://nor-this/extra.whl" in said
    camp.assert_nothing_left("no_bucket")
    assert list(camp.storage().objects(BUCKET, "jobs/no_bucket/")) == []
    camp.encamp("run", path, "--job-id", "no_bucket", code=2)
    assert "no_bucket" not in camp.encamp("reap", "--dry-run")
