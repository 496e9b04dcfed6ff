"""``encamp schema``, ``explain`` and ``new`` as a user calls them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from encamp.cli import new
from encamp.cli.main import SECTIONS, VERBS, cli, main
from encamp.errors import ExitCode, UsageError
from encamp.spec.new_job import FRAMEWORKS, trainer_files
from encamp.spec.training import ScaleTier

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent.parent


def ran(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), catch_exceptions=False)


def test_schema_prints_what_is_committed() -> None:
    assert ran("schema").output == (ROOT / "docs" / "job.schema.json").read_text(encoding="utf-8")


def test_explain_shows_a_field_with_its_rules() -> None:
    output = ran("explain", "scheduling.maxWaitTime").output
    for said in ("trainingInput.scheduling.maxWaitTime", "Longest wait", "1800s", "V13", "source"):
        assert said in output


def test_explain_shows_values_and_what_lies_below() -> None:
    assert "values   BASIC, STANDARD_1, PREMIUM_1" in ran("explain", "scaleTier").output
    assert "fields below it\n  usd " in ran("explain", "encamp.budget").output
    assert "default  false" in ran("explain", "imageStreaming").output


def test_explain_shows_a_rule() -> None:
    output = ran("explain", "E06").output
    assert output.startswith("E06  Workers with a TPU are the hosts of one slice")
    assert "encamp.machines.*.tpu" in output


def test_explain_shows_what_google_would_refuse() -> None:
    output = ran("explain", "g03").output
    assert output.startswith("G03  COMPACT placement and reservations are in exactly one zone.\n")
    assert "source   GoogleCloudPlatform/cluster-toolkit" in output


def test_explain_alone_is_the_tree_of_fields() -> None:
    lines = ran("explain").output.splitlines()
    assert any(line.startswith("trainingInput ") for line in lines)
    assert any(line.startswith("  workerCount ") for line in lines)
    assert any(line.startswith("  workerConfig ") and "as trainingInput.masterConfig" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_explain_needs_no_engine_and_no_cloud() -> None:
    code = (
        "import sys; sys.argv = ['encamp', 'explain', 'workerCount']\n"
        "from encamp.cli.main import main\nmain()\n"
        "heavy = {'pulumi', 'requests', 'tensorflow', 'grpc', 'jinja2'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT / "infra")


def test_options_of_jobs_need_no_reader_of_files() -> None:
    """Every command has the option of its environment, so what that imports is paid for at each start."""
    code = (
        "import sys\nimport encamp.cli.list, encamp.cli.run, encamp.cli.stack\n"
        "heavy = {'yaml', 'pydantic', 'encamp.project', 'encamp.jobs.visiting'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT / "infra")


def test_unknown_names_end_with_the_exit_code_of_bad_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["encamp", "explain", "workrCount"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.BAD_INPUT
    assert "did you mean workerCount?" in capsys.readouterr().err


def test_new_writes_a_file_and_the_schema_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    output = ran("new", "--accelerator", "nvidia-l4", "--workers", "2", "--output", str(path)).output
    assert f"encamp plan {path}" in output
    assert path.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=job.schema.json\n")
    assert json.loads((tmp_path / "job.schema.json").read_text(encoding="utf-8"))["title"] == "encamp job file"
    (tmp_path / "trainer").mkdir()
    for name in ("__init__.py", "task.py"):
        (tmp_path / "trainer" / name).touch()
    assert ran("validate", str(path)).exit_code == 0


def test_new_leaves_a_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        ran("new", "--output", str(path))
    assert path.read_text(encoding="utf-8") == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_new_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make its folder first"):
        ran("new", "--output", str(tmp_path / "a" / "job.yaml"))


@pytest.mark.jobs
@pytest.mark.parametrize("framework", [each for each in FRAMEWORKS if each != "pytorch"])
@pytest.mark.slow
def test_the_first_trainer_trains(framework: str, tmp_path: Path) -> None:
    ran("new", "--framework", framework, "--trainer", "--output", str(tmp_path / "job.yaml"))
    words = [sys.executable, "-m", "trainer.task", "--epochs=8", "--job-dir", "out"]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = re.search(r"^accuracy: ([0-9.]+)$", found.stdout, re.MULTILINE)
    assert said is not None
    assert float(said[1]) > 0.85
    assert [path.stat().st_size > 0 for path in (tmp_path / "out").glob("model.*")] == [True]


def test_every_framework_has_a_trainer_that_python_reads() -> None:
    for framework in FRAMEWORKS:
        files = trainer_files(framework)
        assert files.keys() == {"__init__.py", "task.py", "model.py"}
        assert {"NAME", "train"} <= set(compile(files["model.py"], framework, "exec").co_names)


def test_new_leaves_a_trainer_alone(tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        ran("new", "--trainer", "--output", str(tmp_path / "job.yaml"))
    with pytest.raises(UsageError, match="- writes none"):
        ran("new", "--trainer", "--output", "-")
    assert [path.name for path in tmp_path.iterdir()] == ["trainer"]


def test_new_on_stdout_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = ran("new", "--tier", "standard_1", "--framework", "pytorch", "--output", "-").output
    assert "scaleTier: STANDARD_1" in output
    assert list(tmp_path.iterdir()) == []


def test_new_in_the_checkout_names_the_committed_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    monkeypatch.setattr(new, "repository", lambda: tmp_path)
    ran("new", "--output", str(tmp_path / "jobs" / "job.yaml"))
    first = (tmp_path / "jobs" / "job.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../docs/job.schema.json"
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["job.yaml"]


@pytest.mark.parametrize(("name", "hint"), [("l4", "NVIDIA_L4"), ("v5", "v5e"), ("NVIDIA_H100", "NVIDIA_H100_80GB")])
def test_new_names_the_nearest_accelerator(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"write {hint}"):
        ran("new", "--accelerator", name, "--output", "-")


@pytest.mark.parametrize(
    ("listed", "known"), [(new.TIERS, [tier.value for tier in ScaleTier]), (new.FRAMEWORKS, FRAMEWORKS)], ids=str
)
def test_help_pages_list_what_the_models_know(listed: Sequence[str], known: Sequence[str]) -> None:
    assert sorted(listed) == sorted(known)


def test_an_unknown_verb_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["encamp", "runn", "job.yaml"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == ExitCode.BAD_INPUT
    assert "No such command 'runn'. Did you mean 'run'?" in capsys.readouterr().err


def test_the_help_page_groups_verbs_and_imports_none_of_them() -> None:
    code = (
        "import sys; sys.argv = ['encamp', '--help']\n"
        "from encamp.cli.main import SECTIONS, main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('encamp.')}\n"
        "assert rooms <= {'cli', 'errors', 'redaction', 'text', 'version'}, rooms\n"
        "verbs = {name.split('.')[2] for name in sys.modules if name.startswith('encamp.cli.')}\n"
        "assert verbs == {'main', 'out'}, verbs"
    )
    page = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT / "infra")
    headings = re.findall(r"^(\S.*):$", page.stdout, re.MULTILINE)
    assert headings == ["Options", *SECTIONS]
    assert re.findall(r"^  ([a-z]+) ", page.stdout, re.MULTILINE) == list(VERBS)
