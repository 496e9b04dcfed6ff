from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.image_facts import stock_runtime
from encamp.plan.job import plan_job
from encamp.plan.model import LocalPackage
from encamp.plan.trainer_imports import ImportedModule, TrainerImports
from encamp.spec.data_files import data_file
from encamp.spec.distributions import normal_name
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec


def warned(
    environment: EnvironmentSpec,
    *modules: str,
    encamp: dict[str, Any] | None = None,
    trainer: dict[str, Any] | None = None,
    **fields: Any,
) -> list[str]:
    """Warnings about imports of a job with such a trainer."""
    given = {"region": "us-central1", "runtimeVersion": "2.11", "pythonVersion": "3.7", "pythonModule": "trainer.task"}
    job = parse_job(
        {"jobId": "job", "trainingInput": given | fields, "encamp": {"packagePath": "trainer", **(encamp or {})}},
        source="test",
    ).job
    found = tuple(ImportedModule(name, f"trainer/task.py:{line}") for line, name in enumerate(modules, start=1))
    imports = TrainerImports(found, **(trainer or {}))
    package = LocalPackage("trainer-0.0.0-py3-none-any.whl", "0" * 64, Path("t.whl"), imports)
    others = [LocalPackage(name, "1" * 64, Path(name)) for name in (encamp or {}).get("packages", ())]
    plan = plan_job(job, environment, packages=[*others, package])
    return [warning for warning in plan.warnings if " imports " in warning]


def test_a_missing_module_is_told_with_its_place_and_what_adds_it(environment: EnvironmentSpec) -> None:
    (found,) = warned(environment, "os", "sklearn.datasets.load_digits", "sklearn.svm")
    assert found == (
        "trainer/task.py:2 imports sklearn, which tensorflow/tensorflow:2.11.0 does not have, nor do the job's "
        "requirements bring it; add scikit-learn to encamp.requirements, or give --requirement scikit-learn"
    )


@pytest.mark.parametrize(
    ("version", "modules"),
    [
        ("2.11", ("tensorflow.keras", "keras", "numpy", "h5py", "six", "google.protobuf", "absl.app")),
        ("2.11", ("google.auth", "grpc", "tensorboard.plugins", "tensorflow_estimator", "pkg_resources", "distutils")),
        ("2.5", ("keras", "flatbuffers")),
        ("2.1", ("tensorflow_core", "keras_applications")),
        ("1.12", ("sklearn", "pandas", "PIL.Image", "matplotlib.pyplot", "IPython", "scipy", "zmq", "dateutil")),
        ("1.4", ("tensorboard", "sklearn")),
    ],
)
def test_what_an_image_has_is_not_missed(version: str, modules: tuple[str, ...], environment: EnvironmentSpec) -> None:
    python = data_file("ai_platform")["runtimeVersions"][version]["pythons"][-1]
    assert warned(environment, *modules, runtimeVersion=version, pythonVersion=python) == []


@pytest.mark.parametrize(
    ("version", "module", "requirement"),
    [
        ("2.4", "keras", "keras"),
        ("2.11", "scipy", "scipy"),
        ("2.11", "yaml", "pyyaml"),
        ("2.11", "google.cloud.storage.Client", "google-cloud-storage"),
        ("2.11", "hypertune.HyperTune", "cloudml-hypertune"),
        ("1.13", "sklearn", "scikit-learn"),
        ("1.12", "xgboost", "xgboost"),
    ],
)
def test_what_an_image_lacks_is_missed(
    version: str, module: str, requirement: str, environment: EnvironmentSpec
) -> None:
    python = data_file("ai_platform")["runtimeVersions"][version]["pythons"][-1]
    (found,) = warned(environment, module, runtimeVersion=version, pythonVersion=python)
    assert found.endswith(f"--requirement {requirement}")


@pytest.mark.parametrize(
    ("requirements", "modules"),
    [
        (["scikit-learn"], ["sklearn", "scipy", "joblib", "threadpoolctl"]),
        (["Scikit_Learn>=1,<2"], ["sklearn"]),
        (["sklearn"], ["sklearn"]),
        (["seaborn"], ["seaborn", "matplotlib.pyplot", "pandas", "PIL.Image", "mpl_toolkits.mplot3d", "pytz"]),
        (["opencv-python"], ["cv2"]),
        (["transformers"], ["transformers", "yaml", "tqdm", "huggingface_hub", "tokenizers"]),
        (["xgboost-cpu; python_version >= '3'"], ["xgboost", "scipy"]),
    ],
)
def test_requirements_bring_what_they_require(
    requirements: list[str], modules: list[str], environment: EnvironmentSpec
) -> None:
    assert warned(environment, *modules, encamp={"requirements": requirements}) == []


@pytest.mark.parametrize(
    "case",
    [
        {"encamp": {"requirements": ["our-own-tools"]}},
        {"encamp": {"requirements": ["pandas[gcp]"]}},
        {"encamp": {"requirements": ["pandas @ https://example.com/pandas-1-py3-none-any.whl"]}},
        {"encamp": {"packages": ["helpers-1-py3-none-any.whl"]}},
        {"packageUris": ["gs://ours/helpers-1.tar.gz"]},
        {"trainer": {"requires": None}},
        {"trainer": {"requires": ("our-own-tools",)}},
        {"trainer": {"requires": ("scikit-learn", "lightgbm")}},
        {"trainer": {"own": frozenset({"sklearn", "lightgbm"})}},
    ],
)
def test_nothing_is_said_where_a_module_may_come_from_elsewhere(
    case: dict[str, Any], environment: EnvironmentSpec
) -> None:
    assert warned(environment, "sklearn", "lightgbm", **case) == []


def test_nothing_is_said_of_images_that_no_table_knows(environment: EnvironmentSpec) -> None:
    own = environment.model_copy(update={"runtime_images": {"2.11": "us-docker.pkg.dev/ours/runtime:2.11"}})
    assert warned(own, "sklearn") == []
    custom = {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "runtimeVersion": None, "pythonVersion": None}
    assert warned(environment, "sklearn", **custom, masterConfig={"imageUri": "python:3.12"}) == []
    stock = {"imageUri": "docker.io/tensorflow/tensorflow:2.9.1-gpu"}
    assert len(warned(environment, "sklearn", **custom, masterConfig=stock)) == 1


def test_of_a_module_that_no_table_knows_no_distribution_is_named(environment: EnvironmentSpec) -> None:
    (found,) = warned(environment, "netwrok")
    assert found.endswith("pack it with the trainer, or name the distribution that has it by --requirement")
    assert warned(environment, "netwrok", trainer={"extends_path": True}) == []
    assert warned(environment, "google.ours", "ruamel.yaml", "azure.storage") == []


@pytest.mark.parametrize(
    ("version", "module", "missing"),
    [
        ("2.11", "dataclasses", False),
        ("2.11", "tomllib", True),
        ("2.11", "zoneinfo.ZoneInfo", True),
        ("2.11", "importlib.metadata", False),
        ("2.6", "importlib.metadata", True),
        ("2.6", "importlib.util", False),
        ("2.11", "imp", False),
        ("2.11", "cgi", False),
    ],
)
def test_the_standard_library_is_that_of_the_images_python(
    version: str, module: str, missing: bool, environment: EnvironmentSpec
) -> None:
    found = warned(environment, module, runtimeVersion=version)
    assert bool(found) is missing
    assert all("which came with Python 3" in line for line in found)


def test_there_are_at_most_twenty_lines(environment: EnvironmentSpec) -> None:
    assert len(warned(environment, *(f"unheard{number}" for number in range(50)))) == 20


def test_tables_know_every_runtime_version_and_every_distribution_as_the_index_compares_names() -> None:
    images, runtimes = data_file("image_packages")["versions"], data_file("runtimes")["versions"]
    assert images.keys() == runtimes.keys()
    for version, entry in images.items():
        packages = entry["packages"]
        assert packages["tensorflow"] == runtimes[version]["tag"]
        assert all(normal_name(name) == name for name in packages)
        assert {"numpy", "protobuf", "six"} <= packages.keys()
    brings = data_file("requirements")["brings"]
    assert all(normal_name(name) == name for name in (*brings, *(part for found in brings.values() for part in found)))


def test_stock_images_are_known_by_their_whole_name() -> None:
    assert stock_runtime("tensorflow/tensorflow:2.11.0-gpu") == ("2.11", "3.8")
    assert stock_runtime("tensorflow/tensorflow:1.15.5-gpu-py3") == ("1.15", "3.6")
    for other in ("tensorflow/tensorflow:2.11.0-jupyter", "tensorflow/tensorflow", "ours/tensorflow:2.11.0"):
        assert stock_runtime(other) is None
