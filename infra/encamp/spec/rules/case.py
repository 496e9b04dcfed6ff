"""The job as its rules see it, and their reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.errors import Problem
from encamp.spec.job import TrainingJobSpec
from encamp.spec.machines_today import stands
from encamp.spec.paths import dotted
from encamp.spec.roles import Role
from encamp.spec.training import ReplicaConfig, ScaleTier, TrainingInputSpec

if TYPE_CHECKING:
    from encamp.spec.encamp import MachineSpec
    from encamp.spec.loading import DataPath
    from encamp.spec.reading import Reading


INPUT = "training_input"


@dataclass
class Case:
    """A job under examination."""

    job: TrainingJobSpec
    reading: Reading
    warnings: list[Problem] = field(default_factory=list)

    @property
    def input(self) -> TrainingInputSpec:
        """The job's TrainingInput."""
        return self.job.training_input

    @property
    def has_input(self) -> bool:
        """Whether the file has a TrainingInput that could be read."""
        return (INPUT,) in self.reading.written_paths and (INPUT,) not in self.reading.broken

    @property
    def tier(self) -> ScaleTier:
        """The scale tier; BASIC when absent."""
        tier: ScaleTier = self.input.or_default("scale_tier")
        return tier

    @property
    def custom(self) -> bool:
        """Whether machines are chosen one by one; assumed where the tier itself is wrong."""
        return self.tier is ScaleTier.CUSTOM or self.broken(INPUT, "scale_tier")

    def machine_type(self, role: Role) -> str | None:
        """Return the machine type field of a role."""
        value: str | None = getattr(self.input, role.type_field)
        return value

    def count(self, role: Role) -> int:
        """Return the number of replicas of a role that the file asks for; 1 for the master."""
        return 1 if role.count_field is None else self.input.or_default(role.count_field)

    def config(self, role: Role) -> ReplicaConfig:
        """Return the options of a role, empty ones where the file has none."""
        return getattr(self.input, role.config_field) or ReplicaConfig()

    def machine(self, role: Role) -> MachineSpec | None:
        """Return a role's machine in the encamp block; None if it has none."""
        machines = self.job.encamp.machines
        found: MachineSpec | None = getattr(machines, role.field) if machines is not None else None
        return found

    def replaces_type(self, role: Role) -> bool:
        """Whether the encamp block names a role's machine, so that its type may be missing."""
        return stands(self.machine(role)) or self.broken("encamp", "machines", role.field)

    @property
    def master_image(self) -> str | None:
        """The master's custom image."""
        return self.config(Role.MASTER).image_uri

    @property
    def master_image_broken(self) -> bool:
        """Whether a master image was given in a form that could not be read."""
        return self.broken(INPUT, "master_config", "image_uri")

    def broken(self, *path: str | int) -> bool:
        """Whether the value at a path was wrong already."""
        return self.reading.is_broken(path)

    def problem(self, rule: str | None, path: DataPath, message: str, hint: str | None = None) -> None:
        """Report a mistake, unless what it is about was wrong already."""
        if not self.reading.is_broken(path):
            self.reading.report(self.spelled(path), message, rule=rule, hint=hint)

    def warn(self, rule: str | None, path: DataPath, message: str, hint: str | None = None) -> None:
        """Report something that is accepted, but that the user should know."""
        spelled = self.spelled(path)
        self.warnings.append(Problem(dotted(spelled), self.reading.document.line(spelled), rule, message, hint))

    def spelled(self, path: DataPath) -> DataPath:
        """Return the path as the file spells it."""
        return self.reading.spelled(path, TrainingJobSpec)

    def name(self, *path: str | int) -> str:
        """Return the last part of a path as the file spells it, for use inside a message."""
        return dotted(self.spelled(path)[-1:])

    def written(self, path: DataPath) -> Any:
        """Return a scalar as written in the text, if it is not a string."""
        return self.reading.document.written.get(self.spelled(path))
