"""The Authorization header, and the options of who may call."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.identity.issuer import GCLOUD, IDP, OURS, World, codes, info, token

from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.id_tokens import GOOGLE_ISSUER, Issuer
from encamp.api.identity import IdentityOptions, NoIdentity, identity_for
from encamp.errors import UsageError
from encamp.spec.environment.model import EnvironmentSpec


def test_an_id_token_is_no_access_token() -> None:
    world = World(tokeninfo=info(), keys=[])
    assert codes(world.told(token())) == [401]
    assert not any("tokeninfo" in url for url in world.asked)
    # A sandbox's own token service tells assertions too.
    assert codes(world.told(token(), assertions=True)) == [200]


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic YTpi", "ya29.t", "Bearer a b", "Bearer é", "Bearer a\nb", "Bearer a,b",
     "Bearer " + "a" * 20_000, "Token ya29.t"],
)  # fmt: skip
def test_headers_without_a_token(header: str | None) -> None:
    world = World(tokeninfo=info())
    with pytest.raises(ApiError) as refused:
        asyncio.run(world.identity().caller(header))
    assert (refused.value.code, world.asked) == (401, [])


def test_the_scheme_is_read_whatever_its_case() -> None:
    world = World(tokeninfo=info())
    assert asyncio.run(world.identity().caller("bEARER  ya29.t ")).email == "ana@example.com"


def test_administrators_are_told_by_their_e_mails() -> None:
    (found,) = World(tokeninfo=info()).told("ya29.t", admins=frozenset({"Ana@Example.com"}))
    assert isinstance(found, Caller)
    assert found.admin


def environment(project: str = "my-project") -> EnvironmentSpec:
    return EnvironmentSpec(name="lab", project=project)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (IdentityOptions(admins=frozenset({"ana@example.com"})), "in a sandbox only"),
        (IdentityOptions(access_tokens=False), "no caller could sign in"),
        (IdentityOptions(issuers=(IDP,)), "need an audience"),
        (IdentityOptions(audiences=("",)), "could use it here"),
        (IdentityOptions(audiences=(GCLOUD,)), "could use it here"),
        (IdentityOptions(audiences=(OURS,), issuers=(IDP, IDP)), "named twice"),
        (IdentityOptions(audiences=(OURS,), issuers=(GOOGLE_ISSUER,)), "named twice"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer("http://idp.example.com"),)), "no https URL"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer(IDP.url, "ftp://x/keys"),)), "no https URL"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer(IDP.url, pool="a/b"),)), "workforce pool"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer(IDP.url),)), "everybody's e-mail"),
    ],
)
def test_options_that_contradict_each_other(options: IdentityOptions, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        identity_for(environment(), options)
    assert words in str(refused.value)


def test_a_sandboxs_tokens_are_sent_to_nobody_else() -> None:
    with pytest.raises(UsageError, match="only a sandbox can verify"):
        identity_for(environment("sandbox-encamp"), IdentityOptions(), {})


def test_only_a_sandboxs_own_environment_asks_another_token_service() -> None:
    environ = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_OAUTH2": "http://127.0.0.1:9/oauth2/"}

    def url(project: str) -> str:
        identity = identity_for(environment(project), IdentityOptions(), environ)
        assert identity._access_tokens is not None
        asyncio.run(identity.close())
        return identity._access_tokens._url

    assert url("sandbox-encamp") == "http://127.0.0.1:9/oauth2/tokeninfo"
    assert url("my-project") == "https://oauth2.googleapis.com/tokeninfo"


def test_without_credentials_there_is_one_caller() -> None:
    identity = NoIdentity("me@laptop")
    found = asyncio.run(identity.caller(None))
    assert found == asyncio.run(identity.caller("Bearer x")) == Caller("me@laptop", frozenset(), admin=True)
    asyncio.run(identity.close())
