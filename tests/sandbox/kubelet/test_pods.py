"""The kubelet against the real API server: what becomes of a pod."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from encamp_sandbox.kubelet.launcher.network import BRIDGE_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.sandbox

PODS = "/api/v1/namespaces/trials/pods"


def test_a_pod_runs_and_is_done(cluster: Any) -> None:
    cluster.run("once", "echo hello; echo oops >&2; printf '%5000s' finished > /dev/termination-log")
    ended = cluster.terminated("once")
    # Of a long message the end is kept.
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (0, "Completed", f"{'finished':>4096}")
    assert cluster.phase("once") == "Succeeded"
    assert cluster.log("once") == "hello\noops\n"
    status = cluster.pod("once")["status"]
    assert {one["type"]: (one["status"], one.get("reason")) for one in status["conditions"]} == {
        "PodScheduled": ("True", None),
        "PodReadyToStartContainers": ("False", None),
        "Initialized": ("True", None),
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
    }


def test_a_running_pod_is_ready_and_has_an_address(cluster: Any, until: Callable[..., None]) -> None:
    cluster.run("ready", "hostname; exec sleep 300")
    until(lambda: cluster.phase("ready") == "Running")
    status = cluster.pod("ready")["status"]
    assert status["podIP"].startswith("10.8.")
    assert {one["type"] for one in status["conditions"] if one["status"] == "True"} == {
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
    }
    container = status["containerStatuses"][0]
    assert container["ready"]
    assert container["started"]
    assert "startedAt" in container["state"]["running"]
    until(lambda: cluster.log("ready") == "ready\n")
    assert cluster.api.delete(f"{PODS}/ready?gracePeriodSeconds=0").is_success


@pytest.mark.parametrize(
    ("name", "script", "code", "reason"),
    [("fails", "exit 3", 3, "Error"), ("killed", "kill -9 $$; sh -c 'kill -9 1'; exit 9", 9, "Error")],
)
def test_a_pod_that_fails_says_how(cluster: Any, name: str, script: str, code: int, reason: str) -> None:
    cluster.run(name, script)
    ended = cluster.terminated(name)
    assert (ended["exitCode"], ended["reason"]) == (code, reason)
    assert cluster.phase(name) == "Failed"


def test_env_and_arguments_are_resolved_as_kubernetes_does(cluster: Any) -> None:
    namespace = "/api/v1/namespaces/trials"
    cluster.create(f"{namespace}/configmaps", {"metadata": {"name": "settings"}, "data": {"COLOUR": "blue", "n": "7"}})
    cluster.create(f"{namespace}/secrets", {"metadata": {"name": "keys"}, "stringData": {"key": "s3cret"}})
    container = {
        "command": ["sh", "-c", "env; echo args $0 $1", "$(INDEX)", "$$(INDEX)$(UNKNOWN)"],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
        "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "CM_"}],
        "env": [
            {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['index']"}}},
            {"name": "TF_CONFIG", "value": '{"task":{"index":$(INDEX)},"text":"$$(INDEX)","later":"$(N)"}'},
            {"name": "N", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "n"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
            {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "no", "optional": True}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
    }
    cluster.run("env", "", container=container, annotations={"index": "2"})
    assert cluster.terminated("env")["exitCode"] == 0
    lines = cluster.log("env").splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert seen["TF_CONFIG"] == '{"task":{"index":2},"text":"$(INDEX)","later":"$(N)"}'
    assert (seen["N"], seen["KEY"], seen["MEMORY"], seen["CM_COLOUR"]) == ("7", "s3cret", "64", "blue")
    pod = cluster.pod("env")
    assert (seen["IP"], seen["NODE"]) == (pod["status"]["podIP"], pod["spec"]["nodeName"])
    assert "GONE" not in seen
    assert lines[-1] == "args 2 $(INDEX)$(UNKNOWN)"


def test_volumes_are_where_they_belong(cluster: Any) -> None:
    data = {"metadata": {"name": "files"}, "data": {"a.txt": "A", "b.txt": "B"}}
    cluster.create("/api/v1/namespaces/trials/configmaps", data)
    script = """
cat /encamp/a.txt /usr/share/encamp/only.txt; cat /podinfo/labels
(echo x > /encamp/a.txt) 2>/dev/null || echo read-only
echo kept > /data/deep/file; cat /shared/deep/file
stat -c %a /encamp/a.txt
"""
    volumes: list[dict[str, Any]] = [
        {"name": "config", "configMap": {"name": "files", "defaultMode": 0o400}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "info", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    mounts = [
        {"name": "config", "mountPath": "/encamp"},
        {"name": "config", "mountPath": "/usr/share/encamp/only.txt", "subPath": "b.txt"},
        {"name": "scratch", "mountPath": "/data/deep", "subPath": "deep"},
        {"name": "scratch", "mountPath": "/shared"},
        {"name": "info", "mountPath": "/podinfo"},
    ]
    script = script.replace("/podinfo/labels", "/podinfo/name; echo")
    cluster.run("volumes", script, volumes=volumes, container={"volumeMounts": mounts})
    assert cluster.terminated("volumes")["exitCode"] == 0, cluster.log("volumes")
    assert cluster.log("volumes") == "ABvolumes\nread-only\nkept\n400\n"


def test_init_containers_run_in_order_and_a_failed_one_is_the_end(cluster: Any) -> None:
    inits = [
        {"name": f"step{n}", "image": "x", "command": ["sh", "-c", f"echo {n} >> /work-log/steps"]} for n in (1, 2)
    ]
    shared = {"volumeMounts": [{"name": "w", "mountPath": "/work-log"}]}
    cluster.run(
        "inits",
        "cat /work-log/steps",
        volumes=[{"name": "w", "emptyDir": {}}],
        initContainers=[one | shared for one in inits],
        container=shared,
    )
    bad = {"name": "bad", "image": "x", "command": ["sh", "-c", "exit 4"]}
    cluster.run("badinit", "echo never", initContainers=[bad])
    assert cluster.terminated("inits")["exitCode"] == 0
    assert cluster.log("inits") == "1\n2\n"
    cluster.terminated("badinit")
    status = cluster.pod("badinit")["status"]
    assert status["phase"] == "Failed"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


def test_a_container_is_restarted_until_it_succeeds(cluster: Any) -> None:
    script = "echo try >> /w/tries; wc -l < /w/tries; [ $(wc -l < /w/tries) -ge 3 ]"
    mounts = {"volumeMounts": [{"name": "w", "mountPath": "/w"}]}
    volumes: list[dict[str, Any]] = [{"name": "w", "emptyDir": {}}]
    cluster.run("retries", script, restartPolicy="OnFailure", volumes=volumes, container=mounts)
    assert cluster.terminated("retries")["exitCode"] == 0
    status = cluster.pod("retries")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 2
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert (cluster.log("retries"), cluster.log("retries", previous="true")) == ("3\n", "2\n")
    assert "BackOff" in cluster.events("retries")


def test_a_pod_beyond_its_deadline_is_stopped(cluster: Any) -> None:
    cluster.run("late", "sleep 300", activeDeadlineSeconds=2, terminationGracePeriodSeconds=1)
    ended = cluster.terminated("late")
    status = cluster.pod("late")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert "longer than the specified deadline" in status["message"]
    assert ended["exitCode"] == 137, "sh as process 1 ignores SIGTERM, as on every node"


def test_a_deleted_pod_is_asked_first_and_then_gone(cluster: Any, until: Callable[..., None]) -> None:
    script = "trap 'echo asked; sleep 0.5; echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    cluster.run("polite", script, terminationGracePeriodSeconds=30)
    until(lambda: cluster.phase("polite") == "Running" and cluster.log("polite"))
    follow = cluster.kubectl("logs", "-f", "polite")
    assert cluster.api.delete(f"{PODS}/polite").is_success
    until(lambda: cluster.phase("polite") == "gone")
    said, _ = follow.communicate(timeout=20)
    assert said == "up\nasked\nbye\n"


def test_a_deleted_pod_that_does_not_listen_is_killed(cluster: Any, until: Callable[..., None]) -> None:
    cluster.run("deaf", "trap '' TERM; echo up; (setsid sleep 7777 &); while :; do sleep 0.1; done")
    until(lambda: cluster.phase("deaf") == "Running" and cluster.log("deaf"))
    assert cluster.api.delete(f"{PODS}/deaf").is_success
    begin = time.monotonic()
    until(lambda: cluster.phase("deaf") == "gone")
    assert time.monotonic() - begin > 1.5  # its grace period
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "7777"]]


def test_what_cannot_start_is_said(cluster: Any, until: Callable[..., None]) -> None:
    cluster.run("bare", "", container={"command": None})
    cluster.run("typo", "", container={"command": ["no-such-program"]})
    bare, typo = cluster.terminated("bare"), cluster.terminated("typo")
    assert bare["reason"] == "CreateContainerError"
    assert "the process runtime cannot run an image's own entrypoint" in bare["message"]
    assert (typo["reason"], typo["exitCode"]) == ("StartError", 128)
    assert "no-such-program" in typo["message"]
    missing = {"envFrom": [{"configMapRef": {"name": "not-yet"}}]}
    cluster.run("waits", "true", container=missing)

    def reason() -> str:
        statuses = cluster.pod("waits")["status"].get("containerStatuses") or [{"state": {}}]
        return statuses[0]["state"].get("waiting", {}).get("reason", "")

    until(lambda: reason() == "CreateContainerConfigError")
    cluster.create("/api/v1/namespaces/trials/configmaps", {"metadata": {"name": "not-yet"}, "data": {}})
    assert cluster.terminated("waits")["exitCode"] == 0


def test_logs_are_read_as_kubectl_asks(cluster: Any, until: Callable[..., None]) -> None:
    cluster.run("talker", "for i in 1 2 3 4 5; do echo line $i; done; printf unfinished; sleep 2; echo; echo end")
    until(lambda: "unfinished" in (cluster.log("talker") if cluster.phase("talker") == "Running" else ""))
    follow = cluster.kubectl("logs", "-f", "--tail=2", "talker")
    said, _ = follow.communicate(timeout=30)
    assert said == "line 5\nunfinished\nend\n"
    assert cluster.log("talker", tailLines="1") == "end\n"
    assert cluster.log("talker", limitBytes="6") == "line 1"
    first = cluster.log("talker", timestamps="true").splitlines()[0]
    assert first.endswith("Z line 1")
    assert cluster.log("talker", sinceSeconds="1000") == cluster.log("talker")
    follow = cluster.kubectl("exec", "talker", "--", "true")
    said, _ = follow.communicate(timeout=30)
    assert follow.returncode != 0
    assert "does not offer exec" in said or "completed pod" in said


def test_simulated_accelerators_are_said_to_be(cluster: Any) -> None:
    accelerator = {"acceleratorType": "nvidia-l4", "acceleratorCount": "1"}
    cluster.front.add_pool("gpus", 1, machineType="g2-standard-4", accelerators=[accelerator])
    try:
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        cluster.run(
            "gpu",
            "echo $ENCAMP_SIMULATED_ACCELERATORS",
            nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-l4"},
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
            container={"resources": resources},
        )
        assert cluster.terminated("gpu")["exitCode"] == 0
        note, said = cluster.log("gpu").splitlines()
        assert "simulated" in note
        assert json.loads(said) == {"nvidia.com/gpu": 1}
    finally:
        cluster.front.remove_pool("gpus")


SHARED = "/dev/shm"  # noqa: S108 - of the container
SHARED_MEMORY = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "96Mi"}}
FILL = "head -c %dM /dev/zero > /dev/shm/block && echo filled; sleep %d"


def test_shared_memory_is_small_without_a_volume_and_as_large_as_its_volume(cluster: Any) -> None:
    cluster.run("cramped", FILL % (80, 0))
    cluster.terminated("cramped")
    assert "No space left on device" in cluster.log("cramped")
    mounted = {"volumeMounts": [{"name": "shared-memory", "mountPath": SHARED}]}
    for name, size in (("roomy", 80), ("overfull", 120)):
        cluster.run(name, FILL % (size, 0), container=mounted, volumes=[SHARED_MEMORY])
        cluster.terminated(name)
    assert cluster.log("roomy").splitlines()[-1] == "filled"
    assert "No space left on device" in cluster.log("overfull")


def test_shared_memory_counts_as_the_containers_memory(cluster: Any) -> None:
    container = {
        "volumeMounts": [{"name": "shared-memory", "mountPath": SHARED}],
        "resources": {"limits": {"memory": "64Mi"}},
    }
    cluster.run("sharing", FILL % (80, 60), container=container, volumes=[SHARED_MEMORY])
    assert cluster.terminated("sharing")["reason"] == "OOMKilled"


def test_a_container_beyond_its_memory_limit_is_killed(cluster: Any) -> None:
    command = ["python3", "-S", "-c", "import time; x = bytearray(200_000_000); time.sleep(60)"]
    cluster.run("hungry", "", container={"command": command, "resources": {"limits": {"memory": "100Mi"}}})
    ended = cluster.terminated("hungry")
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_the_metadata_server_knows_who_asks(cluster: Any) -> None:
    account = {"name": "trainer", "annotations": {"iam.gke.io/gcp-service-account": "trainer@sandbox-encamp.example"}}
    cluster.create("/api/v1/namespaces/trials/serviceaccounts", {"metadata": account})
    program = """
import google.auth, google.auth.transport.requests, urllib.request
credentials, project = google.auth.default()
credentials.refresh(google.auth.transport.requests.Request())
print(project, credentials.service_account_email, credentials.token)
try: urllib.request.urlopen('http://169.254.169.254/computeMetadata/v1/project/project-id')
except urllib.error.HTTPError as error: print(error.code)
"""
    command = ["python3", "-c", program]
    cluster.run("asks", "", serviceAccountName="trainer", container={"command": command})
    assert cluster.terminated("asks")["exitCode"] == 0, cluster.log("asks")
    email = "trainer@sandbox-encamp.example"
    assert cluster.log("asks") == f"sandbox-encamp {email} token of {email}\n403\n"


def test_the_gateways_hardware_address_is_its_own(cluster: Any) -> None:
    # One that follows the pods' changes with each that comes or goes, and those that stay reach no gateway for a while.
    program = """
import socket
socket.create_connection(('169.254.169.254', 80)).close()
for line in open('/proc/net/arp'):
    if line.startswith('10.8.0.1 '): print(line.split()[3])
"""
    cluster.run("neighbour", "", container={"command": ["python3", "-c", program]})
    assert cluster.terminated("neighbour")["exitCode"] == 0, cluster.log("neighbour")
    assert cluster.log("neighbour") == f"{BRIDGE_ADDRESS}\n"


def test_a_pod_sees_its_own_files_and_nothing_of_the_sandbox(cluster: Any) -> None:
    script = f"""
(touch /usr/x) 2>/dev/null || echo /usr is read-only
touch /tmp/x /newfile && echo writable
ls {cluster.layout.root} 2>/dev/null | wc -l
ps ax -o pid= -o comm= | head -1
getent hosts storage.googleapis.com metadata.google.internal | awk '{{print $1}}'
grep -c BEGIN /etc/ssl/certs/ca-certificates.crt
"""
    cluster.run("own", script)
    assert cluster.terminated("own")["exitCode"] == 0
    lines = cluster.log("own").splitlines()
    assert lines[:3] == ["/usr is read-only", "writable", "0"]
    assert lines[3].split() == ["1", "sh"]
    assert lines[4:6] == ["199.36.153.8", "169.254.169.254"]
    assert int(lines[6]) == cluster.layout.bundle.read_text().count("BEGIN")


def test_logs_go_to_cloud_logging_too(cluster: Any, until: Callable[..., None]) -> None:
    cluster.run("logged", "echo to the cloud")
    cluster.terminated("logged")

    def entries() -> list[dict[str, Any]]:
        return [one for one in cluster.front.entries if one["resource"]["labels"]["pod_name"] == "logged"]

    until(entries)
    assert [one["textPayload"] for one in entries()] == ["to the cloud"]
    assert entries()[0]["resource"]["labels"]["cluster_name"] == "encamp"


def test_pods_end_with_their_kubelet_and_its_successor_says_so(cluster: Any, until: Callable[..., None]) -> None:
    cluster.run("orphan", "echo up; exec sleep 8888")
    until(lambda: cluster.phase("orphan") == "Running" and cluster.log("orphan"))
    cluster.kill_kubelet()
    ended = cluster.terminated("orphan")
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    assert cluster.phase("orphan") == "Failed"
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "8888"]]
    assert cluster.log("orphan") == "up\n"
    cluster.run("after", "echo again")
    assert cluster.terminated("after")["exitCode"] == 0


def test_a_pod_that_a_later_kubelet_gives_another_address_goes_on(cluster: Any, until: Callable[..., None]) -> None:
    """Its containers had not started when the kubelet was killed: its successor makes the pod's network anew."""
    wanted = {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "later", "key": "word"}}}
    cluster.run("first", "exec sleep 8887")
    until(lambda: cluster.phase("first") == "Running")
    cluster.run("held", "echo $WORD", container={"env": [wanted]})
    until(lambda: cluster.pod("held")["status"].get("podIP") and "Failed" in cluster.events("held"))
    before = cluster.pod("held")["status"]["podIPs"]
    cluster.kill_kubelet()
    cluster.create("/api/v1/namespaces/trials/secrets", {"metadata": {"name": "later"}, "stringData": {"word": "on"}})
    assert cluster.terminated("held")["exitCode"] == 0
    status = cluster.pod("held")["status"]
    assert status["podIPs"] == [{"ip": status["podIP"]}] != before
    assert cluster.log("held") == "on\n"
    answer = cluster.api.delete("/api/v1/namespaces/trials/pods/held")
    assert answer.is_success
    until(lambda: cluster.phase("held") == "gone", 30)
