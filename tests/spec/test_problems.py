"""Invalid job files by the tables in ``problems/``: each file, and every line that ``encamp validate`` finds wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.job_cases import invalid_files

from encamp.errors import SpecError
from encamp.spec.job_file import examine_job
from encamp.spec.loading import parse_document

if TYPE_CHECKING:
    from encamp.errors import Problem

FILES = invalid_files()


def problems(text: str) -> list[Problem]:
    try:
        document = parse_document(text.encode(), source="job.yaml")
    except SpecError as error:
        return list(error.problems)
    return list(examine_job(document)[1])


def line(problem: Problem) -> str:
    rule = f"[{problem.rule}] " if problem.rule else ""
    hint = f" (try: {problem.hint})" if problem.hint else ""
    return f"{problem.line} {problem.path}: {rule}{problem.message}{hint}"


@pytest.mark.parametrize("name", FILES)
def test_every_problem_of_a_file_is_found_at_its_line(name: str) -> None:
    assert tuple(line(problem) for problem in problems(FILES[name].text)) == FILES[name].problems
