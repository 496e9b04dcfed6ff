"""Writes the tables of what Python packages bring: ``python tools/image_packages.py``; needs uv and the package index.

``spec/data/image_packages.json``: the distributions of TensorFlow's stock images by runtime version, as pip chose them
when the image was built. ``spec/data/requirements.json``: what the distributions that trainers often require bring with
them. Nothing is installed: uv resolves for another Python and for the packages of an earlier day.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = REPOSITORY / "infra" / "encamp" / "spec" / "data"
#: A day soon after each release of TensorFlow, when its image was built.
_BUILT = {
    "1.4": "2017-12-31",
    "1.5": "2018-06-30",
    "1.6": "2018-03-31",
    "1.7": "2018-06-30",
    "1.8": "2018-05-31",
    "1.9": "2018-07-31",
    "1.10": "2018-09-15",
    "1.11": "2018-10-15",
    "1.12": "2019-07-15",
    "1.13": "2019-08-15",
    "1.14": "2019-07-15",
    "1.15": "2021-01-31",
    "2.1": "2021-07-15",
    "2.2": "2021-07-15",
    "2.3": "2021-08-31",
    "2.4": "2021-08-31",
    "2.5": "2021-08-31",
    "2.6": "2021-11-30",
    "2.7": "2022-02-28",
    "2.8": "2022-02-28",
    "2.9": "2022-05-31",
    "2.10": "2022-09-30",
    "2.11": "2022-11-30",
}
#: Images up to 1.12 were made for notebooks by ``tensorflow/tools/docker/Dockerfile``; its sklearn is scikit-learn.
_NOTEBOOKS = ("Pillow", "h5py", "ipykernel", "jupyter", "matplotlib", "numpy", "pandas", "scipy", "scikit-learn")
_LAST_WITH_NOTEBOOKS = (1, 12)
#: What Ubuntu's python3-pip brings beside it.
_SYSTEM = (
    *("asn1crypto", "cffi", "cryptography", "dbus-python", "gi", "idna", "keyring", "keyrings-alt", "pip", "pycrypto"),
    *("pygobject", "pyxdg", "secretstorage", "setuptools", "six", "wheel"),
)
#: Docker's own images of Python have no others.
_PYTHON_IMAGE = {
    "source": "Dockerfiles of Docker's own images of Python (github.com/docker-library/python, "
    "3.11/slim-bookworm/Dockerfile); what those of other Pythons hold unverified",
    "packages": ["pip"],
    "upTo": {"python": "3.11", "packages": ["setuptools", "wheel"]},
}
#: uv resolves for no older Python; the packages of the older one are the same but for backports.
_OLDEST = (3, 6)
#: Source archives of those days are built with tools of today, and of absl-py only later ones can be.
_OF_TODAY = ("setuptools", "wheel", "pip", "absl-py")
#: Pythons whose newest packages differ: of the oldest images, of the newest, of one's own.
_PYTHONS = ("3.6", "3.8", "3.11")

_AT_A_TIME, _SECONDS = 6, 120


def main() -> int:
    """Resolve every image and every requirement."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    _write("image_packages", _images(today))
    _write("requirements", _requirements(today))
    return 0


def _images(today: str) -> dict[str, object]:
    known = json.loads((DATA / "runtimes.json").read_text(encoding="utf-8"))["versions"]
    # Most of them can no longer be built as of those days: these are their last versions for the oldest Python.
    notebooks = _resolve(_NOTEBOOKS, f"{_OLDEST[0]}.{_OLDEST[1]}", "--no-build")
    versions: dict[str, object] = {}
    for version, entry in known.items():
        numbers = _numbers(version)
        python = max(_OLDEST, _numbers(entry["python3"]))
        chosen = _resolve(
            [f"tensorflow=={entry['tag']}"],
            f"{python[0]}.{python[1]}",
            *("--exclude-newer", _BUILT[version]),
            *(part for name in _OF_TODAY for part in ("--exclude-newer-package", f"{name}={today}")),
        )
        if numbers <= _LAST_WITH_NOTEBOOKS:
            chosen = {**notebooks, **chosen}
        versions[version] = {"asOf": _BUILT[version], "packages": dict(sorted(chosen.items()))}
    return {
        "source": "the requirements of each image's TensorFlow on the Python Package Index, resolved by uv as of a day "
        "soon after its release; up to 1.12 also what the image's Dockerfile names "
        "(github.com/tensorflow/tensorflow, tensorflow/tools/docker/Dockerfile), in its last version for Python 3.6; "
        "the images themselves unverified",
        "date": today,
        "system": list(_SYSTEM),
        "pythonImage": _PYTHON_IMAGE,
        "versions": versions,
    }


def _requirements(today: str) -> dict[str, object]:
    table = json.loads((DATA / "distributions.json").read_text(encoding="utf-8"))
    brings: dict[str, set[str]] = {}
    cases = [(name, python) for name in {*table["same"], *table["other"].values()} for python in _PYTHONS]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for (name, _), found in zip(cases, pool.map(lambda case: _brought(*case), cases), strict=True):
            if found is not None:
                brings.setdefault(_normal(name), set()).update(found - {_normal(name)})
    return {
        "source": f"the Python Package Index, resolved by uv for Python {', '.join(_PYTHONS)}, wheels only",
        "date": today,
        "brings": {name: sorted(found) for name, found in sorted(brings.items())},
    }


def _brought(name: str, python: str) -> set[str] | None:
    """What a distribution brings, itself among it; None where it has no wheels for this Python."""
    try:
        return set(_resolve([name], python, "--no-build"))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        sys.stderr.write(f"{name}: nothing for Python {python}\n")
        return None


def _resolve(requirements: Sequence[str], python: str, *more: str) -> dict[str, str]:
    """Distributions with the versions that uv chooses."""
    command = [
        os.environ.get("UV", "uv"),
        "pip",
        "compile",
        "-",
        "--no-header",
        "--no-annotate",
        "--no-python-downloads",
    ]
    asked = ["--python-version", python, "--python-platform", "x86_64-manylinux2014", *more]
    ran = subprocess.run(
        [*command, *asked],
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    pins = (line.partition(" ")[0].split("==") for line in ran.stdout.splitlines() if "==" in line)
    return {_normal(name): version for name, version in pins}


def _write(name: str, data: dict[str, object]) -> None:
    path = DATA / f"{name}.json"
    text = json.dumps(data, indent=2) + "\n"
    # A list in one line: the table stays readable as a table.
    path.write_text(re.sub(r"\[\n\s+([^\]]*?)\n\s+\]", _joined, text), encoding="utf-8")
    sys.stderr.write(f"{path.relative_to(REPOSITORY)}: {path.stat().st_size} bytes\n")


def _joined(found: re.Match[str]) -> str:
    return f"[{' '.join(found[1].split())}]"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    raise SystemExit(main())
