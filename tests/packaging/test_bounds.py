"""Archives that are larger inside than they look: refused by a bound, before memory or disk are used up."""

from __future__ import annotations

import gzip
import io
import resource
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from encamp.errors import PlanError
from encamp.packaging import archives
from encamp.packaging.archives import check_archive

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def refusal(path: Path) -> str:
    with pytest.raises(PlanError) as caught:
        check_archive(path, "encamp.packages[0]")
    assert caught.value.where == "encamp.packages[0]"
    return str(caught.value)


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_a_gzip_bomb_is_read_to_the_bound_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "bomb-1.tar.gz"
    with gzip.open(path, "wb") as stream:
        for _ in range(400):
            stream.write(bytes(MIB))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "more than 200 times as large as itself" in refusal(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_a_wheel_that_says_it_is_huge_is_refused_without_inflating_it(tmp_path: Path) -> None:
    path = tmp_path / "bomb-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("data", "w") as stream:
        for _ in range(100):
            stream.write(bytes(MIB))
    assert "more than 200 times as large as itself" in refusal(path)


def test_many_members_are_counted_to_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 10)
    links = [tarfile.TarInfo(f"link-{index}") for index in range(11)]
    for link in links:
        link.type, link.linkname = tarfile.SYMTYPE, "setup.py"
    assert "files" in refusal(tar_of(tmp_path / "many-1.tar.gz", *((link, b"") for link in links)))
    path = tmp_path / "many-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(11):
            archive.writestr(f"{index}.py", "")
    assert "files" in refusal(path)


def test_a_long_name_is_refused(tmp_path: Path) -> None:
    assert "2000 characters" in refusal(tar_of(tmp_path / "long-1.tar.gz", (tarfile.TarInfo("x" * 2000), b"")))


def test_an_extended_header_is_not_read_into_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("setup.py")
    info.pax_headers = {"comment": "x" * MIB}
    assert "extended header" in refusal(tar_of(tmp_path / "header-1.tar.gz", (info, b"")))


def test_an_ordinary_archive_is_taken(tmp_path: Path) -> None:
    large = bytes(range(256)) * 4096
    check_archive(
        tar_of(
            tmp_path / "trainer-1.tar.gz", (tarfile.TarInfo("trainer-1/setup.py"), b""), (tarfile.TarInfo("d"), large)
        ),
        "encamp.packages[0]",
    )
