from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.errors import SpecError
from encamp.spec.loading import parse_document
from encamp.spec.overrides import Added, Overrides, examine_overridden, override, read_overridden

if TYPE_CHECKING:
    from encamp.spec.loading import DataPath

REGION, TIER = ("trainingInput", "region"), ("trainingInput", "scaleTier")
IMAGE = ("trainingInput", "masterConfig", "imageUri")
FLAGS: dict[DataPath, str] = {
    REGION: "--region",
    TIER: "--scale-tier",
    IMAGE: "--master-image-uri",
    ("labels",): "--labels",
}

BARE = b"region: us-east1\nmaster_config: {image_uri: gcr.io/p/i, container_args: [a]}\n"
NESTED = b"trainingInput:\n  region: us-east1\n  masterConfig:\n    imageUri: gcr.io/p/i\n    containerArgs: [a]\n"
WHOLE = b"jobId: j\nlabels: {a: b}\ntraining_input:\n  region: us-east1\n  masterConfig: {imageUri: gcr.io/p/i}\n"


@pytest.mark.parametrize("text", [BARE, NESTED, WHOLE])
def test_a_flag_wins_over_its_field_and_leaves_the_others(text: bytes) -> None:
    document = parse_document(text, source="job.yaml")
    given = Overrides({REGION: "us-west1", IMAGE: "gcr.io/p/other", ("labels",): {"c": "d"}}, FLAGS)
    job = read_overridden(document, given, folder=None).job
    config = job.training_input.master_config
    assert config is not None
    assert (job.training_input.region, config.image_uri, job.labels) == ("us-west1", "gcr.io/p/other", {"c": "d"})
    assert (config.container_args == ["a"]) == (text is not WHOLE)


def test_the_document_itself_stays_as_it_is() -> None:
    document = parse_document(NESTED, source="job.yaml")
    override(document, Overrides({IMAGE: "x"}, FLAGS))
    assert document.data["trainingInput"]["masterConfig"]["imageUri"] == "gcr.io/p/i"


@pytest.mark.parametrize("text", [BARE, NESTED, WHOLE])
def test_a_problem_about_a_flag_names_the_flag_and_no_line(text: bytes) -> None:
    document = parse_document(text, source="job.yaml")
    _, problems, _ = examine_overridden(document, Overrides({REGION: "nowhere"}, FLAGS))
    assert [(problem.path, problem.line, problem.rule) for problem in problems] == [("--region", None, "V22")]


def test_a_problem_of_the_file_keeps_its_line() -> None:
    document = parse_document(NESTED.replace(b"us-east1", b"nowhere"), source="job.yaml")
    _, problems, _ = examine_overridden(document, Overrides({IMAGE: "gcr.io/p/other"}, FLAGS))
    assert [(problem.path, problem.line) for problem in problems] == [("trainingInput.region", 2)]


def test_without_a_file_what_is_missing_names_the_flag_too() -> None:
    with pytest.raises(SpecError) as caught:
        read_overridden(None, Overrides({IMAGE: "gcr.io/p/i"}, FLAGS), folder=None)
    assert caught.value.source == "the command line"
    assert [problem.path for problem in caught.value.problems] == ["--region"]


def test_none_removes_a_field() -> None:
    document = parse_document(WHOLE, source="job.yaml")
    job = read_overridden(document, Overrides({("labels",): None}, FLAGS), folder=None).job
    assert job.labels is None


def test_a_field_of_the_wrong_kind_gives_way() -> None:
    document = parse_document(b"trainingInput: {region: us-east1, masterConfig: oops}\n", source="job.yaml")
    job, problems, _ = examine_overridden(document, Overrides({IMAGE: "gcr.io/p/i"}, FLAGS))
    assert problems == []
    assert job.training_input.master_config is not None


def test_what_is_added_stands_beside_the_files_own_and_in_place_of_the_same() -> None:
    requirements = ("encamp", "requirements")
    document = parse_document(b"encamp: {requirements: [pandas, Numpy==1]}\n", source="job.yaml")
    added = Added(["numpy>=2", "-r x"], lambda one, item: one.lower()[:5] == item[:5])
    whole, places = override(document, Overrides({requirements: added}, {requirements: "--requirement"}))
    assert whole.data == {"encamp": {"requirements": ["pandas", "numpy>=2", "-r x"]}}
    assert places == {f"encamp.requirements[{index}]": "--requirement" for index in (1, 2)}
    alone, _ = override(None, Overrides({requirements: added}, {requirements: "--requirement"}))
    assert alone.data == {"encamp": {"requirements": ["numpy>=2", "-r x"]}}
