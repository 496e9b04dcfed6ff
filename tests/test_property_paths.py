"""Paths of properties in the engine's syntax, there and back."""

from __future__ import annotations

import pytest

from encamp.property_paths import parse_path, path_text, within


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("a",), "a"),
        (("a", "b", 0, "c"), "a.b[0].c"),
        (("spec", "jobs", 0, "a.b/c", "d"), 'spec.jobs[0]["a.b/c"].d'),
        (("a", 'q"uote'), 'a["q\\"uote"]'),
        (("weird key", "b"), '["weird key"].b'),
        (("l", 0, 1), "l[0][1]"),
        (("a", "ü"), 'a["ü"]'),
    ],
)
def test_paths_survive_their_text(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text
    assert parse_path(text) == path


def test_paths_within_paths() -> None:
    assert within(("a", 0, "b"), parse_path("a[*].b"))
    assert within(("a", "b"), ("a",))
    assert not within(("a",), ("a", "b"))
