"""The end of a job as people read it: outcome, receipt, what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.cli.out import say
from encamp.cli.stack import DEFAULT_ENVIRONMENT, stack_words

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
    _say_kept(result)
    for error in (result.error, result.teardown_error):
        if error is not None:
            say(f"error: {error}", err=True)


def _say_kept(result: RunResult) -> None:
    """Where the results are; of a job without a job dir, that there are none."""
    results = (result.receipt or {}).get("results") or {}
    if result.receipt is None or results.get("jobDir"):
        say(f"results      {result.results}")
        if result.receipt is not None:
            where = stack_words(result.receipt.get("environment") or DEFAULT_ENVIRONMENT)
            say(f"copy them    encamp results {result.receipt['jobId']}{where}")
        return
    say(f"kept         {result.results} (logs and receipt)")
    say("\nNO OUTPUT WAS KEPT: the job had no job dir, so what it wrote on its machines is gone with them.")
    say("With --keep-output (or a jobDir, or encamp.storage) the next run has one; its trainer is given --job-dir.")
