"""Members have one form in which they are compared, and nobody becomes somebody else by it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.errors import SpecError
from encamp.spec.environment import parse_environment
from encamp.spec.members import canonical, canonical_email, domain_of

POOL = "principal://iam.googleapis.com/locations/global/workforcePools/acme/subject"
#: Letters that become ASCII ones by Unicode's rules of case or compatibility, and what looks like them.
FALSE_FRIENDS = ("\u212a", "\u017f", "\u00df", "\u1e9e", "\u0130", "\u0131", "\uff4b", "\u043a", "k\u0301", "\ufb01")


@pytest.mark.parametrize("letter", FALSE_FRIENDS)
@pytest.mark.parametrize("email", ["{}ai@example.com", "ana@{}xample.com", "ana@example.co{}"])
def test_an_e_mail_is_ascii(letter: str, email: str) -> None:
    assert canonical_email(email.format(letter)) is None
    assert canonical(f"user:{email.format(letter)}") is None


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("user:Ana@Example.COM", "user:ana@example.com"),
        ("group:Vision@example.com", "group:vision@example.com"),
        ("serviceAccount:CI@p.iam.gserviceaccount.com", "serviceAccount:ci@p.iam.gserviceaccount.com"),
        ("user:o'neil+ml@mail.example.co.uk", "user:o'neil+ml@mail.example.co.uk"),
        (f"{POOL}/Eve", f"{POOL}/Eve"),
        (f"{POOL}/straße", f"{POOL}/straße"),
    ],
)
def test_e_mails_are_compared_without_case_and_federated_names_as_they_are(written: str, compared: str) -> None:
    assert canonical(written) == compared


@pytest.mark.parametrize(
    "text",
    [
        "", "user:", "user:ana", "user:@example.com", "user:ana@", "user:ana@example", "user:ana@example..com",
        "user:ana@.example.com", "user:ana@-example.com", "user:a b@example.com", "user:a\n@example.com",
        "user:ana@example.com\n", "user:a:b@example.com", "user:a@b@example.com", "ana@example.com",
        "USER:ana@example.com", f"user:a@{'b' * 300}.com",
        "users:ana@example.com", "allUsers", "domain:example.com", f"user:{'a' * 129}@example.com", POOL, f"{POOL}/",
        f"{POOL}/a b", "principal://elsewhere.example/subject/eve", "user:..@example.com",
    ],
)  # fmt: skip
def test_what_is_no_member_is_like_nobody(text: str) -> None:
    assert canonical(text) is None


@given(st.text(max_size=80))
def test_the_form_is_reached_at_once_and_is_ascii_for_e_mails(text: str) -> None:
    for kind in ("user:", "group:", "serviceAccount:"):
        found = canonical(kind + text)
        if found is not None:
            assert found.isascii()
            assert canonical(found) == found
            assert canonical_email(text) == found.removeprefix(kind)


_LOCAL = st.text(string.ascii_letters + string.digits + "._+-", min_size=1, max_size=20)


@given(_LOCAL, _LOCAL)
def test_two_are_one_only_where_their_ascii_letters_are(one: str, other: str) -> None:
    first, second = canonical(f"user:{one}@example.com"), canonical(f"user:{other}@example.com")
    if first is not None and second is not None:
        assert (first == second) == (one.lower() == other.lower())


def test_a_domain_is_that_of_the_canonical_e_mail() -> None:
    assert domain_of("ana@example.com") == "example.com"


@pytest.mark.parametrize(
    "member", ["user:\u212aai@example.com", "user:stra\u00dfe@example.com", "group:\u017fales@example.com"]
)
def test_teams_take_no_e_mail_that_could_be_taken_for_anothers(member: str) -> None:
    teams = [{"name": "root", "members": [member], "roles": ["ml.admin"]}]
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab", "access": {"teams": teams}}
    with pytest.raises(SpecError, match="is no member of a team"):
        parse_environment(data, project="my-project", source="the test")


def test_a_team_names_nobody_twice_whatever_the_case() -> None:
    teams = [{"name": "root", "members": ["user:ana@example.com", "user:Ana@example.com"], "roles": ["ml.admin"]}]
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab", "access": {"teams": teams}}
    with pytest.raises(SpecError, match="named twice"):
        parse_environment(data, project="my-project", source="the test")
