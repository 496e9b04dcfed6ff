"""Decision records have one form, a status and what was weighed, and their list names each of them once."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from datetime import date
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "docs" / "decisions"
RECORDS = {path.name: path.read_text() for path in sorted(FOLDER.glob("[0-9]*.md"))}
NUMBERS = {name[:4] for name in RECORDS}
README = (FOLDER / "README.md").read_text()

HEAD = re.compile(r"# (?P<number>\d{4}): (?P<title>\S[^\n]*[^\s.])\n\n(?P<status>[^\n]+)\n\n\S")
ACCEPTED = re.compile(r"Accepted (?P<day>\d{4}-\d\d-\d\d)\.")
SUPERSEDED = re.compile(r"Superseded by \[(?P<number>\d{4})\]\((?P<file>[^)]+)\), (?P<day>\d{4}-\d\d-\d\d)\.")
WEIGHED = re.compile(r"\*\*(instead of|why not|not taken)\b", re.IGNORECASE)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
ENTRY = re.compile(r"^- \[(\d{4}: .+)\]\(([^)\s]+)\)(?: \(superseded by (\d{4})\))?$", re.MULTILINE)
#: How documents and code name a record: by its file, or by its number after the folder or the word.
MENTION = re.compile(r"decisions/(\d{4}[\w-]*\.md)|(?:decisions/|decision )(\d{4})\b(?!-)")


def status_of(text: str) -> re.Match[str] | None:
    head = HEAD.match(text)
    return head and (ACCEPTED.fullmatch(head["status"]) or SUPERSEDED.fullmatch(head["status"]))


def is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def test_every_file_is_a_record_or_the_list() -> None:
    named = re.compile(r"\d{4}(-[a-z0-9]+)+\.md")
    assert [path.name for path in FOLDER.iterdir() if path.name != "README.md" and not named.fullmatch(path.name)] == []


def test_a_number_is_given_once() -> None:
    assert [number for number, times in Counter(name[:4] for name in RECORDS).items() if times > 1] == []


def test_a_record_begins_with_its_number_and_title_then_its_status() -> None:
    heads = {name: HEAD.match(text) for name, text in RECORDS.items()}
    assert [name for name, head in heads.items() if head is None or head["number"] != name[:4]] == []
    assert [
        name for name, text in RECORDS.items() if (found := status_of(text)) is None or not is_day(found["day"])
    ] == []


def test_a_title_is_given_once() -> None:
    titles = Counter(head["title"] for text in RECORDS.values() if (head := HEAD.match(text)))
    assert [title for title, times in titles.items() if times > 1] == []


def test_a_superseded_record_names_a_later_one_that_holds() -> None:
    wrong = []
    for name, text in RECORDS.items():
        head = HEAD.match(text)
        found = head and SUPERSEDED.fullmatch(head["status"])
        if not found:
            continue
        later = RECORDS.get(found["file"], "")
        holds = (head := HEAD.match(later)) is not None and ACCEPTED.fullmatch(head["status"]) is not None
        if not holds or found["file"][:4] != found["number"] or found["number"] <= name[:4]:
            wrong.append(name)
    assert wrong == []


def test_an_accepted_record_says_the_decision_and_what_was_weighed() -> None:
    accepted = {name: text for name, text in RECORDS.items() if re.search(r"^Accepted ", text, re.MULTILINE)}
    assert len(accepted) > 100
    assert [name for name, text in accepted.items() if "**Decision" not in text] == []
    assert [name for name, text in accepted.items() if not WEIGHED.search(text)] == []


def test_the_list_names_every_record_once_by_its_title() -> None:
    listed = README.partition("\n## All records\n")[2]
    entries = [(title, file, later or None) for title, file, later in ENTRY.findall(listed)]
    expected = []
    for name, text in RECORDS.items():
        status = status_of(text)
        later = status["number"] if status is not None and status.re is SUPERSEDED else None
        expected.append((text.partition("\n")[0].removeprefix("# "), name, later))
    assert entries == expected
    assert len(entries) == len(re.findall(r"^\S", listed, re.MULTILINE))


def test_the_first_table_names_about_thirty_records_by_their_titles() -> None:
    rows = re.findall(r"^\| \[(.+?)\]\(([^)]+)\) \| \S.* \|$", README, re.MULTILINE)
    assert 25 <= len(rows) <= 35
    assert len(set(rows)) == len(rows)
    assert [row for row in rows if RECORDS.get(row[1], "").partition("\n")[0] != f"# {row[0]}"] == []


def test_links_of_records_lead_somewhere() -> None:
    for name, text in {**RECORDS, "README.md": README.replace("(file.md)", "")}.items():
        for label, target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
            if "://" in target:
                continue
            assert (FOLDER / target.partition("#")[0]).is_file(), (name, target)
            assert not re.fullmatch(r"\d{4}", label) or label == target[:4], (name, target)


def test_records_that_the_repository_names_exist() -> None:
    listed = subprocess.run(
        ["git", "grep", "-lIE", "decisions?[/ ][0-9]{4}"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    places = listed.stdout.split()
    assert "docs/security.md" in places
    missing = [
        (place, file or number)
        for place in places
        for file, number in MENTION.findall((REPOSITORY / place).read_text())
        if (file and file not in RECORDS) or (number and number not in NUMBERS)
    ]
    assert missing == []
