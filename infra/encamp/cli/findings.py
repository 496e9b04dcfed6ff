"""What was found, shown: shared by the verbs that look at a machine or a stack."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from encamp.errors import ExitCode
from encamp.findings import Grade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.findings import Finding


def show_findings(findings: Sequence[Finding], form: str) -> None:
    """Show findings as text or, for ``json``, as JSON; end with exit code 3 where one is bad."""
    if form == "json":
        click.echo(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.grade.upper():5} {finding.subject}: {finding.text}")
            if finding.advice:
                click.echo(f"      try: {finding.advice}")
    if any(finding.grade is Grade.BAD for finding in findings):
        sys.exit(ExitCode.INFRASTRUCTURE_FAILED)
