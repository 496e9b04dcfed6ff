"""Runs in every replica before the trainer: installs its packages, runs it, and says how it ended.

    python3 bootstrap.py -- python3 -m trainer.task ARGUMENTS...

Reads bootstrap.json beside itself. Needs the standard library of Python 3.5 or newer, the oldest Python of the images
that stand for runtime versions, and nothing of encamp. Exits with the trainer's own code, or 128 + n when signal n
ended it; with 124 where the job's deadline has passed, so that a replica whose machine is taken away then is not
started on another one.
"""

import collections
import importlib
import io
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
import zipfile

ACCOUNT_URL = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
STORAGE = "https://storage.googleapis.com/storage/v1/b/{}/o/{}?alt=media"
#: A new account's rights take a while to reach every server; until then it is refused.
PATIENCE_SECONDS = 180
LONGEST_MESSAGE = 4096
SERVER_ERROR = 500
LAST_LINES = 40
PIECE_BYTES = 64 * 1024
#: Ends a line that came from the trainer's stderr: blanks, which nobody sees and no reader of lines minds. Kubernetes
#: gives both streams as one.
STDERR_MARK = b" \t "
PAST_DEADLINE = 124
#: How often the file of a tuned job's metric is looked at; of what is new then, the last report is said.
METRIC_SECONDS = 1.0
METRIC_MARK = "encamp-metric: "
MOST_METRIC_BYTES = 1024 * 1024
#: A report is a line of at most so many characters, and the termination message has at most so many of them.
LONGEST_REPORT = 4096
LONGEST_REPORTS = 1024
MOST_KNOWN = 1000


class SetUpError(Exception):
    """The replica could not be set up; ``reason`` is one word for programs."""

    def __init__(self, reason, message, lines=()):
        super().__init__(message)
        self.reason = reason
        self.lines = list(lines)


class Stopped(Exception):
    """SIGTERM came before the trainer was started."""


def deadline_passed():
    """Whether nothing of the job may run any more; the deadline is in seconds since the epoch."""
    deadline = os.environ.get("ENCAMP_DEADLINE", "")
    return deadline.isdigit() and time.time() >= int(deadline)


def refuse_late_start():
    """Nothing is set up for a job that may not run any more."""
    if deadline_passed():
        raise Stopped


def say(text):
    """A line of the replica's own log, told apart from the trainer's."""
    print("encamp: " + text, file=sys.stderr, flush=True)


def settings():
    """What to set up."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap.json"), encoding="utf-8") as file:
        return json.load(file)


def fetch(url, headers, what):
    """The body of a GET, tried again while the cause may pass."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = 0.5
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            problem = "HTTP {} {}".format(error.code, error.reason)
            passing = error.code in (401, 403, 408, 429) or error.code >= SERVER_ERROR
        except (OSError, ValueError) as error:
            problem, passing = str(error), True
        if not passing or time.monotonic() + pause > deadline:
            raise SetUpError("PackageDownloadFailed", "cannot read {}: {}".format(what, problem))
        time.sleep(pause)
        pause = min(pause * 2, 10)


def token():
    """An access token of the job's account."""
    body = fetch(ACCOUNT_URL, {"Metadata-Flavor": "Google"}, "a token of the job's account")
    return json.loads(body.decode("utf-8"))["access_token"]


def download(uri, folder, index):
    """A package of Cloud Storage as a local file."""
    bucket, _, name = uri[len("gs://") :].partition("/")
    say("Downloading the package: " + uri)
    url = STORAGE.format(urllib.parse.quote(bucket, safe=""), urllib.parse.quote(name, safe=""))
    content = fetch(url, {"Authorization": "Bearer " + token()}, uri)
    place = os.path.join(folder, "downloads", str(index))
    os.makedirs(place, exist_ok=True)
    path = os.path.join(place, os.path.basename(name))
    with open(path, "wb") as file:
        file.write(content)
    return path


def is_pure_wheel(path):
    """Whether a package is a wheel whose installation is to unpack it."""
    if not path.endswith("-none-any.whl"):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False
    special = [name for name in names if ".data/" in name.partition("/")[0] + "/" or name.endswith("entry_points.txt")]
    return not special


def unpack(path, target):
    """Install a pure wheel."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(target)


def pip(arguments, what, variables=None):
    """Run pip; its last lines are the reason when it fails."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"] + arguments
    say("Running command: " + " ".join(command))
    environment = dict(os.environ, PIP_ROOT_USER_ACTION="ignore")
    environment.update(variables or {})
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = collections.deque(maxlen=LAST_LINES)
    for line in run.stdout:
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
        lines.append(line[:2000].decode("utf-8", "replace").rstrip())
    if run.wait() != 0:
        raise SetUpError("PackageInstallFailed", "pip could not install " + what, lines)


def canonical(name):
    """A distribution's name, whatever its spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def old_distributions(path):
    """Name, version and requirements of what is installed, where Python is older than importlib.metadata (3.8)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resources = importlib.import_module("pip._vendor.pkg_resources")
    for place in path:
        for found in resources.find_distributions(place):
            yield found.project_name, found.version, [str(one) for one in found.requires()]


def distributions(path):
    """Name, version and requirements of what is installed in the folders of ``path``."""
    try:
        metadata = importlib.import_module("importlib.metadata")
    except ImportError:
        for found in old_distributions(path):
            yield found
        return
    for found in metadata.distributions(path=path):
        name = found.metadata["Name"]
        if name:
            yield name, found.version, found.requires or []


def missing(texts):
    """Which requirements nothing fulfils yet; all of them where that cannot be told."""
    try:
        parse = importlib.import_module("pip._vendor.packaging.requirements").Requirement
        have = {}
        for name, version, _ in distributions(sys.path):
            have.setdefault(canonical(name), version)
        wanted = [(text, parse(text)) for text in texts]
    except (AttributeError, ImportError, KeyError, OSError, TypeError, ValueError) as error:
        say("what is installed cannot be told ({}); pip looks at it all".format(error))
        return list(texts)
    lacking = []
    for text, requirement in wanted:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = have.get(canonical(requirement.name))
        plain = not requirement.extras and not requirement.url
        if not plain or found is None or not requirement.specifier.contains(found, prereleases=True):
            lacking.append(text)
    return lacking


def pip_reports():
    """Whether this pip can say what it would install without installing it (22.2)."""
    try:
        version = importlib.import_module("pip").__version__
        return tuple(int(part) for part in version.split(".")[:2]) >= (22, 2)
    except (ImportError, AttributeError, ValueError):
        return False


def install_requirements(texts, target, folder):
    """Install what is missing, and of its own requirements only what is missing too.

    pip does not look at what is installed when it installs into a folder: it would bring a second numpy to hide the
    image's. So it is asked first what it would add to all that is there.
    """
    lacking = missing(texts)
    if not lacking:
        return
    what = ", ".join(lacking)
    if not pip_reports():
        pip(["--target", target, "--upgrade"] + lacking, what)
        return
    report = os.path.join(folder, "pip-report.json")
    path = os.pathsep.join([target] + ([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []))
    pip(["--dry-run", "--quiet", "--report", report] + lacking, what, {"PYTHONPATH": path})
    with open(report, encoding="utf-8") as file:
        found = json.load(file)["install"]
    exact = [
        one["download_info"]["url"]
        if one.get("is_direct")
        else "{}=={}".format(one["metadata"]["name"], one["metadata"]["version"])
        for one in found
    ]
    if exact:
        pip(["--target", target, "--upgrade", "--no-deps"] + exact, what)


def install(uris, requirements, folder):
    """Install into a folder of this pod's own: requirements, then packages in order, then what those require."""
    target = os.path.join(folder, "packages")
    os.makedirs(target, exist_ok=True)
    sys.path.insert(0, target)
    install_requirements(requirements, target, folder)
    for index, uri in enumerate(uris):
        path = download(uri, folder, index)
        if is_pure_wheel(path):
            unpack(path, target)
        else:
            pip(["--target", target, "--upgrade", "--no-deps", path], os.path.basename(path))
    try:
        needed = [text for _, _, texts in distributions([target]) for text in texts]
    except ImportError as error:
        say("what the packages require cannot be told: {}".format(error))
        needed = []
    install_requirements(needed, target, folder)
    return target


def tell_versions(wanted):
    """One line when the Python here is not the one that was asked for."""
    here = "{}.{}".format(*sys.version_info[:2])
    if wanted.get("pythonVersion") and wanted["pythonVersion"] != here:
        say(
            "runtime version {} asks for Python {}; this replica has Python {}".format(
                wanted.get("runtimeVersion") or "of the image", wanted["pythonVersion"], here
            )
        )


class MetricWatch:
    """Says in the replica's log what the trainer writes to the file of its metric (cloudml-hypertune's).

    The file lies within the replica and goes with it; the log is kept. At most a line a second, always the last one.
    """

    def __init__(self, path, tag):
        self.path = path
        self.tag = tag
        self.known = collections.OrderedDict()
        self.said = collections.deque(maxlen=LAST_LINES)
        self.other = ""
        self.signature = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        """Look until it is over."""
        while not self.over.wait(METRIC_SECONDS):
            self.look()

    def finish(self):
        """Say what is left, after the trainer's end; of a job that reported only other metrics, the last of those."""
        self.over.set()
        self.thread.join(5)
        self.signature = None
        self.look()
        if not self.said and self.other:
            self.say(self.other)

    def look(self):
        """Say the last of what is new."""
        fresh = ""
        for record in self.records():
            text = json.dumps(record, sort_keys=True)
            if len(text) > LONGEST_REPORT or text in self.known:
                continue
            self.known[text] = True
            if self.tag and self.tag not in record:
                self.other = text
            else:
                fresh = text
        while len(self.known) > MOST_KNOWN:
            self.known.popitem(last=False)
        if fresh:
            self.say(fresh)

    def records(self):
        """The reports of the file's whole lines; the last may be half written."""
        try:
            found = os.stat(self.path)
            signature = (found.st_mtime, found.st_size)
            if signature == self.signature:
                return
            with open(self.path, "rb") as file:
                file.seek(max(0, found.st_size - MOST_METRIC_BYTES))
                content = file.read(MOST_METRIC_BYTES)
        except OSError:
            return
        self.signature = signature
        for line in content.split(b"\n")[:-1]:
            try:
                record = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record

    def say(self, text):
        """One line at once, that no line of the trainer can fall into."""
        self.said.append(text)
        sys.stderr.buffer.write((METRIC_MARK + text + "\n").encode("ascii"))
        sys.stderr.buffer.flush()

    def last(self):
        """The last reports, as many as a termination message has room for."""
        kept, size = [], 0
        for text in reversed(self.said):
            size += len(json.dumps(text)) + 2
            if size > LONGEST_REPORTS:
                break
            kept.insert(0, text)
        return kept


def metric_watch():
    """The watch of a tuned job's metric, None where there is none."""
    path = os.environ.get("CLOUD_ML_HP_METRIC_FILE")
    if not path:
        return None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        say("there is no folder for {}: {}".format(path, error))
    watch = MetricWatch(path, os.environ.get("CLOUD_ML_HP_METRIC_TAG", ""))
    watch.thread.start()
    return watch


def copy(streams, lines):
    """Copy streams as they come, line by line, and keep their last lines; ``streams`` are pairs of source and sink.

    Of what has come on both, the first one's goes first: what a program put out before it failed stands before the
    traceback, and not within it.
    """
    held = {number: bytearray() for number in range(len(streams))}
    with selectors.DefaultSelector() as selector:
        for number, (source, _) in enumerate(streams):
            selector.register(source, selectors.EVENT_READ, number)
        while held:
            for number in sorted(key.data for key, _ in selector.select()):
                source, sink = streams[number]
                piece = os.read(source.fileno(), PIECE_BYTES)
                held[number] += piece
                end = held[number].rfind(b"\n") + 1 if piece else len(held[number])
                for line in io.BytesIO(held[number][:end]):
                    lines.append(line[:2000].decode("utf-8", "replace").rstrip())
                    # What the replica itself says may come after it, and begins a line.
                    sink.write(line.rstrip(b"\n") + STDERR_MARK + b"\n" if sink is sys.stderr.buffer else line)
                sink.flush()
                del held[number][:end]
                if not piece:
                    selector.unregister(source)
                    del held[number]


def raise_locked_memory():
    """Raise the limit of memory that the trainer may lock, where the job is told to: drivers of TPUs lock a lot."""
    wanted = os.environ.get("ENCAMP_LOCKED_MEMORY", "")
    if not wanted.isdigit():
        return
    limit = int(wanted)
    try:
        resource = importlib.import_module("resource")
        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        # A limit that is higher, or none (-1), is left.
        soft, hard = (each if each < 0 else max(each, limit) for each in (soft, hard))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))
    except (ImportError, OSError, ValueError) as error:
        say("the limit of locked memory stays as it is: {}".format(error))


def nccl_variables(folder):
    """The trainer's variables for Google's plugin for NCCL in this folder, most of which its own script sets."""
    environment = dict(os.environ)
    libraries = [os.path.join(folder, "lib64")]
    if environment.get("LD_LIBRARY_PATH"):
        libraries.append(environment["LD_LIBRARY_PATH"])
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
    script = os.path.join(folder, "scripts", "set_nccl_env.sh")
    tell = "import json, os; print(json.dumps(dict(os.environ)))"
    load = 'test -r "$0" || exit 1; source "$0" >&2; exec "$1" -c "$2"'
    command = ["bash", "-c", load, script, sys.executable, tell]
    try:
        said = json.loads(subprocess.check_output(command, env=environment).decode("utf-8"))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise SetUpError("NetworkSetUpFailed", "cannot load NCCL's plugin by {}: {}".format(script, error)) from None
    # Without it NCCL takes TCP where the plugin fails, and nobody sees why a run is slow.
    environment.setdefault("NCCL_NET", "gIB")
    environment.update((name, value) for name, value in said.items() if name.startswith("NCCL_"))
    return environment


def run_trainer(command, packages, lines):
    """Run the trainer to its end, passing SIGTERM on; its exit code and whether it was told to stop."""
    plugin = os.environ.get("ENCAMP_NCCL_PLUGIN")
    environment = nccl_variables(plugin) if plugin else dict(os.environ)
    paths = [packages] + ([environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else [])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["PATH"] = os.path.join(packages, "bin") + os.pathsep + environment.get("PATH", os.defpath)
    say("Running task: " + " ".join(command[:3]))
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    told = []

    def pass_on(number, frame):
        told.append(number)
        child.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    streams = ((child.stdout, sys.stdout.buffer), (child.stderr, sys.stderr.buffer))
    copying = threading.Thread(target=copy, args=(streams, lines), daemon=True)
    copying.start()
    code = child.wait()
    copying.join(5)
    return (128 - code if code < 0 else code), bool(told)


def memory_kills():
    """How many processes of this container were killed for lack of memory, where the kernel says so."""
    for path, key in (
        ("/sys/fs/cgroup/memory.events", "oom_kill"),
        ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
    ):
        try:
            with open(path) as file:
                for line in file:
                    name, _, value = line.partition(" ")
                    if name == key:
                        return int(value)
        except (OSError, ValueError):
            continue
    return 0


def write_message(path, code, reason, lines, metrics=()):
    """The termination message: how it ended, the last reports of a metric and the last lines, as much as fits."""
    kept = list(lines)
    said = {"exitCode": code, "reason": reason}
    if metrics:
        said["metrics"] = list(metrics)
    while True:
        text = json.dumps(dict(said, lastLines=kept), ensure_ascii=False)
        if len(text.encode("utf-8", "replace")) <= LONGEST_MESSAGE or not kept:
            break
        kept = kept[1:] if len(kept) > 1 else [kept[0][: len(kept[0]) // 2]] if len(kept[0]) > 1 else []
    try:
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        say("cannot write {}: {}".format(path, error))


def stop(number, frame):
    """SIGTERM while packages are installed."""
    raise Stopped


def main(arguments):
    """Set up, run, report."""
    command = arguments[arguments.index("--") + 1 :]
    wanted = settings()
    lines = collections.deque(maxlen=LAST_LINES)
    kills = memory_kills()
    signal.signal(signal.SIGTERM, stop)
    stopped, watch = True, None
    try:
        refuse_late_start()
        tell_versions(wanted)
        packages = install(wanted["packages"], wanted.get("requirements", []), wanted["runDirectory"])
        watch = metric_watch()
        raise_locked_memory()
        code, stopped = run_trainer(command, packages, lines)
        reason = "Completed" if code == 0 else "Error"
        if code == 128 + signal.SIGKILL and memory_kills() > kills:
            reason = "OOMKilled"
    except SetUpError as error:
        code, reason, stopped = 1, error.reason, False
        lines.extend([*error.lines, str(error)])
        say(str(error))
    except Stopped:
        code, reason = 128 + signal.SIGTERM, "Stopped"
    if stopped and deadline_passed():
        code, reason = PAST_DEADLINE, "DeadlinePassed"
        say("The job's deadline has passed: this replica is not started again.")
    if watch is not None:
        watch.finish()
    say("Module completed; cleaning up." if code == 0 else "The replica exits with {} ({}).".format(code, reason))
    write_message(wanted["terminationMessage"], code, reason, lines, watch.last() if watch is not None else ())
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
