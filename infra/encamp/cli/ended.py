"""The end of a job as people read it: outcome, receipt, what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.cli.out import say
from encamp.cli.stack import DEFAULT_ENVIRONMENT, stack_words
from encamp.cli.verbosity import Verbosity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from encamp.run.lifecycle.ending import RunResult


def report(result: RunResult, verbosity: Verbosity = Verbosity.VERBOSE) -> None:
    """Show how a job ended; errors on stderr."""
    from encamp.cli.lines import printable  # noqa: PLC0415 - help pages need none of it

    failure = result.outcome.failure
    if failure is not None and failure.last_lines:
        say(f"\nthe last lines of {failure.replica}:")
        for line in failure.last_lines:
            say(f"  | {printable(line)}")
    if result.receipt is not None:
        _say_receipt(result.receipt, verbosity)
    _say_kept(result, verbosity)
    for error in (result.error, result.teardown_error):
        if error is not None:
            say(f"error: {error}", err=True)


def _say_receipt(receipt: Mapping[str, Any], verbosity: Verbosity) -> None:
    from encamp.run.results.receipt import outcome_lines, receipt_text, short_receipt  # noqa: PLC0415

    match verbosity:
        case Verbosity.QUIET:
            say("\n".join(outcome_lines(receipt)))
        case Verbosity.SHORT:
            say(f"\n{short_receipt(receipt)}")
        case Verbosity.VERBOSE:
            say(f"\n{receipt_text(receipt)}")


def _say_kept(result: RunResult, verbosity: Verbosity) -> None:
    """Where the results are; of a job without a job dir, that there are none."""
    results = (result.receipt or {}).get("results") or {}
    if result.receipt is None or results.get("jobDir"):
        say(f"results      {result.results}")
        if result.receipt is not None and verbosity is not Verbosity.QUIET:
            where = stack_words(result.receipt.get("environment") or DEFAULT_ENVIRONMENT)
            say(f"copy them    encamp results {result.receipt['jobId']}{where}")
        return
    say(f"kept         {result.results} (logs and receipt)")
    if verbosity is Verbosity.QUIET:
        return
    say("\nNO OUTPUT WAS KEPT: the job had no job dir, so what it wrote on its machines is gone with them.")
    say("With --keep-output (or a jobDir, or encamp.storage) the next run has one; its trainer is given --job-dir.")
