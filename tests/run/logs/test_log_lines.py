from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from encamp.run.logs import log_lines
from encamp.run.logs.log_lines import last_time, lines
from encamp.run.logs.log_times import STEP, Frames
from encamp.run.times import written

if TYPE_CHECKING:
    from collections.abc import Mapping

A, B = "master-replica-0", "worker-replica-0"
T = 1_767_268_800_000_000
ALL = (0, 10**18)


@dataclass
class FakeTexts:
    logs: Mapping[str, bytes]
    frames: Frames = field(default_factory=Frames)
    whole: bool = True
    read_bytes: int = 0

    @property
    def sizes(self) -> Mapping[str, int]:
        return {name: len(text) for name, text in self.logs.items()} if self.whole else self.frames.ends

    def read(self, replica: str, begin: int, end: int) -> bytes:
        self.read_bytes += end - begin
        return self.logs[replica][begin:end]


def _frames(*came: tuple[int, dict[str, int]]) -> Frames:
    frames = Frames()
    frames.feed(b"".join(json.dumps({"at": written(at), "ends": ends}).encode() + b"\n" for at, ends in came))
    return frames


def test_lines_are_in_the_order_in_which_they_came() -> None:
    frames = _frames((T, {A: 4, B: 2}), (T + 500_000, {B: 5}), (T + 900_000, {A: 9}))
    texts = FakeTexts({A: b"a0\n\na1..\n", B: b"b\nb1\n"}, frames)
    found = [(line.at - T, line.replica, line.offset, line.text) for line in lines(texts, *ALL)]
    assert found == [
        (0, A, 0, b"a0"),
        (0, A, 3, b""),
        (0, B, 0, b"b"),
        (500_000, B, 2, b"b1"),
        (900_000, A, 4, b"a1.."),
    ]
    backwards = [(line.at - T, line.replica, line.offset, line.text) for line in lines(texts, *ALL, newest_first=True)]
    assert backwards == found[::-1]
    assert [line.text for line in lines(texts, T + 1, T + 600_000)] == [b"b1"]
    assert last_time(texts, ended=0) == T + 900_000
    assert last_time(texts, ended=T + 10**9) == T + 10**9


def test_a_line_of_stderr_is_told_by_its_mark_which_is_no_part_of_it() -> None:
    text = b"out\nerr \t \n \t \n\ttab \t\n" + b"x" * (log_lines.LONGEST + 5) + b" \t \n"
    found = [(line.offset, line.text[:5], len(line.text), line.stderr) for line in lines(FakeTexts({A: text}), *ALL)]
    assert found == [
        (0, b"out", 3, False),
        (4, b"err", 3, True),
        (11, b"", 0, True),
        (15, b"\ttab ", 6, False),
        (22, b"xxxxx", log_lines.LONGEST, True),
        (22 + log_lines.LONGEST, b"xxxxx", 5, True),
    ]


def test_of_a_log_that_grows_only_what_has_a_time_is_there() -> None:
    texts = FakeTexts({A: b"one\ntwo\nthr"}, _frames((T, {A: 4})), whole=False)
    assert [line.text for line in lines(texts, *ALL)] == [b"one"]


def test_what_nobody_wrote_down_the_times_of_comes_at_the_end_of_the_job() -> None:
    texts = FakeTexts({A: b"one\ntwo\n", B: b"x"}, _frames((T, {A: 4})))
    assert [(line.at - T, line.text) for line in lines(texts, *ALL, ended=T + 60)] == [
        (0, b"one"),
        (STEP, b"two"),
        (STEP, b"x"),
    ]
    assert [(line.at - T, line.text) for line in lines(texts, *ALL, ended=T + 5 * STEP)][1:] == [
        (5 * STEP, b"two"),
        (5 * STEP, b"x"),
    ]


def test_only_what_is_asked_for_is_read() -> None:
    texts = FakeTexts({A: b"x\n" * 500_000}, _frames((T, {A: 999_990}), (T + 10, {A: 999_990}), (T + 20, {A: 10**6})))
    assert len(list(lines(texts, T + 1, T + 20))) == 5
    assert texts.read_bytes < 100


@pytest.mark.parametrize("seed", range(40))
def test_every_byte_of_every_log_comes_once_and_in_order_however_it_is_cut(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)  # noqa: S311 - cases of a test
    monkeypatch.setattr(log_lines, "PIECE", draw.choice([1, 2, 3, 7, 50]))
    monkeypatch.setattr(log_lines, "LONGEST", draw.choice([1, 2, 5, 20]))
    logs = {name: b"".join(draw.choices([b"\n", b"a", b"bc", b"def"], k=draw.randrange(60))) for name in (A, B)}
    cuts = {name: [at + 1 for at, byte in enumerate(text) if byte == ord("\n")] for name, text in logs.items()}
    came = []
    for number in range(draw.randrange(8)):
        ends = {name: draw.choice(found) for name, found in cuts.items() if found and draw.random() < 0.7}
        came.append((T + number * STEP, ends))
    texts = FakeTexts(logs, _frames(*came))
    found = list(lines(texts, *ALL, ended=T + 10 * STEP))
    for name, text in logs.items():
        mine = [line for line in found if line.replica == name]
        assert [line.offset for line in mine] == sorted({line.offset for line in mine})
        begins = [line.offset for line in mine] + [len(text)]
        for line, following in zip(mine, begins[1:], strict=True):
            assert text[line.offset : following] in (line.text, line.text + b"\n")
        assert begins[0] == 0 or not text
    keys = [(line.at, line.replica, line.offset) for line in found]
    assert keys == sorted(set(keys))
    assert list(lines(texts, *ALL, ended=T + 10 * STEP, newest_first=True)) == found[::-1]
    middle = T + 3 * STEP
    parts = [*lines(texts, 0, middle, ended=T + 10 * STEP), *lines(texts, middle + 1, 10**18, ended=T + 10 * STEP)]
    assert parts == found
