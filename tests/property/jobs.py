"""Valid job files, made from the catalog: every tier, machine type, accelerator and option comes up by itself.

What is drawn is the file's data, camelCase, as a user writes it; free text is as hostile as the field allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from encamp.plan.machines import catalog
from encamp.plan.machines.placing import offered
from encamp.plan.replicas import roles as planned_roles
from encamp.spec import machines_today as today
from encamp.spec.ai_platform import CLOUD_TPU, ai_platform
from encamp.spec.data_files import data_file
from encamp.spec.encamp import GpuType, MachineSpec, Provisioning, RunAs, TpuVersion
from encamp.spec.job_file import parse_job
from encamp.spec.roles import Role
from encamp.spec.training import ScaleTier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Data = dict[str, Any]

ROLES = tuple(role.key for role in Role)
IMAGES = ("gcr.io/p/trainer:1", "us-docker.pkg.dev/p/r/trainer@sha256:" + "0" * 64, "trainer")
#: What has a meaning to one of the languages that a text passes through.
NASTY = (
    *("$(ENCAMP_REPLICA_INDEX)", "$$(X)", "$(", "$", "$$", "${HOME}", "`id`", "{{ plan }}", "{% raw %}", "{# no #}"),
    *('"', "'", "\\", "\\n", "\n", "\r\n", "\t", " ", "#", ": ", "- ", "--", "&a", "*a", "!!python/object:os.system"),
    *("\u2028", "\x85", "\ufeff", "\x7f", "\x1b[31m", "\u202e", "\u200f", "😀", "漢", "null", "yes", "0x1F", "\x01"),
    *("1e3", "0o17", "1_0", "y", "N", "---\n", "...", "2020-01-01", "12:30", "~", ".5"),
)
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
TEXT = st.one_of(
    ANY_TEXT,
    st.sampled_from(NASTY),
    st.lists(st.sampled_from(NASTY), max_size=6).map("".join),
    st.sampled_from(NASTY).map(lambda piece: (piece * 4096)[:1024]),
)
TEXTS = st.lists(TEXT, max_size=5)
LINE = TEXT.map(lambda text: "".join(text.splitlines()) or "o").filter(lambda text: len(text.encode()) <= 900)
NAME = st.from_regex(r"[a-z][a-z0-9]{2,12}", fullmatch=True)
COUNT = st.sampled_from([1, 1, 1, 2, 3, 70])
#: The region of the environment that the files are planned for.
HERE = "us-central1"


def merged(*parts: Data) -> Data:
    """One mapping of several, mappings inside them merged too."""
    result: Data = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def maybe(strategy: st.SearchStrategy[Data]) -> st.SearchStrategy[Data]:
    """The fields, or none of them."""
    return st.just({}) | strategy


def field(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    return values.map(lambda value: {name: value})


def today_too(accelerators: Mapping[str, Iterable[int]]) -> dict[str, list[int]]:
    """The accelerators, and counts of them, that something stands for today."""
    found = {
        kind: [count for count in counts if not kind.startswith("TPU_") or catalog.ai_platform_tpu(kind, count)[0]]
        for kind, counts in accelerators.items()
    }
    return {kind: counts for kind, counts in found.items() if counts}


@st.composite
def old_machines(draw: st.DrawFn) -> tuple[Data, list[str]]:
    """Machines as AI Platform named them, and the roles that have replicas."""
    tier = draw(st.sampled_from(ScaleTier))
    if tier is not ScaleTier.CUSTOM:
        groups = data_file("tiers")["scaleTiers"][tier.value]
        names = {"master": "master", "worker": "worker", "ps": "parameterServer"}
        written = {} if tier is ScaleTier.BASIC and draw(st.booleans()) else {"scaleTier": tier.value}
        return written, [names[name] for name, group in groups.items() if name in names and group is not None]
    tables = ai_platform()
    legacy = sorted(tables.legacy_types - {CLOUD_TPU})
    types = draw(st.sampled_from([legacy, sorted(tables.compute_engine_types)]))
    found: Data = {"scaleTier": "CUSTOM"}
    roles = ["master", *draw(st.lists(st.sampled_from(ROLES[1:]), unique=True))]
    for role in roles:
        tpu = role == "worker" and draw(st.integers(0, 4)) == 0
        machine_type = CLOUD_TPU if tpu else draw(st.sampled_from(types))
        count: Data = {} if role == "master" else {f"{role}Count": 1 if tpu else draw(COUNT)}
        accelerators = today_too(tables.gpu_counts.get(machine_type, {}))
        config: Data = {}
        if accelerators and draw(st.booleans()):
            kind = draw(st.sampled_from(sorted(accelerators)))
            amount = draw(st.sampled_from(accelerators[kind]))
            config = {f"{role}Config": {"acceleratorConfig": {"type": kind, "count": amount}}}
        found = merged(found, {f"{role}Type": machine_type}, count, config)
    return found, roles


@st.composite
def slices(draw: st.DrawFn, *, single: bool) -> tuple[Data, int]:
    """A TPU slice as it is asked for, and its hosts."""
    version = draw(st.sampled_from(TpuVersion)).value
    known = [one for one in today.slices(version).values() if one.hosts == 1 or (not single and one.hosts <= 64)]
    wanted = draw(st.sampled_from(known))
    alike = [one for one in today.slices(version).values() if one.chips == wanted.chips]
    by_chips = alike[0] == wanted and draw(st.booleans())
    shape: Data = {"chips": wanted.chips} if by_chips else {"topology": wanted.topology}
    return {"tpu": {"version": version, **shape}}, wanted.hosts


@st.composite
def todays_machine(draw: st.DrawFn, role: str) -> tuple[Data, int | None]:
    """A machine of today, and how many replicas it asks for; None where any number will do."""
    kind = draw(st.sampled_from(["machine", "gpu", "gpu on machine", "tpu"]))
    if kind == "tpu" and role in {"master", "worker"}:
        machine, hosts = draw(slices(single=role == "master"))
        return machine, hosts
    if kind == "gpu":
        gpu = draw(st.sampled_from(GpuType)).value
        counts = today.gpu_counts(gpu, None)
        unsaid = 1 in counts and draw(st.booleans())
        return {"gpu": {"type": gpu, **({} if unsaid else {"count": draw(st.sampled_from(counts))})}}, None
    machine_type = draw(st.sampled_from(sorted(data_file("machines"))))
    found: Data = {"machineType": machine_type}
    possible = {gpu: counts for gpu in GpuType if (counts := today.gpu_counts(gpu.value, machine_type))}
    if kind == "gpu on machine" and possible:
        gpu = draw(st.sampled_from(sorted(possible)))
        found["gpu"] = {"type": gpu.value, "count": draw(st.sampled_from(possible[gpu]))}
    return found, None


@st.composite
def new_machines(draw: st.DrawFn) -> tuple[Data, Data, list[str]]:
    """TrainingInput and block of a job on today's machines, and the roles that have replicas."""
    roles = ["master", *draw(st.lists(st.sampled_from(ROLES[1:]), unique=True))]
    found: Data = {"scaleTier": "CUSTOM"}
    machines: Data = {}
    for role in roles:
        machine, replicas = draw(todays_machine(role))
        if role != "master":
            found[f"{role}Count"] = replicas or draw(COUNT)
        host = today.host_type(MachineSpec.model_validate(machine))
        kinds = today.disk_types(host) if host is not None else ()
        if kinds and draw(st.booleans()):
            machine["bootDisk"] = {"type": draw(st.sampled_from(kinds)), "sizeGb": draw(st.integers(10, 2000))}
        machines[role] = machine
    return found, {"machines": machines}, roles


@st.composite
def stock_program(draw: st.DrawFn) -> tuple[Data, Data]:
    """A module in one of AI Platform's own images: TrainingInput and block."""
    # Without an image of the environment's own nothing stands for Python 2.
    versions = {
        version: [python for python in known.pythons if not python.startswith("2")]
        for version, known in ai_platform().runtime_versions.items()
    }
    version = draw(st.sampled_from(sorted(version for version, pythons in versions.items() if pythons)))
    python = draw(st.sampled_from(versions[version]))
    packages = draw(package_uris())
    local = draw(local_packages(given=bool(packages)))
    fields = {"runtimeVersion": version, "pythonVersion": python, "pythonModule": "trainer.task"}
    return merged(fields, {"packageUris": packages} if packages else {}, draw(maybe(field("args", TEXTS)))), local


@st.composite
def own_program(draw: st.DrawFn, roles: list[str], *, tpu_worker: bool) -> tuple[Data, Data]:
    """A custom image, run as it is or with a module: TrainingInput and block."""
    found: Data = {"masterConfig": {"imageUri": draw(st.sampled_from(IMAGES))}}
    if draw(st.booleans()):
        found["useChiefInTfConfig"] = draw(st.booleans())
    for role in roles[1:]:
        if draw(st.booleans()):
            found[f"{role}Config"] = {"imageUri": draw(st.sampled_from(IMAGES))}
    if tpu_worker:
        version = draw(st.sampled_from(sorted(ai_platform().runtime_versions)))
        found = merged(found, {"workerConfig": {"tpuTfVersion": version}})
    if draw(st.booleans()):
        local = draw(local_packages(given=True))
        packages = draw(maybe(field("packageUris", package_uris())))
        return merged(found, {"pythonModule": "trainer.task", "args": draw(TEXTS)}, packages), local
    if draw(st.booleans()):
        return merged(found, {"args": draw(TEXTS)}), {}
    for role in roles:
        commands = merged(draw(maybe(field("containerCommand", TEXTS))), draw(maybe(field("containerArgs", TEXTS))))
        found = merged(found, {f"{role}Config": commands} if commands else {})
    return found, {}


def package_uris() -> st.SearchStrategy[list[str]]:
    """``gs://`` packages with names of their own, in folders with any name."""
    names = st.lists(NAME, unique=True, max_size=3)
    return st.tuples(names, LINE).map(lambda both: [f"gs://packages/{both[1]}/{name}.tar.gz" for name in both[0]])


def local_packages(*, given: bool) -> st.SearchStrategy[Data]:
    """Packages of this machine; a job without others needs the trainer's folder."""
    wheels = st.lists(NAME.map(lambda name: f"wheels/{name}-1-py3-none-any.whl"), unique=True, max_size=2)
    requirements = st.lists(st.sampled_from(["pandas>=2,<3", "numpy", "requests[socks]; python_version > '3'"]))
    folder = field("packagePath", st.just("trainer"))
    return st.tuples(
        maybe(folder) if given else folder, maybe(field("packages", wheels)), maybe(field("requirements", requirements))
    ).map(lambda parts: merged(*parts))


@st.composite
def options(draw: st.DrawFn, *, accelerated: bool, region: str) -> tuple[Data, Data]:
    """Everything else: scheduling, storage, identity, keys, network, money; TrainingInput and block."""
    scheduling, how = draw(scheduling_and_provisioning(accelerated=accelerated))
    place, block = draw(storage())
    direct = draw(st.booleans())
    account = {} if direct else draw(maybe(field("serviceAccount", st.sampled_from(["a@p.iam.gserviceaccount.com"]))))
    key = LINE.map(lambda text: "".join(text.split()).replace("/", "") or "k").map(
        lambda ring: {"kmsKeyName": f"projects/p/locations/{region}/keyRings/{ring}/cryptoKeys/k"}
    )
    fields = merged(
        scheduling,
        place,
        account,
        draw(maybe(field("encryptionConfig", key))),
        draw(maybe(field("network", st.just("projects/123456789012/global/networks/default")))),
        draw(maybe(field("enableWebAccess", st.booleans()))),
    )
    return fields, merged(
        how,
        block,
        {"identity": {"mode": "DIRECT"}} if direct else draw(maybe(st.just({"identity": {"mode": "SERVICE_ACCOUNT"}}))),
        draw(maybe(field("imageStreaming", st.booleans()))),
        draw(maybe(field("runAs", st.sampled_from([one.value for one in RunAs])))),
        draw(maybe(field("mounts", mounts()))),
        draw(maybe(field("retention", st.integers(1, 1000).map(lambda days: {"resultsDays": days})))),
        draw(maybe(st.just({"substitutions": "allowed"}))),
    )


@st.composite
def scheduling_and_provisioning(draw: st.DrawFn, *, accelerated: bool) -> tuple[Data, Data]:
    """How long, how urgent, on machines got in which way."""
    ways = list(Provisioning) if accelerated else [Provisioning.ON_DEMAND, Provisioning.SPOT]
    way = draw(st.none() | st.sampled_from(ways))
    cheap = way in {None, Provisioning.SPOT}
    times = st.sampled_from(["60s", "3600s", "86400.5s", "604800s"])
    scheduling = merged(
        draw(maybe(field("maxRunningTime", times))),
        draw(maybe(field("maxWaitTime", st.sampled_from(["1800s", "7200.000000001s"])))),
        draw(maybe(field("priority", st.integers(0, 1000)))),
        draw(maybe(field("resilientToWorkerRestart", st.booleans()))),
        draw(maybe(field("strategy", st.sampled_from(["ON_DEMAND", "LOW_COST"])))) if cheap else {},
    )
    block: Data = {} if way is None else {"provisioning": way.value}
    if way is Provisioning.RESERVATION:
        block["reservation"] = draw(NAME)
    return {"scheduling": scheduling} if scheduling else {}, block


def mounts() -> st.SearchStrategy[list[Data]]:
    """Buckets of names of their own, some of them a folder, some to be written to."""
    folders = maybe(field("prefix", st.from_regex(r"[a-z0-9]{1,8}(/[a-z0-9.-]{3,8})?", fullmatch=True)))
    rights = maybe(field("write", st.booleans()))
    options = maybe(field("options", st.lists(st.sampled_from(["file-mode=777", "metadata-cache:ttl-secs:-1"]))))
    named = st.tuples(NAME.map(lambda name: {"bucket": f"data-{name}"}), folders, rights, options)
    one = named.map(lambda parts: merged(*parts))
    return st.lists(one, max_size=3, unique_by=lambda mount: str(mount["bucket"]))


@st.composite
def storage(draw: st.DrawFn) -> tuple[Data, Data]:
    """A job dir of the user's own, one of encamp's kinds, or none."""
    kind = draw(st.sampled_from(["none", "jobDir", "ENVIRONMENT", "OWN_BUCKET", "GIVEN_BUCKET"]))
    if kind == "none":
        return {}, {}
    if kind == "jobDir":
        return {"jobDir": "gs://bucket" + draw(st.just("") | LINE.map(lambda name: f"/{name}"))}, {}
    given: Data = {"kind": kind}
    if kind == "GIVEN_BUCKET":
        prefix = LINE.map(lambda text: "".join(each for each in text if each.isprintable() and each not in "/.") or "p")
        given = merged(given, {"bucket": "bucket"}, draw(maybe(field("prefix", prefix.map(lambda text: text[:100])))))
    return {}, {"storage": given}


@st.composite
def jobs(draw: st.DrawFn) -> Data:
    """A job file's data that keeps every rule."""
    region = draw(st.sampled_from(ai_platform().regions))
    block: Data = {}
    if draw(st.booleans()):
        machines, block, roles = draw(new_machines())
    else:
        machines, roles = draw(old_machines())
    tpu_worker = machines.get("workerType") == CLOUD_TPU or machines.get("scaleTier") == "BASIC_TPU"
    program, local = draw(stock_program() | own_program(roles, tpu_worker=tpu_worker))
    legacy = data_file("tiers")["legacyMachineTypes"]
    accelerated = (
        tpu_worker
        or machines.get("scaleTier") == "BASIC_GPU"
        or any("gpu" in each or "tpu" in each for each in block.get("machines", {}).values())
        or any("acceleratorConfig" in machines.get(f"{role}Config", {}) for role in roles)
        or any((legacy.get(machines.get(f"{role}Type", "")) or {}).get("accelerator") for role in roles)
    )
    fields, more = draw(options(accelerated=accelerated, region=region))
    letters = st.text(st.characters(categories=["Ll", "Lo", "Nd"], include_characters="_-"), max_size=20)
    labels = st.dictionaries(letters.map(lambda text: f"k{text}"), letters, max_size=3)
    found = merged(
        {"jobId": draw(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,127}", fullmatch=True))},
        {"trainingInput": merged({"region": region}, machines, program, fields)},
        draw(maybe(field("labels", labels))),
    )
    whole = merged(block, local, more)
    whole = draw(placed(merged(found, {"encamp": whole}), whole, region))
    return merged(found, {"encamp": whole}) if whole else found


@st.composite
def placed(draw: st.DrawFn, found: Data, block: Data, region: str) -> Data:
    """The block with what depends on where its machines are: one zone, and ways to get them that each of them has."""
    way = block.get("provisioning")
    if way in {None, "ON_DEMAND", "SPOT"}:
        return merged(block, draw(maybe(field("zone", st.just(f"{region}-a"))))) if region != HERE else block
    shapes = [request.shape for request in planned_roles(parse_job(found, source="drawn").job)[0]]
    if way in {"FLEX_START", "QUEUED"}:
        never = data_file("placement")["noFlexStart"]["tpus"]
        return merged(block, {"provisioning": "SPOT"}) if any(one.tpu_version in never for one in shapes) else block
    known = [set(zones) for shape in shapes if (zones := offered(shape)) is not None]
    here = {f"{HERE}-{letter}" for letter in "abcf"}
    common = sorted(here.intersection(*known)) if region == HERE else [f"{region}-a"]
    if not common:
        return {name: value for name, value in block.items() if name not in {"provisioning", "reservation"}}
    return merged(block, draw(field("zone", st.sampled_from(common))))
