"""Parsers of small languages that strangers write: LALR grammars on lark, with bounds and errors that have a place.

A text is bounded in length and depth, and an LALR parser uses no recursion: no text can exhaust the stack, and the time
it takes grows with its length alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lark import Transformer


class GrammarError(ValueError):
    """A text that a grammar does not accept.

    Attributes:
        at: the character at which parsing stopped, counted from 0; the text's length where it ends too early.
        found: the token there; the single character where no token begins; empty at the end.
        previous: the token before it, where that belongs to no complete rule yet; else empty.
        expected: names of the terminals that could stand there; empty where no token begins.
    """

    def __init__(self, at: int, found: str, previous: str = "", expected: frozenset[str] = frozenset()) -> None:
        super().__init__(f"unexpected {found or 'end'} at {at}")
        self.at = at
        self.found = found
        self.previous = previous
        self.expected = expected


class TooLongError(ValueError):
    """A text with more characters than its grammar allows."""


class TooDeepError(ValueError):
    """A text that nests deeper than its grammar allows; ``at`` is the character, counted from 0."""

    def __init__(self, at: int) -> None:
        super().__init__(f"nested too deeply at {at}")
        self.at = at


class Grammar:
    """An LALR grammar, and the bounds of its texts.

    Args:
        rules: in lark's notation; its terminals ``_LPAR``, ``_RPAR`` and ``NOT`` count for the depth.
        longest: most characters.
        deepest: most parentheses in each other; negations in a row count like parentheses.
        transformer: makes values of rules while the text is parsed; None for a tree.
    """

    def __init__(
        self, rules: str, *, longest: int, deepest: int, transformer: Transformer[Token, Any] | None = None
    ) -> None:
        self._longest = longest
        self._parser = Lark(rules, parser="lalr", transformer=transformer, postlex=_Depth(deepest))

    def parse(self, text: str) -> Any:
        """Return the tree of a text, or what the transformer makes of it.

        Raises:
            TooLongError: it has too many characters.
            TooDeepError: it nests too deeply.
            GrammarError: the grammar does not accept it.
        """
        if len(text) > self._longest:
            raise TooLongError(f"{len(text)} characters, at most {self._longest}")
        try:
            return self._parser.parse(text)
        except UnexpectedCharacters as error:
            at = error.pos_in_stream or 0
            raise GrammarError(at, text[at]) from None
        except UnexpectedToken as error:
            raise _unexpected(error, len(text)) from None


@dataclass(frozen=True)
class _Depth:
    """Filter between lexer and parser that refuses tokens which nest too deeply."""

    deepest: int
    always_accept: tuple[str, ...] = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth = negations = 0
        for token in stream:
            negations = negations + 1 if token.type == "NOT" else 0
            depth += (token.type == "_LPAR") - (token.type == "_RPAR")
            if depth + negations > self.deepest:
                raise TooDeepError(token.start_pos or 0)
            yield token


def _unexpected(error: UnexpectedToken, length: int) -> GrammarError:
    stack = error.interactive_parser.parser_state.value_stack
    previous = stack[-1] if stack and isinstance(stack[-1], Token) else ""
    expected = frozenset(error.accepts)
    if error.token.type == "$END":
        return GrammarError(length, "", str(previous), expected)
    return GrammarError(error.token.start_pos or 0, str(error.token), str(previous), expected)
