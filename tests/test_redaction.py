from __future__ import annotations

import pytest

from encamp.errors import EngineError
from encamp.redaction import MASK, holds_secret, redacted, redacted_data

SIGNED = "https://storage.googleapis.com/b/o?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature=0a1b2c&X-Goog-Date=1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (SIGNED, SIGNED.replace("0a1b2c", MASK)),
        (f'"{SIGNED}"', f'"{SIGNED}"'.replace("0a1b2c", MASK)),
        ("https://h/o?GoogleAccessId=a@b&Expires=1&Signature=ab%2Bc", f"https://h/o?GoogleAccessId=a@b&Expires=1&Signature={MASK}"),
        ("https://s3/o?X-Amz-Signature=ff&x-amz-security-token=gg", f"https://s3/o?X-Amz-Signature={MASK}&x-amz-security-token={MASK}"),
        ("https://a.blob/o?sv=1&sig=ab=='", f"https://a.blob/o?sv=1&sig={MASK}'"),
        ("postgresql+psycopg://me:p%40ss@h:5432/db", f"postgresql+psycopg://me:{MASK}@h:5432/db"),
        ("postgres://me@h/db?sslmode=require&password=pw", f"postgres://me@h/db?sslmode=require&password={MASK}"),
        ("Authorization: Bearer abcdefgh.ijk", f"Authorization: Bearer {MASK}"),
        ("token ya29.a0Af_x-y is old", f"token {MASK} is old"),
        ("--jwt=eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln_-x!", f"--jwt={MASK}!"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b", f"a {MASK} b"),
        ("a -----BEGIN PRIVATE KEY-----\nMII that is cut o", f"a {MASK}"),
        ("PUT /upload/o?uploadType=resumable&upload_id=abc", f"PUT /upload/o?uploadType=resumable&upload_id={MASK}"),
    ],
)  # fmt: skip
def test_secrets_of_a_known_form_are_left_out(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown
    assert holds_secret({"args": [text]})


@pytest.mark.parametrize(
    "text",
    ["gs://bucket/a:b@c/d", "http://host:8080/a?b=c", "--password=x", "me@example.com", "a=b&c=d", "{a: b}", "sig=1"],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text
    assert not holds_secret([text])


@pytest.mark.parametrize(
    "part", ["a", "a.", "a://", "a://b:", "Bearer ", "-----BEGIN PRIVATE KEY-----", "eyJ", "?sig="]
)
def test_long_texts_take_no_longer_than_their_length(part: str) -> None:
    # With a form that looks for its end from every place again, these would take minutes.
    assert len(redacted(part * 20_000)) <= 20_000 * (len(part) + len(MASK))


def test_values_that_are_known_to_be_secret_are_left_out_longest_first() -> None:
    assert redacted("hunter2 and hunter22, not 2.11", ["hunter2", "hunter22", "2.11"]) == f"{MASK} and {MASK}, not 2.11"


def test_data_keeps_its_shape() -> None:
    data = {"trainingInput": {"args": ["--data", SIGNED], "workerCount": 2, "labels": None}, "x": ("a", SIGNED)}
    arguments = {"args": ["--data", redacted(SIGNED)], "workerCount": 2, "labels": None}
    expected = {"trainingInput": arguments, "x": ("a", redacted(SIGNED))}
    assert redacted_data(data) == expected


def test_no_error_of_ours_quotes_one() -> None:
    error = EngineError(f"failed to open {SIGNED}", where="postgres://u:pw@h/state")
    assert str(error) == f"postgres://u:{MASK}@h/state: failed to open {redacted(SIGNED)}"
    assert "0a1b2c" not in repr(error)
