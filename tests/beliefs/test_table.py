"""The table of beliefs is complete, used, and shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.acceptance.probe import probes
from encamp.beliefs import table
from encamp.beliefs.page import page
from encamp.beliefs.references import mentioned, referred
from encamp.beliefs.table import belief, beliefs

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "beliefs.md"
SANDBOX = REPOSITORY / "infra" / "encamp_sandbox"
ACCEPTANCE, LIES = REPOSITORY / "infra" / "encamp" / "acceptance" / "probes", SANDBOX / "lies"
ROOMS = ("kubelet", "storage")
#: Modules of these rooms without a rule about Google, and what is in them instead.
KUBERNETES, MACHINE, HTTP = "rules of Kubernetes itself", "processes and files of this machine", "servers and clients"
PLUMBING = {
    "kubelet/__main__.py": MACHINE,
    "kubelet/addresses.py": MACHINE,
    "kubelet/api.py": HTTP,
    "kubelet/direct.py": MACHINE,
    "kubelet/egress.py": HTTP,
    "kubelet/environment.py": KUBERNETES,
    "kubelet/events.py": KUBERNETES,
    "kubelet/expansion.py": KUBERNETES,
    "kubelet/front.py": HTTP,
    "kubelet/fuse.py": MACHINE,
    "kubelet/host_view.py": MACHINE,
    "kubelet/images.py": MACHINE,
    "kubelet/isolation.py": MACHINE,
    "kubelet/kubelet.py": MACHINE,
    "kubelet/labels.py": KUBERNETES,
    "kubelet/launcher/__main__.py": MACHINE,
    "kubelet/launcher/kernel.py": MACHINE,
    "kubelet/launcher/network.py": MACHINE,
    "kubelet/launcher/nftables.py": MACHINE,
    "kubelet/log_server.py": HTTP,
    "kubelet/logs.py": KUBERNETES,
    "kubelet/network_policy/rules.py": KUBERNETES,
    "kubelet/on_demand.py": MACHINE,
    "kubelet/own_image.py": MACHINE,
    "kubelet/plain.py": MACHINE,
    "kubelet/pod_network.py": MACHINE,
    "kubelet/readiness.py": KUBERNETES,
    "kubelet/relay.py": HTTP,
    "kubelet/requirements.py": MACHINE,
    "kubelet/runtime.py": MACHINE,
    "kubelet/server.py": HTTP,
    "kubelet/services.py": MACHINE,
    "kubelet/status.py": KUBERNETES,
    "kubelet/times.py": KUBERNETES,
    "kubelet/volumes.py": KUBERNETES,
    "storage/__main__.py": MACHINE,
    "storage/database.py": MACHINE,
}
ENTRY = {"id": "a-b", "says": "s", "source": "s", "date": "2026-01-01", "sure": "believed"}


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes a table of its own."""

    def write(*given: dict[str, Any]) -> None:
        (tmp_path / "area.json").write_text(json.dumps(given))
        table.beliefs.cache_clear()

    monkeypatch.setattr(table, "FOLDER", tmp_path)
    yield write
    table.beliefs.cache_clear()


def code() -> Iterator[Path]:
    """Everything that may name a belief."""
    for folder in ("infra", "templates"):
        for path in (REPOSITORY / folder).rglob("*"):
            if path.suffix in {".py", ".json", ".j2"} and path.parent != table.FOLDER:
                yield path


def test_every_belief_has_a_source_that_can_be_looked_up() -> None:
    for one in beliefs().values():
        assert one.says.endswith("."), one.id
        assert re.match(r"https://\S+|[\w.-]+/[\w.-]+ \S+|docs/", one.source), one.id


def test_every_belief_is_used_by_a_rule() -> None:
    """Questions about a belief, and lies about it, are no use of it."""
    used = set[str]()
    for path in code():
        if not path.is_relative_to(ACCEPTANCE) and not path.is_relative_to(LIES):
            used |= mentioned(path.read_text(), beliefs())
    assert sorted(beliefs().keys() - used) == []


def test_code_names_no_belief_that_the_table_lacks() -> None:
    wrong = {
        str(path.relative_to(REPOSITORY)): unknown
        for path in code()
        if (unknown := set(referred(path.read_text())) - beliefs().keys())
    }
    assert wrong == {}


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_of_the_sandbox_with_rules_about_google_names_a_belief(room: str) -> None:
    modules = {str(path.relative_to(SANDBOX)) for path in (SANDBOX / room).rglob("*.py") if path.name != "__init__.py"}
    without = {name for name in modules if not mentioned((SANDBOX / name).read_text(), beliefs())}
    plumbing = {name for name in PLUMBING if name.startswith(f"{room}/")}
    assert (sorted(without - plumbing), sorted(plumbing - without)) == ([], [])


def test_a_reference_is_found_in_each_of_its_forms() -> None:
    text = """
    Belief: a-b. Beliefs: c-d, e-f and
    g-h. (belief ``i-j``) # (beliefs: k-l,
    # m-n) Rule(belief="o-p") {"belief": "q-r"} a belief about x-y, disbelief: z-z
    """
    assert list(referred(text)) == ["a-b", "c-d", "e-f", "g-h", "i-j", "k-l", "m-n", "o-p", "q-r"]


def test_the_page_shows_the_table(*, rewrite_goldens: bool) -> None:
    shown = page(beliefs().values(), {probe.belief for probe in probes()})
    if rewrite_goldens:
        PAGE.write_text(shown)
    assert PAGE.read_text() == shown


def test_a_belief_is_found_by_its_id(entries: Any) -> None:
    entries(ENTRY, {**ENTRY, "id": "c", "probe": "Ask."})
    assert belief("a-b").probe is None
    assert belief("c").probe == "Ask."
    assert [one.area for one in beliefs().values()] == ["area", "area"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{**ENTRY, "why": "x"}], "unknown"),
        ([{key: value for key, value in ENTRY.items() if key != "source"}], "missing"),
        ([{**ENTRY, "id": "A B"}], "kebab"),
        ([ENTRY, ENTRY], "used twice"),
        ([{**ENTRY, "sure": "certain"}], "certain"),
        ([{**ENTRY, "date": "soon"}], "soon"),
    ],
    ids=("unknown-key", "missing-key", "bad-id", "twice", "bad-confidence", "bad-date"),
)
def test_a_bad_entry_is_refused(entries: Any, given: list[dict[str, Any]], message: str) -> None:
    entries(*given)
    with pytest.raises(ValueError, match=message):
        beliefs()


def test_a_bar_in_a_cell_stays_in_its_cell(entries: Any) -> None:
    entries({**ENTRY, "says": "a | b."})
    (row,) = (line for line in page(beliefs().values()).splitlines() if line.startswith("| `"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
