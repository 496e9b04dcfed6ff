from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from encamp.errors import SpecError, UsageError
from encamp.spec.job_file import examine_job, load_job, read_job
from encamp.spec.loading import MAXIMUM_BYTES, load_document, parse_document

if TYPE_CHECKING:
    from pathlib import Path


def refused(content: bytes) -> str:
    with pytest.raises(SpecError) as caught:
        parse_document(content, source="job.yaml")
    (problem,) = caught.value.problems
    return f"{problem.line}: {problem.message}"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "None: the file is empty"),
        (b" \n\t\n", "None: the file is empty"),
        (b"# only a comment\n", "1: the file is empty at its top"),
        (b"- a\n", "1: the file is a list"),
        (b"just words\n", "1: the file is a text"),
        (b"a: 1\nb\0: 2\n", "2: holds a NUL character"),
        (b"a: 1\nb: \xff\n", "2: is no UTF-8 text"),
        (b"a: [1\nb: 2\n", ": is no YAML"),
        (b"a: {b: 1, b: 2}\n", "1: the key `b` stands twice"),
        (b"a: 1\n---\nb: 2\n", "2: holds more than one document"),
        (b"a: !!python/name:os.system x\n", "1: the tag"),
        (b"a: !include other.yaml\n", "1: the tag !include"),
        (b"a: &a [*a]\n", "1: the alias *a stands for nothing"),
        (b"a: *b\n", "1: the alias *b stands for nothing"),
        (b"? [a]\n: b\n", "1: a mapping or list stands where a key"),
        (b"a: &x k\n*x : 2\n", "an alias stands where a key"),
        (b"<<: 1\n", "1: `<<` merges mappings only"),
        (b"[" * 100_000, ": is nested deeper than"),
        (b'{"a":' * 100_000, ": is nested deeper than"),
        (b"a: \x01\n", ": is no YAML"),
        (b'{"a": "\\ud83d\\ude00", "a": 1}', "the key `a` stands twice"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is no UTF-8 text"),
    ],
)
def test_texts_that_are_no_job_file_are_refused_in_words(content: bytes, part: str) -> None:
    assert part in refused(content)


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    with pytest.raises(SpecError, match=r"52428800 bytes"):
        load_document(path)


def test_the_largest_file_ends_in_words_within_seconds() -> None:
    bomb = b"a: &a [" + b"x, " * 50_000 + b"]\nb: [*a, *a, *a]\n"
    assert "aliases are written out" in refused(bomb)
    long_key = b"k" * (MAXIMUM_BYTES - 10) + b": 1\n"
    assert "is no YAML" in refused(long_key)


def test_nested_aliases_explode_nowhere() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    assert "aliases are written out" in refused("\n".join(lines).encode())


def test_missing_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_document(tmp_path / "job.yaml")
    with pytest.raises(UsageError, match="is a folder"):
        load_document(tmp_path)


def test_lines_of_every_path_are_kept() -> None:
    document = parse_document(b"a:\n  b:\n    - 1\n    - c: 2\n\nd: *x\n".replace(b"*x", b"e"), source="x")
    assert document.line(("a", "b", 1, "c")) == 4
    assert document.line(("a", "b", 0)) == 3
    assert document.line(("d",)) == 6
    assert document.line(("a", "missing", "field")) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("off", False),
        ("~", None),
        ("1.10", 1.1),
        ("0x1F", 31),
        ("010", 8),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("n", "n"),
        ("1.2.3", "1.2.3"),
        ("'1.10'", "1.10"),
        ("9" * 100, "9" * 100),
        ("=", "="),
    ],
)
def test_plain_scalars(text: str, value: object) -> None:
    assert parse_document(f"a: {text}\n".encode(), source="x").data == {"a": value}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5))
@example({"<<": None})
@example({"a": {"<<": {"b": 1}, "b": 2}})
def test_json_reads_back_as_it_was(data: dict[str, object]) -> None:
    if "\0" in json.dumps(data, ensure_ascii=False):
        return
    assert parse_document(json.dumps(data).encode(), source="x").data == data


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_end_in_data_or_in_words(content: bytes) -> None:
    try:
        document = parse_document(content, source="x")
    except SpecError as error:
        problems = list(error.problems)
    else:
        problems = examine_job(document)[1]
    assert problems


@given(JSON)
def test_any_data_in_place_of_a_training_input_ends_in_words(data: object) -> None:
    text = json.dumps({"trainingInput": data, "encamp": data, "labels": data, "jobId": data})
    with pytest.raises(SpecError) as caught:
        read_job(parse_document(text.encode(), source="x"))
    assert all(problem.message for problem in caught.value.problems)


def test_all_three_forms_of_a_file_are_one_job(tmp_path: Path) -> None:
    fields = 'region: us-central1\nmasterConfig: {imageUri: "gcr.io/p/i"}\n'
    indented = "".join(f"  {line}\n" for line in fields.splitlines())
    forms = [fields, f"trainingInput:\n{indented}", f"jobId: ''\ntrainingInput:\n{indented}".replace("jobId: ''\n", "")]
    jobs = []
    for index, text in enumerate([*forms, f"{fields}encamp: {{imageStreaming: false}}\n"]):
        path = tmp_path / f"{index}.yaml"
        path.write_text(text, encoding="utf-8")
        jobs.append(load_job(path).job)
    assert jobs[0] == jobs[1] == jobs[2] == jobs[3]


def test_paths_are_spelled_as_the_file_spells_them() -> None:
    text = b"training_input:\n  scale_tier: CUSTOM\n  worker_count: 1\n  region: x\n"
    _, problems, _ = examine_job(parse_document(text, source="x"))
    paths = {problem.path for problem in problems}
    assert "training_input.region" in paths
    assert "training_input.workerType" in paths
