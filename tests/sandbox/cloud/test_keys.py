"""Keys in the sandbox: who has to be let in before anything is under one, and what stays when it is destroyed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from encamp.sandbox.cloud.gcp.functions import FUNCTIONS
from encamp.sandbox.provider import ProviderError, Resource, ResourceState

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.session import GcpSession
    from encamp.sandbox.provider import Properties

KEY = "projects/sandbox-encamp/locations/us-central1/keyRings/lab/cryptoKeys/encamp"
BUCKET: Properties = {"name": "lab-results", "location": "US-CENTRAL1", "encryption": {"defaultKmsKeyName": KEY}}
AGENT = "gcp:storage/getProjectServiceAccount:getProjectServiceAccount"


def create(session: GcpSession, token: str, inputs: Properties) -> ResourceState:
    async def work() -> ResourceState:
        kind = Resource(token, f"urn:pulumi:dev::proj::{token}::thing", "thing")
        checked = await session.check(kind, {}, inputs, seed=b"seed")
        assert list(checked.failures) == []
        made = await session.create(kind, checked.inputs, time_limit=None, preview=False)
        return ResourceState(made.resource_id, checked.inputs, made.outputs)

    return asyncio.run(work())


def destroy(session: GcpSession, token: str, state: ResourceState) -> None:
    kind = Resource(token, f"urn:pulumi:dev::proj::{token}::thing", "thing")
    asyncio.run(session.delete(kind, state, time_limit=None))


def make_key(session: GcpSession) -> tuple[ResourceState, ResourceState]:
    ring = create(session, "gcp:kms/keyRing:KeyRing", {"name": "lab", "location": "us-central1"})
    key = create(session, "gcp:kms/cryptoKey:CryptoKey", {"name": "encamp", "keyRing": ring.resource_id})
    assert key.resource_id == KEY
    return ring, key


def let_in(session: GcpSession) -> ResourceState:
    async def ask() -> str:
        return str((await FUNCTIONS[AGENT]({}, session._context))["member"])

    agent = asyncio.run(ask())
    grant = {"cryptoKeyId": KEY, "role": "roles/cloudkms.cryptoKeyEncrypterDecrypter", "member": agent}
    return create(session, "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember", grant)


def test_a_bucket_is_under_a_key_once_storages_agent_may_use_it(session: GcpSession) -> None:
    make_key(session)
    with pytest.raises(ProviderError, match=r"Error 403: Permission denied on Cloud KMS key .*gs-project-accounts"):
        create(session, "gcp:storage/bucket:Bucket", BUCKET)
    grant = let_in(session)
    create(session, "gcp:storage/bucket:Bucket", BUCKET)
    destroy(session, "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember", grant)
    with pytest.raises(ProviderError, match="Error 403"):
        create(session, "gcp:storage/bucket:Bucket", {**BUCKET, "name": "more-results"})


def test_a_destroyed_key_is_of_no_use_and_its_name_is_used_up(session: GcpSession) -> None:
    ring, key = make_key(session)
    let_in(session)
    destroy(session, "gcp:kms/cryptoKey:CryptoKey", key)
    destroy(session, "gcp:kms/keyRing:KeyRing", ring)
    with pytest.raises(ProviderError, match="its versions are destroyed"):
        create(session, "gcp:storage/bucket:Bucket", BUCKET)
    with pytest.raises(ProviderError, match=r"Error 409: .*keyRings/lab"):
        make_key(session)
