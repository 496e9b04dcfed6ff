"""Probes of Cloud Storage: the behaviour of the run's own bucket with small objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from encamp.acceptance.answers import expect
from encamp.acceptance.probe import of_environment
from encamp.cloud.endpoints import Service

if TYPE_CHECKING:
    import requests

    from encamp.acceptance.cases import EnvironmentCase

_ANY = frozenset(range(300, 600))
_CREATED, _PARTIAL, _MORE, _CLOSED = 200, 206, 308, 499
_BAD_REQUEST, _NOT_FOUND, _CONFLICT, _FAILED, _BAD_RANGE = 400, 404, 409, 412, 416
_QUARTER_MIB = 256 * 1024


def _ask(case: EnvironmentCase, method: str, path: str, **options: Any) -> requests.Response:
    """Send one request, without retries, whose refusal is an answer."""
    return case.client.request(Service.STORAGE, method, path, accept=_ANY, attempts=1, **options)


def _bucket(case: EnvironmentCase) -> str:
    return f"/storage/v1/b/{quote(case.scratch, safe='')}"


def _object(case: EnvironmentCase, name: str) -> str:
    return f"{_bucket(case)}/o/{quote(name, safe='')}"


def _put(case: EnvironmentCase, name: str, content: bytes = b"x", **query: str) -> requests.Response:
    params = {"uploadType": "media", "name": name, **query}
    path = f"/upload/storage/v1/b/{quote(case.scratch, safe='')}/o"
    return _ask(case, "POST", path, params=params, data=content, headers={"Content-Type": "text/plain"})


def _reason(answer: requests.Response) -> str:
    try:
        errors = answer.json()["error"]["errors"]
        return str(errors[0]["reason"])
    except (ValueError, KeyError, IndexError, TypeError):
        return ""


def _listed(case: EnvironmentCase, prefix: str, **query: str) -> dict[str, Any]:
    path = f"/storage/v1/b/{quote(case.scratch, safe='')}/o"
    return case.client.json(Service.STORAGE, "GET", path, params={"prefix": prefix, **query})


@of_environment("storage-create-only-if-absent")
def create_only_if_absent(case: EnvironmentCase) -> str:
    """Write an object twice, each time only if there is none."""
    first = _put(case, "once", ifGenerationMatch="0")
    expect(first.status_code == _CREATED, f"the first write is answered with {first.status_code}")
    second = _put(case, "once", b"y", ifGenerationMatch="0")
    saw = f"the second write is answered with {second.status_code} {_reason(second)}"
    expect(second.status_code == _FAILED and _reason(second) == "conditionNotMet", saw)
    return saw


@of_environment("storage-generation-grows")
def generation_grows(case: EnvironmentCase) -> str:
    """Overwrite an object, and compare generations."""
    before, after = _put(case, "twice", b"a").json(), _put(case, "twice", b"b").json()
    saw = f"generations {before['generation']} and {after['generation']}, metageneration {after['metageneration']}"
    expect(int(after["generation"]) > int(before["generation"]) and after["metageneration"] == "1", saw)
    return saw


@of_environment("storage-listing-is-consistent")
def listing_is_consistent(case: EnvironmentCase) -> str:
    """List right after a write, and right after a delete."""
    _put(case, "listed/a")
    written = [item["name"] for item in _listed(case, "listed/").get("items") or ()]
    expect(written == ["listed/a"], f"after the write the listing has {written}")
    _ask(case, "DELETE", _object(case, "listed/a"))
    deleted = [item["name"] for item in _listed(case, "listed/").get("items") or ()]
    expect(deleted == [], f"after the delete the listing has {deleted}")
    return "the listing has an object right after its write, and lacks it right after its delete"


@of_environment("storage-names-sort-by-bytes")
def names_sort_by_bytes(case: EnvironmentCase) -> str:
    """List names whose order differs by alphabet and by bytes."""
    names = ["sorted/B", "sorted/a", "sorted/ä"]
    for name in reversed(names):
        _put(case, name)
    found = [item["name"] for item in _listed(case, "sorted/")["items"]]
    expect(found == names, f"they come as {found}")
    return f"they come as {found}"


@of_environment("storage-delimiter-rolls-up")
def delimiter_rolls_up(case: EnvironmentCase) -> str:
    """List with a delimiter, and in pages of one."""
    for name in ("rolled/a/1", "rolled/a/2", "rolled/b"):
        _put(case, name)
    found = _listed(case, "rolled/", delimiter="/")
    prefixes, items = found.get("prefixes"), [item["name"] for item in found.get("items") or ()]
    saw = f"prefixes {prefixes}, objects {items}"
    expect(prefixes == ["rolled/a/"] and items == ["rolled/b"], saw)
    first = _listed(case, "rolled/", maxResults="1")
    expect(len(first["items"]) == 1 and first.get("nextPageToken"), "a page of one has no token of the next")
    return saw


@of_environment("storage-missing-is-404")
def missing_is_404(case: EnvironmentCase) -> str:
    """Read an object and a bucket that are not there."""
    item = _ask(case, "GET", _object(case, "nothing"))
    bucket = _ask(case, "GET", f"/storage/v1/b/{case.scratch}-nothing-of-this-name")
    saw = f"an object {item.status_code} {_reason(item)}, a bucket {bucket.status_code}"
    # A bucket of somebody else's would be 403; one of this name is nobody's.
    expect((item.status_code, _reason(item), bucket.status_code) == (_NOT_FOUND, "notFound", _NOT_FOUND), saw)
    return saw


@of_environment("storage-multipart-upload")
def multipart_upload(case: EnvironmentCase) -> str:
    """Upload an object and its metadata in one request."""
    path = f"/upload/storage/v1/b/{quote(case.scratch, safe='')}/o"
    described = json.dumps({"name": "parts", "metadata": {"a": "1"}})
    body = f"--B\r\nContent-Type: application/json\r\n\r\n{described}\r\n--B\r\n\r\nbytes\r\n--B--\r\n".encode()
    headers = {"Content-Type": "multipart/related; boundary=B"}
    made = _ask(case, "POST", path, params={"uploadType": "multipart"}, data=body, headers=headers)
    found = made.json() if made.ok else {}
    saw = f"{made.status_code}, {found.get('size')} bytes with metadata {found.get('metadata')}"
    expect(found.get("size") == "5" and found.get("metadata") == {"a": "1"}, saw)
    return saw


@of_environment("storage-names-are-quoted")
def names_are_quoted(case: EnvironmentCase) -> str:
    """Write and read an object whose name needs quoting, and look for folders beside it."""
    name = "quoted/a b%2Fc"
    _put(case, name, b"found")
    read = _ask(case, "GET", _object(case, name), params={"alt": "media"})
    listed = [item["name"] for item in _listed(case, "quoted/").get("items") or ()]
    saw = f"{name!r} is answered with {read.status_code}, and listed are {listed}"
    expect(read.content == b"found" and listed == [name], saw)
    return saw


@of_environment("storage-digest-is-checked")
def digest_is_checked(case: EnvironmentCase) -> str:
    """Send a resumable upload whose promised digest is another content's."""
    path = f"/upload/storage/v1/b/{quote(case.scratch, safe='')}/o"
    params = {"uploadType": "resumable", "name": "digest"}
    begun = _ask(case, "POST", path, params=params, json={"md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg=="})
    sent = _ask(case, "PUT", _session(begun), data=b"not empty")
    saw = f"bytes that do not match their MD5 are answered with {sent.status_code}"
    expect(sent.status_code == _BAD_REQUEST, saw)
    return saw


@of_environment("storage-resumable-goes-on")
def resumable_goes_on(case: EnvironmentCase) -> str:
    """Send a first piece, ask how far it came, send the rest."""
    path = f"/upload/storage/v1/b/{quote(case.scratch, safe='')}/o"
    begun = _ask(case, "POST", path, params={"uploadType": "resumable", "name": "pieces"}, json={})
    session, total = _session(begun), _QUARTER_MIB + 3
    span = {"Content-Range": f"bytes 0-{_QUARTER_MIB - 1}/{total}"}
    first = _ask(case, "PUT", session, data=b"a" * _QUARTER_MIB, headers=span)
    asked = _ask(case, "PUT", session, data=b"", headers={"Content-Range": f"bytes */{total}"})
    held = (first.status_code, asked.status_code, asked.headers.get("Range"))
    expect(held == (_MORE, _MORE, f"bytes=0-{_QUARTER_MIB - 1}"), f"a first piece is answered with {held}")
    span = {"Content-Range": f"bytes {_QUARTER_MIB}-{total - 1}/{total}"}
    last = _ask(case, "PUT", session, data=b"end", headers=span)
    size = last.json().get("size") if last.ok else None
    expect(size == str(total), f"the last piece is answered with {last.status_code}, size {size}")
    return f"308 with the range that is held, then an object of {size} bytes"


@of_environment("storage-resumable-is-cancelled")
def resumable_is_cancelled(case: EnvironmentCase) -> str:
    """Cancel an upload."""
    path = f"/upload/storage/v1/b/{quote(case.scratch, safe='')}/o"
    begun = _ask(case, "POST", path, params={"uploadType": "resumable", "name": "no"}, json={})
    ended = _ask(case, "DELETE", _session(begun), headers={"Content-Length": "0"})
    there = _ask(case, "GET", _object(case, "no"))
    saw = f"cancelling is answered with {ended.status_code}, and the object with {there.status_code}"
    expect((ended.status_code, there.status_code) == (_CLOSED, _NOT_FOUND), saw)
    return saw


@of_environment("storage-range-of-an-object")
def range_of_an_object(case: EnvironmentCase) -> str:
    """Read a part of an object, and one beyond its end."""
    _put(case, "range", b"0123456789")
    part = _ask(case, "GET", _object(case, "range"), params={"alt": "media"}, headers={"Range": "bytes=2-4"})
    beyond = _ask(case, "GET", _object(case, "range"), params={"alt": "media"}, headers={"Range": "bytes=20-"})
    saw = f"bytes 2 to 4 are {part.content!r} with {part.status_code}; beyond the end: {beyond.status_code}"
    expect((part.status_code, part.content, beyond.status_code) == (_PARTIAL, b"234", _BAD_RANGE), saw)
    return saw


@of_environment("storage-compose-has-no-md5")
def compose_has_no_md5(case: EnvironmentCase) -> str:
    """Join two objects."""
    for name in ("part-1", "part-2"):
        _put(case, name, name.encode())
    sources = [{"name": name} for name in ("part-1", "part-2")]
    made = _ask(case, "POST", f"{_object(case, 'joined')}/compose", json={"sourceObjects": sources})
    found = made.json()
    saw = f"{made.status_code}, md5Hash {'there' if 'md5Hash' in found else 'absent'}, crc32c {found.get('crc32c')}"
    expect(made.status_code == _CREATED and "md5Hash" not in found and found.get("crc32c"), saw)
    return saw


@of_environment("storage-compose-takes-32")
def compose_takes_32(case: EnvironmentCase) -> str:
    """Join 33 times the same object."""
    _put(case, "many")
    sources = [{"name": ("many")}] * 33
    made = _ask(case, "POST", f"{_object(case, 'joined-33')}/compose", json={"sourceObjects": sources})
    expect(made.status_code == _BAD_REQUEST, f"33 sources are answered with {made.status_code}")
    return f"33 sources are answered with {made.status_code}"


@of_environment("storage-object-names")
def object_names(case: EnvironmentCase) -> str:
    """Write objects whose names are refused."""
    answers = {}
    for shown, name in (("a line feed", "a\nb"), ("1025 bytes", "n" * 1025)):
        params = {"uploadType": "media", "name": name}
        path = f"/upload/storage/v1/b/{quote(case.scratch, safe='')}/o"
        answers[shown] = _ask(case, "POST", path, params=params, data=b"x").status_code
    expect(set(answers.values()) == {_BAD_REQUEST}, f"refusals: {answers}")
    return f"refusals: {answers}"


@of_environment("storage-policy-has-an-etag")
def policy_has_an_etag(case: EnvironmentCase) -> str:
    """Write a bucket's policy back under an etag of another time."""
    path = f"{_bucket(case)}/iam"
    policy = case.client.json(Service.STORAGE, "GET", path, params={"optionsRequestedPolicyVersion": "3"})
    answer = _ask(case, "PUT", path, json={**policy, "etag": "CAA="})
    saw = f"an etag of another time is answered with {answer.status_code}"
    expect(answer.status_code in (_CONFLICT, _FAILED), saw)
    return saw


@of_environment("storage-bucket-that-holds-something")
def bucket_that_holds_something(case: EnvironmentCase) -> str:
    """Delete a bucket while it holds an object."""
    _put(case, "held")
    answer = _ask(case, "DELETE", _bucket(case))
    saw = f"it is answered with {answer.status_code}"
    expect(answer.status_code == _CONFLICT, saw)
    return saw


@of_environment("storage-versions-stay")
def versions_stay(case: EnvironmentCase) -> str:
    """Overwrite and delete an object while the bucket keeps versions, then delete one version for good."""
    case.client.json(Service.STORAGE, "PATCH", _bucket(case), json={"versioning": {"enabled": True}})
    try:
        made = [str(_put(case, "versions", content).json()["generation"]) for content in (b"a", b"b")]
        _ask(case, "DELETE", _object(case, "versions"))
        kept = [item["generation"] for item in _listed(case, "versions", versions="true").get("items") or ()]
        expect(kept == made, f"versions {kept} are kept of {made}")
        _ask(case, "DELETE", _object(case, "versions"), params={"generation": made[0]})
        left = [item["generation"] for item in _listed(case, "versions", versions="true").get("items") or ()]
        expect(left == made[1:], f"after one was deleted by its generation {left} are kept of {made}")
    finally:
        case.client.json(Service.STORAGE, "PATCH", _bucket(case), json={"versioning": {"enabled": False}})
    return "2 versions stay after a delete, and 1 after the other was deleted by its generation"


@of_environment("storage-move-is-atomic")
def move_is_atomic(case: EnvironmentCase) -> str:
    """Rename an object."""
    _put(case, "moved/from", b"moved")
    answer = _ask(case, "POST", f"{_object(case, 'moved/from')}/moveTo/o/{quote('moved/to', safe='')}")
    found = [item["name"] for item in _listed(case, "moved/").get("items") or ()]
    saw = f"moveTo is answered with {answer.status_code}, and then there is {found}"
    expect(answer.ok and found == ["moved/to"], saw)
    return saw


@of_environment("storage-patch-merges")
def patch_merges(case: EnvironmentCase) -> str:
    """Change one key of an object's metadata, and take another away."""
    _put(case, "patched")
    for metadata in ({"a": "1", "b": "2"}, {"a": None, "c": "3"}):
        answer = _ask(case, "PATCH", _object(case, "patched"), json={"metadata": metadata})
    found = answer.json().get("metadata")
    expect(found == {"b": "2", "c": "3"}, f"metadata are {found}")
    return f"metadata are {found}"


def _session(begun: requests.Response) -> str:
    """Return the path of an upload's session, at the service that began it."""
    parts = urlsplit(begun.headers["Location"])
    return f"{parts.path}?{parts.query}"
