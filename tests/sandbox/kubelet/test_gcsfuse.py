"""Cloud Storage as files in pods, by the real gcsfuse over the sandbox's storage."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.sandbox

TRAINER = "trainer@sandbox-encamp.iam.gserviceaccount.com"
PODS = "/api/v1/namespaces/trials/pods"
ANNOTATIONS = {"gke-gcsfuse/volumes": "true"}


@pytest.fixture(scope="module")
def buckets(camp: Any) -> Any:
    """A bucket of the trainer's, one that it may not read, and the trainer's Kubernetes ServiceAccount."""
    camp.storage.make_bucket("data", TRAINER)
    camp.storage.make_bucket("secret")
    account = {"metadata": {"name": "trainer", "annotations": {"iam.gke.io/gcp-service-account": TRAINER}}}
    camp.cluster.create("/api/v1/namespaces/trials/serviceaccounts", account)
    return camp.storage


def volume(bucket: str, *, options: str = "implicit-dirs", **more: Any) -> dict[str, Any]:
    attributes = {"bucketName": bucket, "mountOptions": options}
    return {"name": "gcs", "csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes, **more}}


def run(camp: Any, name: str, script: str, bucket: str = "data", **more: Any) -> None:
    mounts = [{"name": "gcs", "mountPath": f"/gcs/{bucket}" if bucket != "_" else "/gcs"}]
    camp.cluster.run(
        name,
        script,
        annotations=ANNOTATIONS,
        serviceAccountName="trainer",
        container={"volumeMounts": more.pop("mounts", mounts)},
        volumes=[volume(bucket, **more)],
    )


def said(camp: Any, name: str, code: int = 0) -> str:
    """What a pod's script said, once it has ended with ``code``."""
    ended = camp.cluster.terminated(name)
    text: str = camp.cluster.log(name)
    assert ended["exitCode"] == code, text
    return text


def served(name: str) -> list[psutil.Process]:
    """The processes that serve buckets to a pod."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "launcher container" in line and f"trials_{name}_" in line and "/gcsfuse-" in line:
            found.append(process)
    return found


def held(camp: Any) -> list[str]:
    """The mount namespaces and FUSE devices that the kubelet keeps open."""
    found: list[str] = []
    for file in Path(f"/proc/{camp.cluster.kubelet_pid()}/fd").iterdir():
        # What it closes meanwhile it does not keep.
        with contextlib.suppress(FileNotFoundError):
            found.append(str(file.readlink()))
    return [target for target in found if target.startswith(("mnt:", "/dev/fuse"))]


def test_what_a_pod_writes_is_an_object(camp: Any, buckets: Any) -> None:
    run(camp, "writes", "mkdir -p /gcs/data/model && printf weights > /gcs/data/model/one && ls /gcs/data/model")
    assert said(camp, "writes") == "one\n"
    assert buckets.read("data", "model/one") == b"weights"


def test_what_is_in_the_bucket_is_a_file(camp: Any, buckets: Any) -> None:
    buckets.write("data", "sets/train/0.csv", b"1,2\n")
    buckets.write("data", "sets/1.csv", b"3,4\n")
    run(camp, "reads", "cd /gcs/data/sets; find . | sort; cat train/0.csv 1.csv; stat -c %s 1.csv; cat none.csv")
    text = said(camp, "reads", code=1)
    assert text.splitlines()[:7] == [".", "./1.csv", "./train", "./train/0.csv", "1,2", "3,4", "4"]
    assert "No such file" in text


def test_files_are_replaced_extended_renamed_and_removed(camp: Any, buckets: Any) -> None:
    script = """
import hashlib, os, pathlib
folder = pathlib.Path("/gcs/data/work")
folder.mkdir()
log = folder / "log"
log.write_text("first")
log.write_text("second ")
with log.open("a") as file:
    file.write("third")
print(log.read_text())
big = bytes(range(256)) * 163840
(folder / "big").write_bytes(big)
assert (folder / "big").read_bytes() == big
with (folder / "big").open("rb") as file:
    file.seek(1000001)
    assert file.read(3) == big[1000001:1000004]
os.rename(folder / "big", folder / "large")
(folder / "gone").write_text("")
(folder / "gone").unlink()
print(sorted(os.listdir(folder)))
"""
    run(camp, "changes", f"python3 -c '{script}'")
    assert said(camp, "changes").splitlines() == ["second third", "['large', 'log']"]
    assert buckets.read("data", "work/log") == b"second third"
    assert buckets.read("data", "work/large") == bytes(range(256)) * 163840
    assert [name for name in buckets.names("data") if name.startswith("work/")] == ["work/", "work/large", "work/log"]


def test_all_buckets_are_folders_and_a_foreign_one_is_refused(camp: Any, buckets: Any) -> None:
    buckets.write("secret", "key", b"hidden")
    buckets.write("data", "open", b"seen")
    script = "cat /gcs/data/open; echo; cat /gcs/secret/key; ls /gcs/secret; touch /gcs/secret/mine"
    run(camp, "everything", script, bucket="_")
    text = said(camp, "everything", code=1)
    assert text.startswith("seen\n")
    assert "hidden" not in text
    assert buckets.names("secret") == ["key"]
    assert text.count("Permission denied") == 3


def test_a_bucket_that_cannot_be_read_keeps_its_pod_waiting(
    camp: Any, buckets: Any, until: Callable[..., None]
) -> None:
    run(camp, "refused", "ls /gcs/secret", bucket="secret")
    until(lambda: "FailedMount" in camp.cluster.events("refused"))
    message = camp.cluster.events("refused")["FailedMount"]
    assert 'volume "gcs": bucket secret is not mounted' in message
    assert "storage.objects.list" in message or "403" in message
    status = camp.cluster.pod("refused")["status"]
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    camp.cluster.api.delete(f"{PODS}/refused")
    until(lambda: camp.cluster.phase("refused") == "gone" and not served("refused"))
    assert buckets.names("secret") == ["key"]


def test_nothing_is_left_of_a_pod(camp: Any, buckets: Any, until: Callable[..., None]) -> None:
    run(camp, "leaves", "printf half > /gcs/data/half; exec sleep 300")
    until(lambda: camp.cluster.phase("leaves") == "Running")
    assert len(served("leaves")) == 1
    assert len(held(camp)) == 1
    camp.cluster.api.delete(f"{PODS}/leaves?gracePeriodSeconds=1")
    until(lambda: camp.cluster.phase("leaves") == "gone" and not served("leaves"))
    assert held(camp) == []
    assert buckets.read("data", "half") == b"half"


def test_a_killed_gcsfuse_is_told_and_its_files_fail(camp: Any, buckets: Any, until: Callable[..., None]) -> None:
    assert buckets
    run(camp, "loses", "until [ -e /tmp/go ]; do ls /gcs/data >/dev/null || touch /tmp/go; sleep 0.2; done")
    until(lambda: camp.cluster.phase("loses") == "Running")
    served("loses")[0].kill()
    # A read that is under way is cut off, a later one finds nobody.
    assert re.search(r"connection abort|not connected", said(camp, "loses"))
    until(lambda: "is lost: gcsfuse ended" in camp.cluster.events("loses").get("FailedMount", ""))


def test_containers_share_a_bucket_and_see_of_it_what_they_ask_for(camp: Any, buckets: Any) -> None:
    buckets.write("data", "part/in", b"in")
    place = {"name": "gcs", "mountPath": "/mnt/part", "subPath": "part"}
    camp.cluster.run(
        "shares",
        "cat /mnt/part/in /mnt/part/made; echo; echo x > /mnt/part/no; ls /mnt/all",
        annotations=ANNOTATIONS,
        serviceAccountName="trainer",
        initContainers=[
            {
                "name": "first",
                "image": "trainer",
                "command": ["sh", "-c", "printf out > /mnt/new/deep/made; ln -s / /mnt/new/deep/root"],
                "volumeMounts": [{"name": "gcs", "mountPath": "/mnt/new/deep", "subPath": "part"}],
            }
        ],
        container={"volumeMounts": [place | {"readOnly": True}, {"name": "ro", "mountPath": "/mnt/all"}]},
        volumes=[volume("data"), volume("data", options="only-dir=part", readOnly=True) | {"name": "ro"}],
    )
    text = said(camp, "shares")
    assert "inout" in text
    assert "Read-only file system" in text
    assert text.splitlines()[-3:] == ["in", "made", "root"]
    assert buckets.read("data", "part/made") == b"out"


def test_a_link_in_a_bucket_leads_no_mount_to_the_host(camp: Any, buckets: Any) -> None:
    buckets.write("data", "trap/file", b"")
    run(camp, "traps", "ln -s /etc /gcs/data/trap/etc")
    said(camp, "traps")
    place = {"name": "gcs", "mountPath": "/mnt/etc", "subPath": "trap/etc"}
    run(camp, "trapped", "ls /mnt/etc", mounts=[place])
    assert camp.cluster.terminated("trapped")["reason"] == "StartError"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unmarked": ({"annotations": {}}, "gke-gcsfuse/volumes"),
    "foreign": ({"volumes": [{"name": "gcs", "csi": {"driver": "disk.example.org"}}]}, "has no CSI driver"),
    "unnamed": ({"volumes": [volume("")]}, "has no bucketName"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_driver_would_refuse_is_said(camp: Any, until: Callable[..., None], name: str) -> None:
    change, words = REFUSED[name]
    wanted: dict[str, Any] = {"annotations": ANNOTATIONS, "volumes": [volume("data")], **change}
    camp.cluster.run(name, "true", **wanted)
    until(lambda: words in camp.cluster.events(name).get("FailedMount", ""))
    assert camp.cluster.phase(name) == "Pending"
    camp.cluster.api.delete(f"{PODS}/{name}")
    until(lambda: camp.cluster.phase(name) == "gone")


def test_with_the_kubelet_all_of_it_goes(camp: Any, buckets: Any, until: Callable[..., None]) -> None:
    assert buckets
    run(camp, "orphan", "exec sleep 300")
    until(lambda: camp.cluster.phase("orphan") == "Running")
    camp.cluster.kill_kubelet()
    until(lambda: not served("orphan"))
    until(lambda: camp.cluster.phase("orphan") == "Failed")
