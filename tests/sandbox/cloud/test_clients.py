"""Unmodified clients against the cloud: google-cloud-storage, and TensorFlow's own gs://."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from encamp_sandbox.environment import variables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sandbox.cloud.conftest import Processes

pytestmark = pytest.mark.sandbox

STORAGE = """
import io, os
from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed
from google.cloud import storage

def refused(error, work):
    try:
        work()
    except error:
        return True
    raise AssertionError(error)

client = storage.Client()
bucket = client.create_bucket("client-bucket", location="us-central1")
assert refused(Conflict, lambda: client.create_bucket("client-bucket"))
bucket.labels = {"k": "v"}
bucket.patch()
data = os.urandom(20 * 2**20 + 5)
bucket.blob("small").upload_from_string(b"hello")
bucket.blob("big", chunk_size=5 * 2**20).upload_from_file(io.BytesIO(data))
with bucket.blob("unknown", chunk_size=2**18).open("wb") as file:
    for start in range(0, 10**6, 10**5):
        file.write(data[start : start + 10**5])
assert bucket.blob("big").download_as_bytes() == data
assert bucket.blob("big").download_as_bytes(start=5, end=9) == data[5:10]
assert bucket.blob("unknown").download_as_bytes() == data[: 10**6]
assert refused(PreconditionFailed, lambda: bucket.blob("small").upload_from_string("x", if_generation_match=0))
assert refused(NotFound, lambda: bucket.blob("nothing").download_as_bytes())
bucket.blob("sum").compose([bucket.blob("small"), bucket.blob("small")])
assert bucket.blob("sum").download_as_bytes() == b"hellohello"
bucket.rename_blob(bucket.blob("sum"), "dir/sum")
listing = client.list_blobs(bucket, delimiter="/", page_size=1)
assert ([blob.name for blob in listing], listing.prefixes) == (["big", "small", "unknown"], {"dir/"})
assert refused(Conflict, bucket.delete)
for blob in client.list_blobs(bucket):
    blob.delete()
bucket.delete()
"""

TENSORFLOW = """
import sys
import tensorflow as tf
root = sys.argv[1]
files = tf.io.gfile
files.makedirs(f"{root}/dir/sub")
with files.GFile(f"{root}/dir/f.txt", "w") as file:
    file.write("one")
with files.GFile(f"{root}/dir/f.txt", "a") as file:
    file.write("two")
assert files.GFile(f"{root}/dir/f.txt").read() == "onetwo"
assert files.listdir(f"{root}/dir") == ["f.txt", "sub/"]
assert files.isdir(f"{root}/dir") and not files.exists(f"{root}/nothing")
files.rename(f"{root}/dir/f.txt", f"{root}/dir/g.txt")
variable = tf.Variable(tf.random.normal([500, 500]))
manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=variable), f"{root}/ckpt", max_to_keep=1)
manager.save()
manager.save()
before = variable.numpy()
variable.assign_add(tf.ones_like(variable))
manager.checkpoint.restore(manager.latest_checkpoint)
assert (variable.numpy() == before).all()
class Doubler(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def double(self, value):
        return 2.0 * value
tf.saved_model.save(Doubler(), f"{root}/model")
loaded = tf.saved_model.load(f"{root}/model")
assert loaded.double(3.0).numpy() == 6.0
files.rmtree(root)
assert not files.exists(f"{root}/model")
"""


def run(program: str, folder: Path, environment: dict[str, str], *arguments: str) -> None:
    path = folder / "client.py"
    path.write_text(program)
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    kept.pop("STORAGE_EMULATOR_HOST", None)
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_python_client_signs_in_with_the_key_file(processes: Processes, tmp_path: Path) -> None:
    environment = {
        "API_ENDPOINT_OVERRIDE": processes.front,
        "GOOGLE_APPLICATION_CREDENTIALS": str(processes.layout.google_credentials),
        "GOOGLE_CLOUD_PROJECT": "sandbox-encamp",
    }
    run(STORAGE, tmp_path, environment)


def test_tensorflow_reads_and_writes_gs(processes: Processes, tmp_path: Path) -> None:
    with processes.client() as client:
        client.post("/storage/v1/b", json={"name": "tf-bucket"})
    environment = {
        "https_proxy": f"http://127.0.0.1:{processes.layout.ports.proxy}",
        "CURL_CA_BUNDLE": str(processes.layout.ca_certificate),
        "GOOGLE_APPLICATION_CREDENTIALS": str(processes.layout.google_credentials),
        "NO_GCE_CHECK": "true",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    run(TENSORFLOW, tmp_path, environment, "gs://tf-bucket/trial")


@pytest.mark.skipif(shutil.which("gsutil") is None, reason="gsutil is no dependency")
def test_gsutil_copies_and_lists(processes: Processes, tmp_path: Path) -> None:
    """It has certificates and credentials of its own; without the sandbox's config it retried for ten minutes."""
    environment = {**os.environ, **variables(processes.layout), "HOME": str(tmp_path)}

    def gsutil(*words: str) -> str:
        done = subprocess.run(
            ["gsutil", *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    content = os.urandom(9_000_000)
    (tmp_path / "there.bin").write_bytes(content)
    gsutil("mb", "gs://gsutil-bucket")
    gsutil("cp", "there.bin", "gs://gsutil-bucket/dir/there.bin")
    assert gsutil("ls", "gs://gsutil-bucket/dir/").split() == ["gs://gsutil-bucket/dir/there.bin"]
    gsutil("cp", "gs://gsutil-bucket/dir/there.bin", "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == content
    gsutil("rm", "-r", "gs://gsutil-bucket")
