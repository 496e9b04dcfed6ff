"""The filter of a list of jobs: its language, and errors with their place.

The language is that of AIP-160 as far as one can filter a Job by it. A value of ``:`` or ``=`` may hold ``*``, which
stands for any text. A field that a job has not lets nothing through, whatever it is compared with; NOT turns that
round. Source: google.aip.dev/160; the job model, section 1.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp.api.comparing import Comparison, comparison
from encamp.api.errors import wrong_field
from encamp.filter_grammar import FilterBuilder, filter_grammar
from encamp.grammar import GrammarError, TooDeepError, TooLongError

if TYPE_CHECKING:
    from lark import Token

    from encamp.api.errors import ApiError

_LONGEST: Final = 2000
_DEEPEST: Final = 20
_SIGNS: Final = ("=", "!=", "<", "<=", ">", ">=", ":")


def parse_filter(text: str) -> Comparison:
    """Return the predicate of a filter; an empty one lets everything through.

    Raises:
        ApiError: INVALID_ARGUMENT, with the place in the filter that cannot be read, counted from 1.
    """
    if len(text) <= _LONGEST and not text.strip():
        return bool
    try:
        return _GRAMMAR.parse(text)
    except TooLongError:
        raise _wrong(_LONGEST - 1, f"it has {len(text)} characters, more than {_LONGEST}") from None
    except TooDeepError as error:
        raise _wrong(error.at, f"more than {_DEEPEST} parentheses or negations stand in each other") from None
    except GrammarError as error:
        raise _wrong(error.at, _problem(error)) from None


class _Predicates(FilterBuilder[Comparison]):
    """Predicates on Job resources."""

    def compare(self, field: Token, sign: Token, value: str) -> Comparison:
        try:
            return comparison(str(field), str(sign), str(value))
        except ValueError as error:
            raise _wrong(field.start_pos or 0, str(error)) from None

    def all_of(self, parts: tuple[Comparison, ...]) -> Comparison:
        return lambda job: all(part(job) for part in parts)

    def any_of(self, parts: tuple[Comparison, ...]) -> Comparison:
        return lambda job: any(part(job) for part in parts)

    def negate(self, part: Comparison) -> Comparison:
        return lambda job: not part(job)


#: A value without quotes goes on to the next space, since times and URIs hold what separates elsewhere.
_GRAMMAR: Final = filter_grammar(
    _Predicates(),
    field=r"""[^\s"'=<>:()!]+""",
    sign="<=|>=|!=|[=<>:]",
    value=r"""[^\s"'=<>:()!](!=|[^\s"'()!])*""",
    text=r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""",
    longest=_LONGEST,
    deepest=_DEEPEST,
)


def _problem(error: GrammarError) -> str:
    if not error.expected:
        return "a quote is not closed" if error.found in {'"', "'"} else f"{error.found!r} cannot stand here"
    if "SIGN" in error.expected:
        return f"after {error.previous[:40]!r} one of {' '.join(_SIGNS)} is expected"
    if "VALUE" in error.expected:
        return f"a value is expected after {error.previous}"
    if not error.expected & {"$END", "_RPAR"}:
        return "a field is expected, such as jobId"
    return f"{error.found!r} is not expected here" if error.found else "a parenthesis is not closed"


def _wrong(at: int, what: str) -> ApiError:
    message = f"the filter cannot be read at character {at + 1}: {what}; such as: jobId:rnn* AND state:FAILED"
    return wrong_field("filter", message)
