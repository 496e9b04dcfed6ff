"""Every rule by its id, in words: its sentence, its fields and its source.

Data (``spec/data/rules.json``), because ``encamp explain``, the documentation and the tests all read it. What a rule
does is in the modules beside this one; a test holds both to the same set of ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Rule:
    """A rule of job files.

    Attributes:
        id: such as ``V07``.
        sentence: the rule in one sentence.
        fields: dotted paths in camelCase without indices; ``*`` stands for a role.
        source: its source, in words.
    """

    id: str
    sentence: str
    fields: tuple[str, ...]
    source: str

    def is_about(self, path: str) -> bool:
        """Whether the rule is about the field at a dotted path in camelCase."""
        depth = path.count(".")
        return any(fnmatchcase(path, field) and field.count(".") == depth for field in self.fields)


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by its id, V first, then H and E."""
    return {
        name: Rule(name, entry["sentence"], tuple(entry["fields"]), entry["source"])
        for name, entry in data_file("rules").items()
    }


def rules_about(path: str) -> Sequence[Rule]:
    """Return the rules about the field at a dotted path in camelCase, such as ``trainingInput.workerCount``."""
    return [rule for rule in rules().values() if rule.is_about(path)]
