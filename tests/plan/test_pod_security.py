"""What a replica's container may do, and who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.spec.environment.gke import GkeSpec
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec

RUNTIME: dict[str, Any] = {
    "region": "us-central1",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/trainer.tar.gz"],
    "pythonModule": "trainer.task",
}
IMAGE: dict[str, Any] = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/i"}}
#: What Kubernetes' profile "baseline" lets a container keep.
BASELINE = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip


def pods(environment: EnvironmentSpec, training_input: dict[str, Any], **block: Any) -> list[dict[str, Any]]:
    data = {"jobId": "job", "trainingInput": training_input, "encamp": block}
    spec = render_manifests(plan_job(parse_job(data, source="test").job, environment)).job_set["spec"]
    return [job["template"]["spec"]["template"]["spec"] for job in spec["replicatedJobs"]]


TPU = {"machines": {"master": {"tpu": {"version": "v5e", "topology": "2x4"}}}}


@pytest.mark.parametrize(
    ("training_input", "block", "non_root"),
    [
        (RUNTIME, {}, True),
        (RUNTIME, {"runAs": "IMAGE"}, False),
        (IMAGE, {}, False),
        (IMAGE, {"runAs": "NON_ROOT"}, True),
        (IMAGE | {"scaleTier": "CUSTOM"}, TPU, False),
        (IMAGE | {"scaleTier": "CUSTOM"}, TPU | {"runAs": "NON_ROOT"}, True),
    ],
)
def test_a_replica_has_as_few_rights_as_its_image_allows(
    environment: EnvironmentSpec, training_input: dict[str, Any], block: dict[str, Any], *, non_root: bool
) -> None:
    (pod,) = pods(environment, training_input, **block)
    (container,) = pod["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    dropped = container["securityContext"]["capabilities"]["drop"]
    assert pod["securityContext"].get("runAsNonRoot", False) is non_root
    if non_root:
        assert dropped == ["ALL"]
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 65532
        assert variables["HOME"] == "/encamp-run"
        assert variables["USER"] == variables["LOGNAME"] == "trainer"
    else:
        assert set(dropped) < BASELINE
        # apt-get changes its user, and the owner of what it unpacks.
        assert not {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"} & set(dropped)
        assert "HOME" not in variables
    for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
        assert forbidden not in pod
    assert "privileged" not in container["securityContext"]


def test_a_trainer_writes_its_own_files_where_it_may(environment: EnvironmentSpec) -> None:
    def folder(training_input: dict[str, Any], **block: Any) -> str | None:
        (pod,) = pods(environment, training_input, **block)
        found: str | None = pod["containers"][0].get("workingDir")
        return found

    assert folder(RUNTIME) == "/encamp-run"
    assert folder(RUNTIME, runAs="IMAGE") == "/"
    assert folder(IMAGE, runAs="NON_ROOT") is None


def test_replicas_of_one_job_speak_to_each_other_alone(environment: EnvironmentSpec) -> None:
    data = {"jobId": "job", "trainingInput": RUNTIME | {"scaleTier": "STANDARD_1"}}
    plan = plan_job(parse_job(data, source="test").job, environment)
    manifests = render_manifests(plan)
    spec = manifests.network_policy["spec"]
    same = {"matchLabels": {"encamp-job": plan.name}}
    assert spec["podSelector"] == same
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"from": [{"podSelector": same}]}]
    assert spec["egress"][0] == {"to": [{"podSelector": same}]}
    for job in manifests.job_set["spec"]["replicatedJobs"]:
        labels = job["template"]["spec"]["template"]["metadata"]["labels"]
        assert labels["encamp-job"] == plan.name


def test_only_a_slice_of_several_hosts_is_placed_exclusively(environment: EnvironmentSpec) -> None:
    worker = {"machines": {"worker": {"tpu": {"version": "v6e", "topology": "4x4"}}}}
    training_input = IMAGE | {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "workerCount": 4}
    data = {"jobId": "job", "trainingInput": training_input, "encamp": worker}
    spec = render_manifests(plan_job(parse_job(data, source="test").job, environment)).job_set["spec"]
    found = {job["name"]: job["template"]["metadata"].get("annotations") for job in spec["replicatedJobs"]}
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    assert found == {"master": None, "worker": {key: "cloud.google.com/gke-nodepool"}}


def locking(environment: EnvironmentSpec) -> EnvironmentSpec:
    return environment.model_copy(update={"gke": GkeSpec(tpu_locked_memory=True)})


def test_replicas_on_tpus_may_lock_memory_where_the_environment_says_so(environment: EnvironmentSpec) -> None:
    tpu = RUNTIME | {"scaleTier": "CUSTOM", "runtimeVersion": "2.11"}
    images = {"runtime_images": {"2.11-tpu": "gcr.io/ours/runtime:2.11-tpu"}}
    environment = environment.model_copy(update=images)
    data = {"jobId": "job", "trainingInput": tpu, "encamp": TPU}
    job = parse_job(data, source="test").job
    assert any("gke.tpuLockedMemory" in each for each in plan_job(job, environment).warnings)
    (without,), (pod,) = pods(environment, tpu, **TPU), pods(locking(environment), tpu, **TPU)
    assert "add" not in without["containers"][0]["securityContext"]["capabilities"]
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"]["add"] == ["SYS_RESOURCE"]
    assert {"name": "ENCAMP_LOCKED_MEMORY", "value": "68719476736"} in container["env"]
    assert not any("locked memory" in each for each in plan_job(job, locking(environment)).warnings)


def test_no_other_replica_may_lock_memory(environment: EnvironmentSpec) -> None:
    nobody: dict[str, Any] = {}
    for training_input, block in ((RUNTIME, nobody), (IMAGE | {"scaleTier": "CUSTOM"}, TPU | {"runAs": "NON_ROOT"})):
        (pod,) = pods(locking(environment), training_input, **block)
        (container,) = pod["containers"]
        assert "add" not in container["securityContext"]["capabilities"]
        assert "ENCAMP_LOCKED_MEMORY" not in {each["name"] for each in container["env"]}
