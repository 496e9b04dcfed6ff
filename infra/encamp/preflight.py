"""Looks at a job's buckets, packages and machines before anything of it is created; every problem at once.

Both ways to start a job use it, the driver and plain ``pulumi up``. Nothing is written anywhere. What encamp itself
will grant, the caller must be allowed to grant; what a given service account needs it must have already.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from encamp.cloud.buckets import CREATE, DELETE, LIST, READ, SET_POLICY, Buckets, is_near, is_uniform
from encamp.cloud.resources import Container, ServiceAccounts
from encamp.cloud.rest import RestError
from encamp.errors import Problem, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from encamp.cloud.rest import GoogleClient
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec


_SET_ACCOUNT_POLICY = "iam.serviceAccounts.setIamPolicy"
_PACKAGES = "upload it, or correct trainingInput.packageUris"


class DataError(UsageError):
    """A job's data is not as it must be; ``problems`` are all of them, each with the field that names the data."""

    def __init__(self, job_id: str, problems: Sequence[Problem]) -> None:
        count = len(problems)
        lines = [f"  {one.message}\n    try: {one.hint}" for one in problems]
        super().__init__(
            "\n".join([f"{count} problem{'s' * (count != 1)} with the job's data", *lines]),
            where=job_id,
            hint="nothing was created; put them right and run the command again",
        )
        self.problems = tuple(problems)


def check_environment(spec: EnvironmentSpec, client: GoogleClient) -> None:
    """Refuse a second environment of a sandbox before anything of it is made; a project may have many.

    Belief: sandbox-one-control-plane.

    Raises:
        UsageError: the sandbox's one control plane is another environment's cluster.
        RestError: the cloud cannot be asked.
    """
    if not spec.is_sandbox or "cluster" in spec.adopt:
        return
    others = [str(one["name"]) for one in Container(client).clusters(spec.project) if one["name"] != spec.cluster]
    if others:
        raise UsageError(
            f"the sandbox has one control plane, and the cluster {others[0]} of another environment has it",
            where=f"environment {spec.name}",
            hint="take that environment down by `encamp environment down -s STACK`, or adopt its cluster",
        )


def check_job(plan: JobPlan, client: GoogleClient, *, made: Collection[str] = ()) -> tuple[str, ...]:
    """Check what the job needs to be there, and return what may go wrong nevertheless.

    ``made`` names buckets, and clusters by their full names, that whoever makes the job makes before it.

    Raises:
        DataError: everything that would make the job fail.
        RestError: the cloud cannot be asked.
    """
    check = _Check(plan, Buckets(client), made)
    check.account(ServiceAccounts(client))
    check.job_dir()
    check.packages()
    check.mounts()
    check.grants()
    check.uniform_access()
    check.shared_pools(Container(client))
    if check.problems:
        raise DataError(plan.job_id, check.problems)
    return tuple(check.warnings)


class _Check:
    def __init__(self, plan: JobPlan, buckets: Buckets, made: Collection[str]) -> None:
        self._plan = plan
        self._buckets = buckets
        storage = plan.storage
        #: Made with the job or before it, so that there is nothing to look at yet.
        self._made = {storage.scratch_bucket, storage.results_bucket, *made}
        self._missing: set[str] = set()
        self._field = ""
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def account(self, accounts: ServiceAccounts) -> None:
        """Check that a given account exists, and that the caller may let the job's Kubernetes account act as it."""
        self._field = "trainingInput.serviceAccount"
        email = self._plan.identity.service_account
        if email is None or self._plan.identity.account_id is not None:
            return
        allowed = accounts.permissions(email, (_SET_ACCOUNT_POLICY,))
        if allowed is None:
            self._problem(
                f"there is no service account {email}",
                "correct trainingInput.serviceAccount, or leave it out: the job makes one of its own",
            )
        elif not allowed:
            self._problem(
                f"you may not set the IAM policy of {email}, as which the job's Kubernetes account has to act",
                f"ask its owner for {_SET_ACCOUNT_POLICY} on it: roles/iam.serviceAccountAdmin",
            )

    def job_dir(self) -> None:
        """Check the job dir's bucket: that it exists, is near, and is writable by those who write."""
        self._field = "trainingInput.jobDir"
        where = self._plan.storage.job_dir
        if where is None:
            return
        bucket = _bucket(where)
        if bucket in self._made or not self._there(bucket, f"the job dir {where}"):
            return
        self._near(bucket, f"job dir's bucket gs://{bucket}")
        if not self._granted(bucket):
            self._rights(bucket, f"the job dir {where}", (CREATE,), (READ, LIST, DELETE))

    def packages(self) -> None:
        """Check that every package that the job names exists."""
        self._field = "trainingInput.packageUris"
        local = {package.uri for package in self._plan.storage.packages}
        uris = {uri for group in self._plan.groups for uri in group.package_uris} - local
        for uri in sorted(uris):
            bucket, _, name = uri.removeprefix("gs://").partition("/")
            if bucket in self._made:
                continue
            if not self._there(bucket, f"the package {uri}", hint=_PACKAGES):
                continue
            held = self._buckets.holds(bucket, name)
            if held is False:
                self._problem(f"there is no package {uri}", _PACKAGES)
            elif held is None:
                self.warnings.append(f"whether {uri} is there cannot be told: you may not read it")
            if not self._granted(bucket):
                self._rights(bucket, f"the package {uri}", (READ,), ())

    def mounts(self) -> None:
        """Check that every mounted bucket exists, is near, and is open to its users."""
        self._field = "encamp.mounts"
        for mount in self._plan.storage.mounts:
            what = f"the mount {mount.path}"
            if mount.is_job_dir or mount.bucket in self._made or not self._there(mount.bucket, what):
                continue
            self._near(mount.bucket, f"mounted bucket gs://{mount.bucket}")
            if not self._granted(mount.bucket):
                needed = (READ, LIST) if mount.read_only else (READ, LIST, CREATE)
                self._rights(mount.bucket, what, needed, () if mount.read_only else (DELETE,))

    def grants(self) -> None:
        """Check that the caller may grant what the job gets."""
        self._field = "trainingInput.serviceAccount"
        buckets = {grant.bucket for grant in self._plan.identity.grants if grant.bucket is not None}
        for bucket in sorted(buckets - self._made - self._missing):
            if bucket != self._plan.storage.bucket and not self._there(bucket, "a grant of the job"):
                continue
            if SET_POLICY not in self._buckets.allowed(bucket, (SET_POLICY,)):
                self._problem(
                    f"you may not set the IAM policy of gs://{bucket}, which the job's account needs a role on",
                    f"ask its owner for {SET_POLICY}, or name an account that has its rights already in "
                    "trainingInput.serviceAccount",
                )

    def uniform_access(self) -> None:
        """Check that buckets with a Kubernetes account as member have uniform bucket-level access, which that needs."""
        self._field = "encamp.identity.mode"
        if self._plan.identity.service_account is not None:
            return
        buckets = {grant.bucket for grant in self._plan.identity.grants if grant.bucket is not None}
        for bucket in sorted(buckets - self._made - self._missing):
            uniform = is_uniform(self._buckets.find(bucket) or {})
            if uniform is None:
                self.warnings.append(
                    f"whether gs://{bucket} has uniform bucket-level access cannot be told: you may not look at it; "
                    "without it the job cannot use the bucket"
                )
            elif not uniform:
                self._problem(
                    f"gs://{bucket} has no uniform bucket-level access; a Kubernetes account gets no role on it",
                    f"`gcloud storage buckets update gs://{bucket} --uniform-bucket-level-access`, or let the job make "
                    "an account: encamp: {identity: {mode: SERVICE_ACCOUNT}}",
                )

    def shared_pools(self, container: Container) -> None:
        """Check that the node pools which the job shares with others exist: else its replicas wait for ever."""
        self._field = "encamp.queue"
        for cluster in {str(pool.shared_in) for pool in self._plan.shared_pools} - self._made:
            try:
                there = {str(pool["name"]) for pool in container.node_pools(cluster)}
            except RestError as error:
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                self.warnings.append(f"whether the shared node pools are there cannot be told: {error.what}")
                return
            missing = sorted({pool.name for pool in self._plan.shared_pools} - there)
            if missing:
                name = self._plan.environment
                self._problem(
                    f"the environment {name} has no node pool {', '.join(missing)}, which jobs of its queues share",
                    f"bring the environment up: `encamp environment up {name}`",
                )

    def _near(self, bucket: str, what: str) -> None:
        """Warn if a bucket is far from the job."""
        found = self._buckets.find(bucket) or {}
        location = str(found.get("location", "")).lower()
        if location and not is_near(found, self._plan.region):
            self.warnings.append(
                f"the {what} is in {location}, the job in {self._plan.region}: reading and "
                "writing is slower and may be billed"
            )

    def _granted(self, bucket: str) -> bool:
        return any(grant.bucket == bucket for grant in self._plan.identity.grants)

    def _there(self, bucket: str, what: str, hint: str | None = None) -> bool:
        if bucket in self._made:
            return True
        if self._buckets.find(bucket) is None:
            if bucket not in self._missing:
                create = f"gcloud storage buckets create gs://{bucket} --location={self._plan.region}"
                self._problem(
                    f"there is no bucket gs://{bucket} for {what}", hint or f"`{create}`, or correct its name"
                )
            self._missing.add(bucket)
            return False
        return True

    def _rights(self, bucket: str, what: str, needed: tuple[str, ...], useful: tuple[str, ...]) -> None:
        """Check whether a given account has the rights that it needs; its owner has to grant them."""
        account = self._plan.identity.service_account
        if account is None:
            return
        rights = self._buckets.rights(bucket, account, self._plan.project)
        lacking = [one for one in needed if one not in rights.given]
        if lacking and rights.doubts:
            doubts = "; ".join(rights.doubts)
            self.warnings.append(
                f"whether {account} has {', '.join(lacking)} on gs://{bucket} for {what} cannot be told: {doubts}"
            )
        elif lacking:
            role = "roles/storage.objectUser" if CREATE in needed else "roles/storage.objectViewer"
            grant = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=serviceAccount:{account}"
            self._problem(f"{account} has no {', '.join(lacking)} on {what}", f"`{grant} --role={role}`")
        elif not rights.doubts and (short := [one for one in useful if one not in rights.given]):
            self.warnings.append(f"{account} has no {', '.join(short)} on gs://{bucket}: code that needs it will fail")

    def _problem(self, what: str, hint: str) -> None:
        self.problems.append(Problem(self._field, None, None, what, hint))


def _bucket(uri: str) -> str:
    return uri.removeprefix("gs://").partition("/")[0]
