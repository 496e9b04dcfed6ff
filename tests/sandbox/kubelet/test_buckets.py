"""What a pod may ask of gcsfuse, and what it is told where there is no FUSE."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import SandboxError
from encamp_sandbox import doctor
from encamp_sandbox.kubelet import buckets, fuse, namespaces, on_demand
from encamp_sandbox.kubelet.buckets import PodBuckets
from encamp_sandbox.kubelet.environment import ConfigError
from encamp_sandbox.kubelet.fuse import FuseProblem, look_for_fuse
from encamp_sandbox.kubelet.gcsfuse import bucket_volumes, check_volume
from encamp_sandbox.kubelet.on_demand import OnDemandTool
from encamp_sandbox.layout import Layout
from encamp_sandbox.tools import catalog

if TYPE_CHECKING:
    from pathlib import Path


def pod(options: str = "", **attributes: str) -> dict[str, Any]:
    given = {"bucketName": "data", "mountOptions": options, **attributes}
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": given}
    annotations = {"gke-gcsfuse/volumes": "true"}
    return {"metadata": {"annotations": annotations}, "spec": {"volumes": [{"name": "gcs", "csi": csi}]}}


def test_options_are_flags_or_lines_of_the_configuration_file() -> None:
    text = "implicit-dirs, only-dir=a/b:c ,file-cache:max-size-mb:100,metadata-cache:ttl-secs:-1,o=noexec,rw,noatime"
    (volume,) = bucket_volumes(pod(text))
    assert volume.flags == ("--implicit-dirs", "--only-dir=a/b:c")
    assert volume.config == {"file-cache": {"max-size-mb": 100}, "metadata-cache": {"ttl-secs": -1}}
    assert volume.kernel == ("noatime", "noexec")
    assert (volume.bucket, volume.source, volume.checked) == ("data", "data", True)


@pytest.mark.parametrize("option", ["uid=1000", "key-file=/x", "logging:file-path:/x", "foreground", "enable-hns", ""])
def test_options_that_would_move_what_is_ours_are_dropped(option: str) -> None:
    (volume,) = bucket_volumes(pod(option))
    assert (volume.flags, dict(volume.config)) == ((), {})


def test_attributes_have_places_in_the_configuration_file() -> None:
    wanted = pod(
        "metadata-cache:ttl-secs:5",
        fileCacheCapacity="10Gi",
        fileCacheForRangeRead="true",
        metadataStatCacheCapacity="-1",
        metadataCacheTTLSeconds="60",
        gcsfuseLoggingSeverity="warning",
        skipCSIBucketAccessCheck="true",
    )
    (volume,) = bucket_volumes(wanted)
    assert volume.config == {
        "file-cache": {"max-size-mb": 10240, "cache-file-for-range-read": True},
        "metadata-cache": {"stat-cache-max-size-mb": -1, "ttl-secs": 5},
        "logging": {"severity": "warning"},
    }
    assert not volume.checked


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fileCacheCapacity": "much"}, "no quantity"),
        ({"metadataCacheTTLSeconds": "soon"}, "invalid literal"),
        ({"bucketName": ""}, "no bucketName"),
    ],
)
def test_attributes_without_sense_are_named(change: dict[str, str], words: str) -> None:
    broken = pod(**change)
    with pytest.raises(ConfigError, match=words):
        check_volume(broken, broken["spec"]["volumes"][0])


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOENT, "modprobe fuse"),
        (errno.EACCES, "chmod 666"),
        (errno.EPERM, "--device"),
        (errno.ENXIO, "modprobe"),
    ],
)
def test_why_there_is_no_fuse(number: int, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fuse.os, "open", refuse)
    monkeypatch.setattr(fuse.sys, "platform", "linux")
    found = look_for_fuse()
    assert found is not None
    assert os.strerror(number) in found.text
    assert remedy in found.remedy


def test_elsewhere_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse.sys, "platform", "darwin")
    assert look_for_fuse() == FuseProblem("darwin has no FUSE that pods could use", "run the sandbox on Linux")


def test_the_doctor_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> FuseProblem:
        return FuseProblem("/dev/fuse cannot be opened: No such file", "sudo modprobe fuse")

    monkeypatch.setattr(doctor, "look_for_fuse", none)
    found = {finding.subject: finding for finding in doctor.examine(Layout(tmp_path))}["Cloud Storage as files"]
    assert (found.grade, found.advice) == (doctor.NOTE, "sudo modprobe fuse")
    assert "will wait: /dev/fuse cannot be opened" in found.text


class _Context:
    """As much of a pod as its buckets ask for; it stops at the second event."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base_env: dict[str, str] = {}
        self.stopping = asyncio.Event()
        self.events: list[tuple[str, str, bool]] = []
        self.sandbox = self
        self.unmounted = 0

    def pod(self) -> dict[str, Any]:
        return pod()

    def note(self, reason: str, message: str, warning: bool) -> None:
        self.events.append((reason, message, warning))
        if len(self.events) == 2:
            self.stopping.set()

    async def mount(self, _volumes: object) -> list[int]:
        problem = namespaces.look_for_fuse()
        assert problem is not None
        raise SandboxError(problem.text, hint=problem.remedy)

    def unmount(self) -> None:
        self.unmounted += 1


def test_a_pod_without_fuse_waits_and_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> FuseProblem:
        return FuseProblem("/dev/fuse cannot be opened: No such file", "sudo modprobe fuse")

    def built(_: object) -> bool:
        return True

    monkeypatch.setattr(namespaces, "look_for_fuse", none)
    monkeypatch.setattr(on_demand, "is_installed", built)
    monkeypatch.setattr(buckets, "_FIRST_RETRY_SECONDS", 0.01)
    context: Any = _Context(tmp_path)

    async def work() -> bool:
        one = PodBuckets(context, OnDemandTool("gcsfuse"))
        mounted = await one.mount()
        await one.close()
        return mounted

    assert not asyncio.run(work())
    message = "MountVolume.SetUp failed: /dev/fuse cannot be opened: No such file; sudo modprobe fuse"
    assert context.events == [("FailedMount", message, True)] * 2
    assert context.unmounted == 1


def test_a_tool_that_cannot_be_built_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalog.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    tool = OnDemandTool("gcsfuse")
    assert not tool.ready

    async def work() -> list[Any]:
        return list(await asyncio.gather(tool.folder(), tool.folder(), return_exceptions=True))

    first, second = asyncio.run(work())
    assert first is second
    assert "could not be built" in str(first)
    assert "install Go" in str(first)
