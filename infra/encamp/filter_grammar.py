"""The grammar of Google's filters (AIP-160), which Cloud Logging and lists of jobs share.

Comparisons of a field with a value are joined by AND (or a space), OR, NOT (or -) and parentheses. NOT binds closest,
then OR, then AND (belief ``logging-filters-or-before-and``). The words of fields and values
differ between the two languages.
Sources: google.aip.dev/160; cloud.google.com/logging/docs/view/logging-query-language#boolean-operators.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Any, Generic, TypeVar

from lark import Token, Transformer

from encamp.grammar import Grammar

_Condition = TypeVar("_Condition")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class FilterBuilder(Transformer[Token, _Condition], Generic[_Condition]):
    """Makes the condition of a filter from those of its parts, while the filter is parsed."""

    @abstractmethod
    def compare(self, field: Token, sign: Token, value: str) -> _Condition:
        """Return the condition of one comparison; the value is without quotes and escapes."""

    @abstractmethod
    def all_of(self, parts: tuple[_Condition, ...]) -> _Condition:
        """Return the condition that holds where all of its parts do."""

    @abstractmethod
    def any_of(self, parts: tuple[_Condition, ...]) -> _Condition:
        """Return the condition that holds where one of its parts does."""

    @abstractmethod
    def negate(self, part: _Condition) -> _Condition:
        """Return the condition that holds where its part does not."""

    # The rules of the grammar, as lark calls them.

    def conjunction(self, parts: list[_Condition]) -> _Condition:
        """Join by AND."""
        return self.all_of(tuple(parts))

    def disjunction(self, parts: list[_Condition]) -> _Condition:
        """Join by OR."""
        return self.any_of(tuple(parts))

    def negation(self, parts: list[Any]) -> _Condition:
        """Negate as often as there are NOTs."""
        *negations, part = parts
        return self.negate(part) if len(negations) % 2 else part

    def comparison(self, parts: list[Token]) -> _Condition:
        """Compare a field with a value."""
        field, sign, value = parts
        return self.compare(_unquoted(field), sign, _unquoted(value))


def filter_grammar(
    builder: FilterBuilder[Any], *, field: str, sign: str, value: str, text: str, longest: int, deepest: int
) -> Grammar:
    """Return the grammar of one language of filters.

    Args:
        builder: makes the conditions.
        field: regular expression of a field without quotes.
        sign: of an operator.
        value: of a value without quotes.
        text: of a text in quotes.
        longest: most characters of a filter.
        deepest: most parentheses in each other.
    """
    rules = rf"""
        ?start: conjunction
        ?conjunction: disjunction (_AND? disjunction)*
        ?disjunction: _term (_OR _term)*
        _term: negation | _simple
        negation: NOT+ _simple
        _simple: _LPAR conjunction _RPAR | comparison
        comparison: (FIELD | TEXT) SIGN (VALUE | TEXT)
        _LPAR: "("
        _RPAR: ")"
        _AND: /AND{_WORD_ENDS}/
        _OR: /OR{_WORD_ENDS}/
        NOT: /NOT{_WORD_ENDS}|-/
        SIGN: /{sign}/
        FIELD: /(?!-|(?:AND|OR|NOT){_WORD_ENDS}){field}/
        VALUE: /{value}/
        TEXT: /{text}/s
        %ignore /\s+/
    """
    return Grammar(rules, longest=longest, deepest=deepest, transformer=builder)


#: No character of a word follows.
_WORD_ENDS = r"""(?![^\s"'=<>:()!])"""


def _unquoted(token: Token) -> Token:
    return token.update(value=_ESCAPED.sub(r"\1", token[1:-1])) if token.type == "TEXT" else token
