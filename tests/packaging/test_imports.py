from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.packaging.declared import declared_requirements
from encamp.packaging.imports import Reading, folder_imports, read_imports

if TYPE_CHECKING:
    from pathlib import Path


_PLAIN = "import setuptools\nsetuptools.setup()"
_BUILT = "[build-system]\nrequires = ['setuptools']"


def read(task: str, files: dict[str, str] | None = None) -> Reading:
    """What ``trainer.task`` imports of others, with further files of the package."""
    contents = {"__init__.py": "", "task.py": task, **(files or {})}
    return read_imports("trainer", {name: text.encode() for name, text in contents.items()}, "trainer.task")


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("import sklearn", ["sklearn"]),
        ("import a.b as c, d", ["a.b", "d"]),
        ("from google.cloud import storage, bigquery as q", ["google.cloud.storage", "google.cloud.bigquery"]),
        ("from sklearn import *", ["sklearn"]),
        ("try:\n    import a\nfinally:\n    import b", ["a", "b"]),
        ("try:\n    import a\nexcept ValueError:\n    pass", ["a"]),
        ("try:\n    import a\nexcept ImportError:\n    import b", []),
        ("try:\n    import a\nexcept (KeyError, ModuleNotFoundError):\n    pass", []),
        ("try:\n    import a\nexcept Exception:\n    pass", []),
        ("try:\n    import a\nexcept:\n    pass", []),
        ("try:\n    import a\nexcept errors.Missing:\n    pass", []),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a", ["typing.TYPE_CHECKING"]),
        ("import sys\nif sys.version_info < (3,):\n    import cPickle\nelse:\n    import pickle", ["sys"]),
        ("from contextlib import suppress\nwith suppress(ImportError):\n    import a", ["contextlib.suppress"]),
        ("def train():\n    import a\nclass A:\n    def b(self):\n        import c", []),
        ("if __name__ == '__main__':\n    import a", []),
        ("print 'Python 2'\nimport a", []),
        ("import a\x00", []),
        ("import " + "a" * 200, []),
        ("import café", []),
        ("x = " + "(" * 5000 + ")" * 5000 + "\nimport a", []),
        ("x = " + "-" * 100_000 + "1\nimport a", []),
        ("import a\n" + "#" * (1 << 20), []),
        ("# -*- coding: latin-1 -*-\nimport a", ["a"]),
        ("x = '\\d'\nimport a", ["a"]),
        ("from ... import a", []),
    ],
)
def test_counted_is_what_surely_runs(task: str, found: list[str]) -> None:
    assert list(read(task).imports) == found


def test_only_modules_that_are_reached_from_the_one_that_is_run_count() -> None:
    files = {
        "network.py": "import a",
        "data.py": "import b",
        "deep/__init__.py": "import c",
        "deep/model.py": "from .. import late\nimport d",
        "late.py": "import e",
        "util.py": "import f",
        "tests/test_task.py": "import pytest",
        "serve.py": "import flask",
    }
    task = "from trainer import network\nfrom .data import load\nimport trainer.deep.model\nfrom . import util"
    assert sorted(read(task, files).imports) == ["a", "b", "c", "d", "e", "f"]


def test_the_packages_own_modules_are_not_others_wherever_they_lie() -> None:
    found = read("import network\nimport model\nimport a", {"network.py": "", "deep/model.py": ""})
    assert list(found.imports) == ["a"]


def test_a_ring_of_imports_ends() -> None:
    assert list(read("from trainer import b", {"b.py": "from trainer import task\nimport c"}).imports) == ["c"]


def test_a_package_is_run_by_its_main() -> None:
    files = {"__init__.py": b"import a", "__main__.py": b"import b", "task.py": b"import c"}
    assert list(read_imports("trainer", files, "trainer").imports) == ["a", "b"]
    assert not read_imports("trainer", files, "other.task").imports


def test_the_first_place_of_an_import_is_told() -> None:
    found = read_imports(
        "trainer", {"__init__.py": b"", "task.py": b"import os\n\nimport a\nimport a\n"}, "trainer.task"
    )
    assert found.imports["a"].place == "trainer/task.py:3"


@pytest.mark.parametrize(
    ("task", "installs"),
    [
        ("import os\nos.system('pip install lightgbm')", True),
        ("import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'a'])", True),
        ("from pip._internal import main", True),
        ("def setup():\n    run('!pip3  install a')", True),
        ('"""Needs: pip install lightgbm."""\nimport lightgbm', False),
        ("print('pipeline install')", False),
    ],
)
def test_of_a_trainer_that_installs_packages_itself_nothing_is_known(task: str, installs: bool, tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "task.py").write_text(task)
    assert (folder_imports(tmp_path / "trainer", "trainer.task") is None) is installs


@pytest.mark.parametrize(
    ("task", "extends"),
    [
        ("import sys\nsys.path.append('/x')", True),
        ("from sys import path", True),
        ("import site", True),
        ("import sys\nsys.exit(0)", False),
        ("import os\nos.path.join('a')", False),
    ],
)
def test_changes_of_the_path_are_seen(task: str, extends: bool) -> None:
    assert read(task).extends_path is extends


def test_what_a_build_file_packs_beside_the_trainer_is_its_own(tmp_path: Path) -> None:
    for folder in ("trainer", "common", "src/helpers"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "trainer" / "task.py").write_text("import common")
    found = folder_imports(tmp_path / "trainer", "trainer.task")
    assert found is not None
    assert "common" not in found.own
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(install_requires=['pandas>=1'])")
    found = folder_imports(tmp_path / "trainer", "trainer.task")
    assert found is not None
    assert found.own >= {"common", "helpers"}
    assert found.requires == ("pandas>=1",)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"setup.py": "from setuptools import setup\nsetup(name='a')"}, ()),
        ({"setup.py": "import setuptools\nsetuptools.setup(install_requires=('a', 'b>=1'))"}, ("a", "b>=1")),
        ({"setup.py": "from setuptools import setup\nR = ['a']\nsetup(install_requires=R)"}, ("a",)),
        ({"setup.py": "from setuptools import setup\nR = ['a']\nR.append('b')\nsetup(install_requires=R)"}, None),
        ({"setup.py": "from setuptools import setup\nsetup(install_requires=open('r.txt').read().split())"}, None),
        ({"setup.py": "from setuptools import setup\nsetup(**{'install_requires': ['a']})"}, None),
        ({"setup.py": "print 'Python 2'"}, None),
        ({"setup.py": "import other"}, None),
        ({"setup.py": _PLAIN, "setup.cfg": "[options]\ninstall_requires =\n  a\n  b"}, ("a", "b")),
        ({"setup.py": _PLAIN, "setup.cfg": "[options]\ninstall_requires = file: r.txt"}, None),
        ({"pyproject.toml": "[project]\nname = 'a'\ndependencies = ['a>1']"}, ("a>1",)),
        ({"pyproject.toml": "[project]\nname = 'a'\ndynamic = ['dependencies']"}, None),
        ({"pyproject.toml": "[build-system]\nbuild-backend = 'poetry.core.masonry.api'"}, None),
        ({"pyproject.toml": _BUILT, "setup.cfg": "[options]\ninstall_requires = a"}, ("a",)),
        ({"pyproject.toml": "[project]\nname = 'a'\ndependencies = 3"}, None),
    ],
)  # fmt: skip
def test_requirements_of_a_build_file_are_read_without_running_it(
    files: dict[str, str], found: tuple[str, ...] | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert declared_requirements(tmp_path) == found
