"""Findings as text: shared by the verbs that look at a machine or a stack."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from encamp.cli.out import say, say_json
from encamp.errors import ExitCode
from encamp.findings import Grade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.findings import Finding


def show_findings(findings: Sequence[Finding], form: str) -> None:
    """Show findings as text or, for ``json``, as JSON; end with exit code 3 where one is bad."""
    if form == "json":
        say_json([finding.to_json() for finding in findings])
    else:
        for finding in findings:
            say(f"{finding.grade.upper():5} {finding.subject}: {finding.text}")
            if finding.advice:
                say(f"      try: {finding.advice}")
    if any(finding.grade is Grade.BAD for finding in findings):
        sys.exit(ExitCode.INFRASTRUCTURE_FAILED)
