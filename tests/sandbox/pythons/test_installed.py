"""Which installed distributions stand for others, what they need, and which requirements they fulfil."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp_sandbox.pythons.installed import closure, fulfilled, installed, matching

if TYPE_CHECKING:
    from tests.sandbox.pythons.site import Site


@pytest.fixture(autouse=True)
def distributions(site: Site) -> None:
    site.install("tensorflow_cpu", "tensorflow/__init__.py", requires=("numpy>=1", "rich; extra == 'pretty'"))
    site.install("numpy", "numpy/__init__.py", version="2.1")
    site.install(
        "Scikit-Learn", "sklearn/__init__.py", requires=("numpy", "six; python_version < '3'", "no form (of today")
    )
    site.install("broken", "broken.py", requires=("absent",))
    site.install("rich", "rich.py")


def test_another_build_stands_for_a_distribution(site: Site) -> None:
    have = installed((site.folder,))
    assert matching(["tensorflow", "Numpy", "absent"], have) == {
        "tensorflow": "tensorflow-cpu",
        "numpy": "numpy",
        "absent": None,
    }


def test_all_that_is_needed_comes_along(site: Site) -> None:
    have = installed((site.folder,))
    assert closure(["scikit-learn", "tensorflow-cpu"], have) == {"scikit-learn", "tensorflow-cpu", "numpy"}
    assert closure(["broken"], have) is None


@pytest.mark.parametrize(
    ("requirement", "names"),
    [
        ("scikit_learn", {"scikit-learn", "numpy"}),
        ("numpy==2.*", {"numpy"}),
        ("numpy<2", set[str]()),
        ("numpy; python_version < '3'", set[str]()),
        ("tensorflow-cpu[pretty]", {"tensorflow-cpu", "numpy", "rich"}),
        # pip brings it, whatever is installed under another name.
        ("tensorflow", set[str]()),
        ("broken", set[str]()),
        ("numpy @ file:///numpy.whl", set[str]()),
        ("no requirement at all", set[str]()),
    ],
)
def test_a_requirement_is_fulfilled_by_what_is_installed(site: Site, requirement: str, names: set[str]) -> None:
    assert fulfilled([requirement], installed((site.folder,))) == names


def test_what_is_installed_later_is_seen(site: Site) -> None:
    before = installed((site.folder,))
    site.install("later", "later.py")
    assert installed((site.folder,)).keys() - before.keys() == {"later"}
