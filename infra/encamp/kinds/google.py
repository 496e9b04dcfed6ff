"""Resources of a job at Google Cloud, in the order in which they are deleted: users before what they use.

Sources: the page of each role under cloud.google.com/iam/docs/roles-permissions, and of each method's permissions.
"""

from __future__ import annotations

from encamp.kinds.model import GoogleKind

_BINDING = "binding"
_STORAGE, _ACCOUNTS = "roles/storage.admin", "roles/iam.serviceAccountAdmin"
_PROJECT_POLICY = ("resourcemanager.projects.getIamPolicy", "resourcemanager.projects.setIamPolicy")
_BUCKET_POLICY = ("storage.buckets.get", "storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy")
_ACCOUNT_POLICY = ("iam.serviceAccounts.getIamPolicy", "iam.serviceAccounts.setIamPolicy")

PROJECT_MEMBER = GoogleKind(
    "gcp:projects/iAMMember:IAMMember",
    _BINDING,
    "roles/resourcemanager.projectIamAdmin",
    create=("resourcemanager.projects.get", *_PROJECT_POLICY),
    delete=_PROJECT_POLICY,
    conditional=True,
)
BUCKET_MEMBER = GoogleKind(
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    _BINDING,
    _STORAGE,
    create=_BUCKET_POLICY,
    delete=_BUCKET_POLICY,
    conditional=True,
)
ACCOUNT_MEMBER = GoogleKind(
    "gcp:serviceaccount/iAMMember:IAMMember",
    _BINDING,
    _ACCOUNTS,
    create=_ACCOUNT_POLICY,
    delete=_ACCOUNT_POLICY,
    conditional=True,
)
NODE_POOL = GoogleKind(
    "gcp:container/nodePool:NodePool",
    "node pool",
    "roles/container.admin",
    see=("container.clusters.get",),
    create=("container.clusters.update",),
    delete=("container.clusters.update",),
    runs_as_account=True,
    labels_at=("config.resourceLabels", "config.labels"),
    import_id="projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}",
    resumes=True,
)
#: The provider reads no placement policy by an id: its name is found in the listing.
RESOURCE_POLICY = GoogleKind(
    "gcp:compute/resourcePolicy:ResourcePolicy",
    "placement policy",
    "roles/compute.instanceAdmin.v1",
    see=("compute.resourcePolicies.get", "compute.resourcePolicies.list"),
    create=("compute.resourcePolicies.create",),
    delete=("compute.resourcePolicies.delete",),
    labels_at=("description",),
)
BUCKET = GoogleKind(
    "gcp:storage/bucket:Bucket",
    "bucket",
    _STORAGE,
    see=("storage.buckets.list",),
    create=("storage.buckets.create", "storage.buckets.get", "storage.buckets.update"),
    delete=("storage.buckets.delete", "storage.buckets.get", "storage.objects.delete", "storage.objects.list"),
    conditional=True,
    labels_at=("labels",),
    import_id="{name}",
)
BUCKET_OBJECT = GoogleKind(
    "gcp:storage/bucketObject:BucketObject",
    "package",
    _STORAGE,
    create=("storage.objects.create",),
    delete=("storage.objects.delete", "storage.objects.get"),
    conditional=True,
)
ACCOUNT = GoogleKind(
    "gcp:serviceaccount/account:Account",
    "service account",
    _ACCOUNTS,
    see=("iam.serviceAccounts.get", "iam.serviceAccounts.list"),
    create=("iam.serviceAccounts.create",),
    delete=("iam.serviceAccounts.delete",),
    conditional=True,
    labels_at=("description",),
    import_id="projects/{project}/serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
)

RESOURCES = (
    PROJECT_MEMBER, BUCKET_MEMBER, ACCOUNT_MEMBER, NODE_POOL, RESOURCE_POLICY, BUCKET, BUCKET_OBJECT, ACCOUNT,
)  # fmt: skip
