"""The end of a job as people read it: outcome, receipt, what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.cli.out import say

if TYPE_CHECKING:
    from encamp.run.ending import RunResult


def report(result: RunResult) -> None:
    """Show how a job ended; errors on stderr."""
    from encamp.cli.lines import printable  # noqa: PLC0415 - help pages need none of it
    from encamp.run.receipt import receipt_text  # noqa: PLC0415

    failure = result.outcome.failure
    if failure is not None and failure.last_lines:
        say(f"\nthe last lines of {failure.replica}:")
        for line in failure.last_lines:
            say(f"  | {printable(line)}")
    if result.receipt is not None:
        say(f"\n{receipt_text(result.receipt)}")
    say(f"results      {result.results}")
    for error in (result.error, result.teardown_error):
        if error is not None:
            say(f"error: {error}", err=True)
