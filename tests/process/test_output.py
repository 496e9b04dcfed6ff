from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.process import LineSplitter, OutputLine


def split(*chunks: bytes, limit: int = 16384, redraws: bool = True) -> list[OutputLine]:
    splitter = LineSplitter(limit=limit, redraws=redraws)
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    return pieces + list(splitter.pause())


def test_lines_come_whole_however_they_are_cut() -> None:
    assert split(b"on", b"e\ntw", b"o\n") == [OutputLine(b"one"), OutputLine(b"two")]


def test_an_unfinished_line_is_handed_on_at_a_pause() -> None:
    assert split(b"Continue? ") == [OutputLine(b"Continue? ", ended=False)]


def test_a_progress_bar_is_redrawn_and_its_last_state_is_a_line() -> None:
    assert split(b"10%\r", b"50%\r100%\n") == [
        OutputLine(b"10%", redrawn=True),
        OutputLine(b"50%", redrawn=True),
        OutputLine(b"100%"),
    ]


@pytest.mark.parametrize("chunks", [(b"a\r\nb\r\n",), (b"a\r", b"\nb\r", b"\n")])
def test_carriage_return_and_line_feed_are_one_line_end(chunks: tuple[bytes, ...]) -> None:
    assert split(*chunks) == [OutputLine(b"a"), OutputLine(b"b")]


def test_a_carriage_return_stays_where_redraws_are_not_wanted() -> None:
    assert split(b"1%\r2%\n", redraws=False) == [OutputLine(b"1%\r2%")]


def test_a_long_line_comes_in_pieces_and_no_character_is_cut() -> None:
    pieces = split("ä".encode() * 10 + b"\n", limit=5)
    assert [piece.data for piece in pieces] == ["ää".encode()] * 5
    assert [piece.ended for piece in pieces] == [False] * 4 + [True]


def test_bytes_that_are_no_text_are_shown_escaped() -> None:
    assert split(b"\xff\x00ok\n")[0].text == "\\xff\x00ok"


@given(st.lists(st.binary(max_size=40), max_size=20), st.booleans())
def test_no_byte_is_lost_and_order_is_kept(chunks: list[bytes], redraws: bool) -> None:
    pieces = split(*chunks, limit=8, redraws=redraws)
    assert all(len(piece.data) <= 8 for piece in pieces)
    ends = bytes.maketrans(b"", b"")
    joined = b"".join(piece.data for piece in pieces)
    drop = b"\r\n" if redraws else b"\n"
    assert joined.translate(ends, drop) == b"".join(chunks).translate(ends, drop)
