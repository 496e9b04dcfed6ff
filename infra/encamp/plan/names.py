"""Every cloud name of a job. A name is built here, carries a hash, and is checked after it was built.

Job ids go to 128 characters with capitals and ``_``; cloud names are short and lowercase. The hash keeps different jobs
different whatever their ids have in common. A job that exists keeps its name, whatever names are made of by then. No
two jobs of a record have one name: the second is refused.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from encamp.errors import PlanError

if TYPE_CHECKING:
    from encamp.spec.roles import Role

#: Longest short name: what remains for a job when Kubernetes and Compute Engine have added theirs.
LONGEST_NAME = 28
#: Longest name of a GKE node pool.
LONGEST_POOL = 40
#: Longest value of a label, and so of what is named in one.
LONGEST_LABEL = 63
#: Longest id of a custom role.
LONGEST_ROLE = 64
#: Purposes of the jobs' buckets, as their names say them.
SCRATCH = "scratch"
RESULTS = "results"
#: The node pool of what an environment runs always.
SYSTEM_POOL = "encamp-system"
#: The key of what an environment stores, in a ring of its own.
KEY = "encamp"
#: No trial has a larger number: maxTrials is an int32, and a resumed study counts on.
LARGEST_TRIAL = 9_999_999_999
#: Port of every replica's server.
PORT = 2222

#: Hexadecimal digits of a hash in names of what operators choose, and digits of 5 bits in those of jobs.
_HASH, _SHORT = 8, 16
#: Least number of characters of a job's readable part in the name of a pool.
_SHORTEST = 2
#: Without o and 0, so that no bucket is called like the cloud, and without i and l, which look like 1.
_DIGITS = "abcdefghjkmnpqrstuvwxyz123456789"
#: Names of buckets that jobs make, today's and former ones.
JOB_BUCKET = "[a-z0-9-]+-(?:{0}-(?:{2})-{0}|{1}-(?:{2})-{1})".format(
    f"[{_DIGITS}]{{{_SHORT}}}", f"[0-9a-f]{{{_HASH}}}", f"{SCRATCH}|{RESULTS}"
)
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_REFUSED_IN_BUCKETS = re.compile(r"g[o0]{2}g|^goog")


def short_name(project: str, environment: str, job_id: str) -> str:
    """Return a job's short cloud name: at most 28 characters, a readable part, ``-`` and 16 hash digits (80 bits)."""
    return _named(job_id, LONGEST_NAME, _digits(project, environment, job_id)[:_SHORT])


def former_name(project: str, environment: str, job_id: str) -> str:
    """Return the short name that jobs had before: those that exist keep it."""
    return bounded(job_id, LONGEST_NAME, _digest(project, environment, job_id))


def kept_name(project: str, environment: str, job_id: str, given: str | None) -> str:
    """Return the short name of a job: the one that it has already, where it has one.

    Raises:
        PlanError: it is no name of this job.
    """
    if given is None:
        return short_name(project, environment, job_id)
    if given not in {short_name(project, environment, job_id), former_name(project, environment, job_id)}:
        raise PlanError(f"{given!r} is no name of the job {job_id}", where="encamp:name", hint="leave it out")
    return given


def environment_name(project: str, environment: str, part: str) -> str:
    """Return the short name of a part of an environment: its operator chooses all that it is made of, so 32 bits do."""
    return bounded(part, LONGEST_NAME, _digest(project, environment, part))


def bounded(text: str, longest: int, digest: str) -> str:
    """Return a lowercase name of at most ``longest`` characters: the start of ``text`` and 8 digits of a hash."""
    return _named(text, longest, digest[:_HASH])


def _named(text: str, longest: int, digits: str) -> str:
    """Return a lowercase name that begins like a text and ends in some digits."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not slug or not slug[0].isalpha():
        slug = f"j-{slug}".rstrip("-")
    name = f"{slug[: longest - len(digits) - 1].rstrip('-')}-{digits}"
    return _checked(name, _NAME, longest)


def _readable(first: str, second: str, longest: int) -> str:
    """Return ``first-second`` as it is if that is a name of at most ``longest`` characters, else bounded."""
    plain = f"{first}-{second}"
    if len(plain) <= longest and _NAME.fullmatch(plain):
        return plain
    return bounded(plain, longest, _digest(first, second))


def pool_name(name: str, shape: str) -> str:
    """Return the name of the node pool of one shape of a job, at most 40 characters.

    Where both do not fit, the readable part of the job's name gives way before the shape does.
    """
    readable, _, digits = name.rpartition("-")
    left = LONGEST_POOL - len(f"-{digits}-{shape}")
    if len(digits) == _SHORT and _SHORTEST <= left < len(readable):
        return _readable(f"{readable[:left].rstrip('-')}-{digits}", shape, LONGEST_POOL)
    return _readable(name, shape, LONGEST_POOL)


def pool_shape(name: str, pool: str) -> str:
    """Return the part of a pool's name after the short name of its job."""
    return pool.partition(f"{name.rpartition('-')[2]}-")[2]


def scratch_bucket(project: str, environment: str, job_id: str, name: str) -> str:
    """Return the name of the bucket that goes with the job of a short name."""
    return _bucket(project, environment, job_id, name, SCRATCH)


def results_bucket(project: str, environment: str, job_id: str, name: str) -> str:
    """Return the name of the bucket of a job's own that stays with its results."""
    return _bucket(project, environment, job_id, name, RESULTS)


def _bucket(project: str, environment: str, job_id: str, name: str, use: str) -> str:
    """Return a bucket of a job. Bucket names are shared by the whole world, so it carries 160 bits of the hash."""
    digits = _digits(project, environment, job_id)
    first, more = digits[:_SHORT], digits[_SHORT : 2 * _SHORT]
    if name == former_name(project, environment, job_id):
        digest = _digest(project, environment, job_id)
        first, more = digest[:_HASH], digest[_HASH : 2 * _HASH]
    if _REFUSED_IN_BUCKETS.search(name):
        name = f"job-{first}"
    return _checked(f"{name}-{use}-{more}", _BUCKET, 63)


def queue_object(environment: str, name: str) -> str:
    """Return the name of a queue, flavor, check or priority of Kueue's.

    These have no namespace, so the environment leads.
    """
    return _readable(environment, name, LONGEST_LABEL)


def pod_policy(environment: str) -> str:
    """Return the name of an environment's admission policy: it has no namespace, so the environment leads."""
    return _readable(environment, "pods-of-jobs", LONGEST_LABEL)


def custom_role_id(project: str, environment: str, key: str) -> str:
    """Return the id of a custom role of an environment, at most 64 characters: such ids take no hyphens.

    Source: cloud.google.com/iam/docs/creating-custom-roles.
    """
    plain = f"encamp-{environment}-{key}"
    return bounded(plain, LONGEST_ROLE, _digest(project, environment, key)).replace("-", "_")


def service_account_email(account_id: str, project: str) -> str:
    """Return the e-mail of a service account that the job makes."""
    return f"{account_id}@{project}.iam.gserviceaccount.com"


def replica_name(role: Role, index: int) -> str:
    """Return the plan's and the user's name of a replica: ``worker-1``."""
    return f"{role.value}-{index}"


def log_name(role: str, index: int, trial: int | None = None) -> str:
    """Return AI Platform's name of a replica (spec 13): ``worker-replica-1``.

    Of a trial ``trial-3-worker-replica-1``.
    """
    name = f"{role}-replica-{index}"
    return name if trial is None else trial_log_name(trial, name)


def trial_log_name(trial: int, replica: str) -> str:
    """Return the name in logs of a trial's replica, by the name that it would have without trials."""
    return f"trial-{trial}-{replica}"


def trial_name(name: str, trial: int) -> str:
    """Return the name of a trial's JobSet, by the short name of its job."""
    return _checked(f"{name}-{trial}", _NAME, LONGEST_NAME + 1 + len(str(LARGEST_TRIAL)))


def longest_pod_name(name: str, role: Role, count: int) -> str:
    """Return the longest name of a pod of a role: JobSet's, with the index and the five letters that a Job adds."""
    return f"{name}-{role.value}-0-{count - 1}-xxxxx"


def replica_host(name: str, role: Role, index: int) -> str:
    """Return the host name of a replica inside the cluster, as JobSet's headless service gives it."""
    return f"{name}-{role.value}-0-{index}.{name}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _digits(*parts: str) -> str:
    """Return a hash in digits of 5 bits."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    return "".join(_DIGITS[number >> 5 * place & 31] for place in range(51))


def _checked(name: str, form: re.Pattern[str], longest: int) -> str:
    if len(name) > longest or form.fullmatch(name) is None:
        raise PlanError(f"no cloud name can be made: {name!r}", hint="choose another job id")
    return name
