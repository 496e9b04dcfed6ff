"""The bootstrap script as a process, against a metadata server and a storage server on loopback."""

from __future__ import annotations

import http.server
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.packaging.wheel import pack, stored_zip
from encamp.run.logs.log_lines import STDERR_MARK
from encamp.spec.ai_platform import version_key
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Every test of it starts processes.
pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent.parent.parent / "templates" / "bootstrap.py"
MARK = "encamp-metric: "
TASK = b"""
import os, signal, sys, time
print("hello from", __name__, flush=True)
if "--fail" in sys.argv:
    print("x" * 3000, file=sys.stderr)
    print("the cause", file=sys.stderr)
    sys.exit(3)
if "--fail-at" in sys.argv:
    time.sleep(max(0, float(sys.argv[-1]) - time.time()) + 0.01)
    sys.exit(3)
if "--kill" in sys.argv:
    os.kill(os.getpid(), signal.SIGSEGV)
if "--wait" in sys.argv:
    def stop(number, frame):
        print("saving", flush=True)
        sys.exit(9)
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    time.sleep(60)
if "--nccl" in sys.argv:
    wanted = ("LD_LIBRARY_PATH", "NCCL_NET", "NCCL_IB_TC", "SECRET_OF_THE_SCRIPT")
    print("nccl", [os.environ.get(name) for name in wanted])
if "--locked" in sys.argv:
    import resource
    print("locked", resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
if "--report" in sys.argv:
    import hypertune
    print("almost done", end="", file=sys.stderr)
    for step in range(1, 121):
        hypertune.HyperTune().report_hyperparameter_tuning_metric("accuracy", step / 1000, step)
if "--report-other" in sys.argv:
    import hypertune
    hypertune.HyperTune().report_hyperparameter_tuning_metric("loss", 2.5, 7)
"""


def test_no_image_of_a_runtime_version_has_an_older_python_than_the_script_needs() -> None:
    """By its grammar and by what it uses of the standard library."""
    versions = data_file("runtimes")["versions"].values()
    oldest = min((entry["python3"] for entry in versions), key=version_key)
    assert oldest == "3.5"
    command = [str(Path(sys.executable).with_name("vermin")), f"--target={oldest}-", "--no-tips", str(SCRIPT)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
    assert f"Minimum required versions: {oldest}" in found.stdout


class Cloud(http.server.BaseHTTPRequestHandler):
    objects: dict[str, bytes]
    refusals = 0

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/token":
            right = self.headers["Metadata-Flavor"] == "Google"
            self.answer(200 if right else 403, json.dumps({"access_token": "secret"}).encode())
        elif self.headers["Authorization"] != "Bearer secret":
            self.answer(401, b"")
        elif Cloud.refusals > 0:
            Cloud.refusals -= 1
            self.answer(403, b"")
        else:
            found = Cloud.objects.get(path)
            self.answer(200 if found is not None else 404, found or b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Path]:
    """A folder like /encamp, its script pointed at servers on loopback."""
    name, content = pack("trainer", {"__init__.py": b"", "task.py": TASK})
    Cloud.objects = {f"/b/scratch/o/packages%2F1%2F{name}": content}
    Cloud.refusals = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cloud) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        lines = SCRIPT.read_text(encoding="utf-8").splitlines(keepends=True)
        addresses = {"ACCOUNT_URL = ": f'"{base}/token"', "STORAGE = ": f'"{base}/b/{{}}/o/{{}}?alt=media"'}
        for start, value in addresses.items():
            (position,) = [index for index, line in enumerate(lines) if line.startswith(start)]
            lines[position] = f"{start}{value}\n"
        (tmp_path / "bootstrap.py").write_text("".join(lines), encoding="utf-8")
        settings(tmp_path, [f"gs://scratch/packages/1/{name}"])
        yield tmp_path
        server.shutdown()


def settings(folder: Path, packages: Sequence[str], requirements: Sequence[str] = ()) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    data = {
        "packages": list(packages),
        **({"requirements": list(requirements)} if requirements else {}),
        "pythonVersion": here,
        "runtimeVersion": "2.11",
        "runDirectory": str(folder / "run"),
        "terminationMessage": str(folder / "termination-log"),
    }
    (folder / "bootstrap.json").write_text(json.dumps(data), encoding="utf-8")


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(folder / "bootstrap.py"), "--", sys.executable, "-m", "trainer.task", *arguments]
    clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")} | variables
    return subprocess.Popen(
        command, cwd="/", env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def message(folder: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads((folder / "termination-log").read_text(encoding="utf-8"))
    return data


def test_a_package_is_installed_and_its_module_run(replica: Path) -> None:
    out, err = start(replica, "--a").communicate(timeout=30)
    assert "hello from __main__" in out
    assert "Downloading the package" in err
    assert message(replica) == {"exitCode": 0, "reason": "Completed", "lastLines": ["hello from __main__"]}


def test_a_new_account_is_waited_for(replica: Path) -> None:
    Cloud.refusals = 2
    process = start(replica)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_failure_keeps_its_code_and_last_lines(replica: Path) -> None:
    process = start(replica, "--fail")
    process.communicate(timeout=30)
    said = message(replica)
    assert (process.returncode, said["exitCode"], said["reason"]) == (3, 3, "Error")
    # What the trainer wrote before it failed comes first, although it is another stream.
    assert said["lastLines"] == ["hello from __main__", "x" * 2000, "the cause"]
    assert (replica / "termination-log").stat().st_size <= 4096


def test_lines_of_stderr_are_marked_and_no_others_are(replica: Path) -> None:
    out, err = start(replica, "--fail").communicate(timeout=30)
    mark = STDERR_MARK.decode()
    assert out.splitlines() == ["hello from __main__"]
    marked = [line for line in err.splitlines() if line.endswith(mark)]
    assert marked == ["x" * 3000 + mark, f"the cause{mark}"]
    # What the script itself says is no error of the trainer's.
    assert all(line.startswith("encamp: ") for line in err.splitlines() if line not in marked)
    assert f"STDERR_MARK = {STDERR_MARK!r}".replace("'", '"') in SCRIPT.read_text()


def test_a_signal_is_128_and_its_number(replica: Path) -> None:
    process = start(replica, "--kill")
    process.communicate(timeout=30)
    assert (process.returncode, message(replica)["exitCode"]) == (139, 139)


def says(process: subprocess.Popen[str], word: str) -> bool:
    """Wait until it says a word; False where it ends without."""
    assert process.stdout is not None
    return any(word in line for line in iter(process.stdout.readline, ""))


def until_said(process: subprocess.Popen[str], word: str) -> None:
    assert says(process, word)


def test_sigterm_reaches_the_trainer(replica: Path) -> None:
    process = start(replica, "--wait")
    until_said(process, "ready")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, "saving" in out) == (9, True)


def test_after_the_deadline_nothing_starts(replica: Path) -> None:
    process = start(replica, ENCAMP_DEADLINE=str(int(time.time())))
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (124, "")
    assert "deadline has passed" in err
    assert message(replica)["reason"] == "DeadlinePassed"


def test_what_is_stopped_after_the_deadline_says_so_and_what_ends_by_itself_does_not(replica: Path) -> None:
    # A busy machine may not have started both before; then it has more time.
    for seconds in (4, 30):
        deadline = int(time.time()) + seconds
        process = start(replica, "--wait", ENCAMP_DEADLINE=str(deadline))
        failing = start(replica, "--fail-at", str(deadline), ENCAMP_DEADLINE=str(deadline))
        if says(failing, "hello") and says(process, "ready") and time.time() < deadline:
            break
        for late in (process, failing):
            late.terminate()
            late.communicate(timeout=30)
    assert failing.wait(60) == 3
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, "saving" in out, message(replica)["reason"]) == (124, True, "DeadlinePassed")
    failing.communicate(timeout=30)


def test_a_missing_package_is_no_training_failure(replica: Path) -> None:
    settings(replica, ["gs://scratch/nothing.tar.gz"])
    process = start(replica)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert message(replica)["reason"] == "PackageDownloadFailed"
    assert "gs://scratch/nothing.tar.gz" in str(message(replica)["lastLines"])


def wheel(name: str, version: str, *requires: str, extra: str = "") -> tuple[str, bytes]:
    """A wheel of one module; ``extra`` is a script of its, for which pip must be called."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    members = {
        f"{name}.py": b"",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **({f"{name}-{version}.data/scripts/{extra}": b"#!python\nprint('script')\n"} if extra else {}),
    }
    members[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*members, f"{info}/RECORD"]).encode()
    content = stored_zip({path: (member, 0o644) for path, member in members.items()})
    return f"{name}-{version}-py3-none-any.whl", content


@pytest.fixture
def index(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder that pip finds packages in, and the variables that keep it there."""
    folder = tmp_path / "index"
    folder.mkdir()
    return folder, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def test_only_what_is_missing_is_installed(replica: Path, index: tuple[Path, dict[str, str]]) -> None:
    folder, variables = index
    for name, content in (wheel("mars", "2.1", "packaging>=1", "phobos"), wheel("phobos", "1.0"), wheel("deimos", "1")):
        (folder / name).write_bytes(content)
    settings(replica, uris(replica), ["mars>=2", "pytest", "deimos; python_version < '3'"])
    _, err = start(replica, **variables).communicate(timeout=60)
    assert message(replica)["exitCode"] == 0, err
    found = {path.name for path in (replica / "run" / "packages").iterdir() if path.suffix == ".py"}
    assert found == {"mars.py", "phobos.py"}
    assert not (replica / "run" / "packages" / "packaging").exists()


def test_what_is_there_needs_no_pip(replica: Path) -> None:
    settings(replica, uris(replica), ["PyTest >= 1", "hypothesis"])
    _, err = start(replica).communicate(timeout=30)
    assert message(replica)["exitCode"] == 0
    assert "Running command" not in err


def test_what_packages_require_comes_last(replica: Path, index: tuple[Path, dict[str, str]]) -> None:
    folder, variables = index
    name, content = wheel("ganymede", "1.0")
    (folder / name).write_bytes(content)
    name, content = wheel("jupiter", "1.0", "ganymede", "pytest", 'saturn; extra == "rings"', extra="orbit")
    Cloud.objects[f"/b/scratch/o/{name}"] = content
    settings(replica, [f"gs://scratch/{name}", *uris(replica)])
    _, err = start(replica, **variables).communicate(timeout=60)
    assert message(replica)["exitCode"] == 0, err
    assert (replica / "run" / "packages" / "ganymede.py").exists()
    assert (replica / "run" / "packages" / "bin" / "orbit").exists()


def test_an_unsatisfiable_requirement_is_no_training_failure(replica: Path, index: tuple[Path, dict[str, str]]) -> None:
    settings(replica, uris(replica), ["moon>=2"])
    out, _ = start(replica, **index[1]).communicate(timeout=60)
    said = message(replica)
    assert (said["exitCode"], said["reason"]) == (1, "PackageInstallFailed")
    lines = said["lastLines"]
    assert isinstance(lines, list)
    assert lines[-1] == "pip could not install moon>=2"
    assert any("No matching distribution" in line for line in lines)
    assert "hello" not in out


def test_a_package_that_is_no_archive_says_so(replica: Path) -> None:
    Cloud.objects["/b/scratch/o/t-0.0.0-py3-none-any.whl"] = b"no zip"
    settings(replica, ["gs://scratch/t-0.0.0-py3-none-any.whl"])
    start(replica).communicate(timeout=60)
    said = message(replica)
    assert said["reason"] == "PackageInstallFailed"
    assert "pip could not install t-0.0.0-py3-none-any.whl" in str(said["lastLines"])


def uris(folder: Path) -> list[str]:
    """The packages that the replica has from its fixture."""
    found: list[str] = json.loads((folder / "bootstrap.json").read_text(encoding="utf-8"))["packages"]
    return found


def test_sigterm_before_the_trainer_ends_the_set_up(replica: Path) -> None:
    Cloud.refusals = 1000
    process = start(replica)
    assert process.stderr is not None
    while "Downloading" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert (process.returncode, message(replica)["reason"]) == (143, "Stopped")


def tuned(folder: Path) -> dict[str, str]:
    """Variables of a trial's replica."""
    return {
        "CLOUD_ML_HP_METRIC_FILE": str(folder / "run" / "hypertune" / "output.metrics"),
        "CLOUD_ML_HP_METRIC_TAG": "accuracy",
        "CLOUD_ML_TRIAL_ID": "3",
    }


def test_the_last_report_of_a_metric_is_said_and_kept(replica: Path) -> None:
    _, err = start(replica, "--report", **tuned(replica)).communicate(timeout=30)
    said = [line for line in err.splitlines() if line.startswith(MARK)]
    record = json.loads(said[-1].removeprefix(MARK))
    assert (record["accuracy"], record["global_step"], record["trial"]) == ("0.12", "120", "3")
    assert message(replica)["metrics"] == [line.removeprefix(MARK) for line in said]
    assert f"almost done{STDERR_MARK.decode()}" in err.splitlines()


def test_a_job_that_reports_another_metric_says_which(replica: Path) -> None:
    start(replica, "--report-other", **tuned(replica)).communicate(timeout=30)
    (text,) = message(replica)["metrics"]  # type: ignore[misc]
    assert json.loads(text)["loss"] == "2.5"


@pytest.fixture
def watch(tmp_path: Path) -> Any:
    """A watch of a file that is not there yet, not begun."""
    module = runpy.run_path(str(SCRIPT))
    return module["MetricWatch"](str(tmp_path / "output.metrics"), "accuracy")


def report(step: int, tag: str = "accuracy") -> str:
    return json.dumps({"global_step": str(step), "timestamp": step + 0.5, tag: "0.5"}, sort_keys=True)


def test_of_what_is_new_the_last_is_said_once(watch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    path = Path(watch.path)
    watch.look()
    path.write_text(f"{report(1)}\n{report(2)}\n{report(3)[:20]}", encoding="utf-8")
    watch.look()
    # The library writes the file anew each time, so it may be seen with less than before.
    path.write_text(f"{report(1)}\n", encoding="utf-8")
    watch.look()
    path.write_text(f"{report(2)}\n{report(3)}\n{report(4, 'loss')}\nno report\n[]\n\xff\n", encoding="utf-8")
    watch.look()
    watch.look()
    assert capfd.readouterr().err == f"{MARK}{report(2)}\n{MARK}{report(3)}\n"


def test_reports_stay_within_a_termination_message(watch: Any, capfd: pytest.CaptureFixture[str]) -> None:
    path = Path(watch.path)
    for step in range(60):
        path.write_text(f"{report(step)}\n", encoding="utf-8")
        watch.look()
    last = watch.last()
    assert last[-1] == report(59)
    assert sum(len(json.dumps(one)) for one in last) <= 1024
    path.write_text(json.dumps({"accuracy": "1" * 5000}) + "\n", encoding="utf-8")
    watch.look()
    assert "11111" not in capfd.readouterr().err


def test_memory_may_be_locked_where_the_job_says_so(replica: Path) -> None:
    """The limit is raised and never lowered; the trainer has it from the set-up."""
    script = 'ulimit -S -l 64; exec "$@"'
    for wanted, expected in (("131072", "131072"), ("1024", "65536"), ("", "65536")):
        task = [sys.executable, "-m", "trainer.task", "--locked"]
        command = ["sh", "-c", script, "sh", sys.executable, str(replica / "bootstrap.py"), "--", *task]
        env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        env["ENCAMP_LOCKED_MEMORY"] = wanted
        found = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=30, check=False)
        assert f"locked {expected}" in found.stdout, found.stderr


def test_a_limit_that_cannot_be_raised_is_said_and_left(replica: Path) -> None:
    script = 'ulimit -l 64; exec "$@"'
    task = [sys.executable, "-m", "trainer.task", "--locked"]
    nobody = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"] if os.geteuid() == 0 else []
    command = ["sh", "-c", script, "sh", *nobody, sys.executable, str(replica / "bootstrap.py"), "--", *task]
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    env["ENCAMP_LOCKED_MEMORY"] = "131072"
    found = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=30, check=False)
    assert "the limit of locked memory stays as it is" in found.stderr
    assert "locked 65536" in found.stdout


def _with_plugin(replica: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(replica / "bootstrap.py"), "--", sys.executable, "-m", "trainer.task", "--nccl"]
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    env |= {"ENCAMP_NCCL_PLUGIN": str(folder), **variables}
    return subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=30, check=False)


def test_the_script_of_nccls_plugin_says_the_trainers_variables(replica: Path, tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "set_nccl_env.sh"
    script.parent.mkdir()
    # Its last command may fail: what it prints and returns says nothing.
    script.write_text("export NCCL_IB_TC=52 SECRET_OF_THE_SCRIPT=1; echo said by the script; false\n")
    found = _with_plugin(replica, tmp_path, LD_LIBRARY_PATH="/of/the/image")
    assert f"nccl ['{tmp_path}/lib64:/of/the/image', 'gIB', '52', None]" in found.stdout, found.stderr
    assert "said by the script" in found.stderr
    script.write_text("export NCCL_NET=other\n")
    found = _with_plugin(replica, tmp_path, LD_LIBRARY_PATH="")
    assert f"nccl ['{tmp_path}/lib64', 'other', None, None]" in found.stdout, found.stderr


def test_a_replica_without_the_plugin_that_it_was_promised_fails(replica: Path, tmp_path: Path) -> None:
    found = _with_plugin(replica, tmp_path)
    assert found.returncode == 1
    assert f"cannot load NCCL's plugin by {tmp_path}/scripts/set_nccl_env.sh" in found.stderr
