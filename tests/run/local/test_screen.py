from __future__ import annotations

from encamp.process import LineSplitter, OutputLine
from encamp.run.local.screen import Screen, shown, wants_colour


class Terminal:
    """What stands on a terminal after all that was written to it: rows, the last one unfinished."""

    def __init__(self) -> None:
        self.rows = [""]

    def write(self, text: str) -> None:
        assert text
        for at, row in enumerate(text.split("\n")):
            if at:
                self.rows.append("")
            # A row is erased as a whole before it is drawn anew, never in part.
            whole = row.split("\r\x1b[K")
            self.rows[-1] = self.rows[-1] + whole[0] if len(whole) == 1 else whole[-1]
            assert "\r" not in self.rows[-1]


class Plain:
    """What a file or a pipe gets."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def feed(screen: Screen, name: str, *chunks: bytes) -> None:
    """Chunks as they come, with a pause after each."""
    splitter = LineSplitter()
    for chunk in chunks:
        for piece in (*splitter.feed(chunk), *splitter.pause()):
            screen.line(name, piece)


def test_every_line_stands_under_its_replicas_name_in_the_order_of_writing() -> None:
    out = Plain()
    screen = Screen(out.write, ["master-replica-0", "ps-replica-0"])
    feed(screen, "ps-replica-0", b"one\r\ntwo\n")
    feed(screen, "master-replica-0", b"here\n\n")
    feed(screen, "ps-replica-0", b"three\n")
    assert out.text == (
        "ps-replica-0     | one\nps-replica-0     | two\nmaster-replica-0 | here\nmaster-replica-0 | \n"
        "ps-replica-0     | three\n"
    )


def test_a_line_that_comes_in_pieces_is_one_line_whatever_others_write_meanwhile() -> None:
    out = Plain()
    screen = Screen(out.write, ["a", "b"])
    feed(screen, "a", b"loading ... ")
    feed(screen, "b", b"hello\n")
    feed(screen, "a", b"caf\xc3", b"\xa9\n")
    assert out.lines == ["b | hello", "a | loading ... café"]


def test_what_a_replica_left_unfinished_is_a_line_at_its_end() -> None:
    out = Plain()
    screen = Screen(out.write, ["a"])
    feed(screen, "a", b"last words")
    screen.ended("a")
    screen.ended("a")
    assert out.lines == ["a | last words"]
    assert screen.tail("a") == ("last words",)


def test_a_line_without_an_end_is_not_kept_in_memory_for_ever() -> None:
    out = Plain()
    screen = Screen(out.write, ["a"])
    for _ in range(100):
        screen.line("a", OutputLine(b"x" * 1024, ended=False))
    assert len(out.lines) >= 5
    assert sum(len(line) - 4 for line in out.lines) >= 80 * 1024


def test_where_there_is_no_terminal_a_bar_is_a_line_when_it_is_done_and_now_and_then_before() -> None:
    out, clock = Plain(), Clock()
    screen = Screen(out.write, ["a"], clock=clock)
    for percent in range(0, 100, 10):
        feed(screen, "a", b"\r%d%%" % percent)
        clock.now += 3.0
    feed(screen, "a", b"\r100%\n")
    assert out.lines == ["a | 0%", "a | 40%", "a | 80%", "a | 100%"]
    assert screen.tail("a") == ("100%",)


def test_a_bar_that_was_written_as_it_stood_is_not_written_again() -> None:
    out = Plain()
    screen = Screen(out.write, ["a"])
    feed(screen, "a", b"100%\r")
    screen.ended("a")
    assert out.lines == ["a | 100%"]
    assert screen.tail("a") == ("100%",)


def test_on_a_terminal_a_bar_stays_in_the_last_row_under_the_lines_of_all() -> None:
    terminal = Terminal()
    screen = Screen(terminal.write, ["a", "b"], terminal=True)
    feed(screen, "a", b"\r10%")
    assert terminal.rows == ["a | 10%"]
    feed(screen, "b", b"hello\n")
    assert terminal.rows == ["b | hello", "a | 10%"]
    feed(screen, "a", b"\r20%")
    assert terminal.rows == ["b | hello", "a | 20%"]
    feed(screen, "a", b"\r100%\n")
    assert terminal.rows == ["b | hello", "a | 100%", ""]


def test_two_bars_take_turns_in_the_last_row_and_each_can_be_read() -> None:
    terminal, clock = Terminal(), Clock()
    screen = Screen(terminal.write, ["a", "b"], terminal=True, clock=clock)
    feed(screen, "a", b"\ra 10%")
    clock.now += 0.5
    feed(screen, "b", b"\rb 40%")
    assert terminal.rows == ["a | a 10%"]
    clock.now += 0.5
    feed(screen, "b", b"\rb 50%")
    assert terminal.rows == ["b | b 50%"]
    feed(screen, "b", b"\rb 100%\n")
    assert terminal.rows == ["b | b 100%", "a | a 10%"]
    screen.say("steps of the run go above it")
    assert terminal.rows[1:] == ["[   1.0s] steps of the run go above it", "a | a 10%"]
    screen.ended("a")
    assert terminal.rows[2:] == ["a | a 10%", ""]


def test_a_bar_that_has_not_moved_is_not_drawn_again() -> None:
    out = Plain()
    screen = Screen(out.write, ["a"], terminal=True)
    feed(screen, "a", b"\r10%", b"\r10%", b"\r", b"10%")
    assert out.text == "a | 10%"


def test_a_bar_that_is_wiped_away_leaves_nothing() -> None:
    terminal = Terminal()
    screen = Screen(terminal.write, ["a"], terminal=True)
    feed(screen, "a", b"\r10%", b"\r    \r")
    screen.ended("a")
    assert terminal.rows == [""]


def test_keras_bars_that_step_back_are_read_as_bars() -> None:
    out = Plain()
    screen = Screen(out.write, ["a"])
    feed(screen, "a", b"1/2 [==>]", b"\x08" * 9 + b"\r2/2 [===]\n")
    assert out.lines[-1] == "a | 2/2 [===]"


def test_a_bar_is_no_wider_than_the_terminal() -> None:
    terminal = Terminal()
    screen = Screen(terminal.write, ["a"], terminal=True, width=lambda: 20)
    feed(screen, "a", b"\r" + "日本".encode() + b"x" * 50)
    assert terminal.rows == ["a | 日本" + "x" * 11]


def test_every_replica_has_a_colour_and_only_its_prefix_carries_it() -> None:
    out = Plain()
    screen = Screen(out.write, ["a", "b"], terminal=True, colour=True)
    feed(screen, "a", b"one\n")
    feed(screen, "b", b"two\n")
    assert out.text == "\x1b[36ma | \x1b[0mone\n\x1b[33mb | \x1b[0mtwo\n"


def test_colours_are_for_terminals_that_want_them() -> None:
    assert wants_colour({"TERM": "xterm"}, terminal=True)
    assert not wants_colour({"TERM": "xterm"}, terminal=False)
    assert not wants_colour({"TERM": "xterm", "NO_COLOR": "1"}, terminal=True)
    assert wants_colour({"NO_COLOR": ""}, terminal=True)
    assert not wants_colour({"TERM": "dumb"}, terminal=True)


def test_a_replica_steers_no_terminal() -> None:
    hostile = "\x1b[2Jred: \x1b[31mR\x1b[0m\x1b]0;title\x07 \x1b[1A\tbell\x07 \x1b[12"
    assert shown(hostile, colour=False) == "red: R \tbell\\x07 \\x1b[12"
    assert shown(hostile, colour=True) == "red: \x1b[31mR\x1b[0m \tbell\\x07 \\x1b[12\x1b[0m"
    assert shown("plain, äöü 日本", colour=True) == "plain, äöü 日本"
