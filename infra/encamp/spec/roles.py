"""The roles that replicas of a job have: one table of their names, fields and limits.

Every place that lists roles derives its list from :class:`Role`: rules, plan, API, command line and local runs. A role
has the fields ``<role>_type``, ``<role>_count`` (but for the master) and ``<role>_config`` of a TrainingInput, and one
of its own in ``encamp.machines``; ``tests/spec/test_roles.py`` holds the models to that.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The role of a replica. Its value is its task type in TF_CONFIG, and part of names of pods, hosts and logs.

    The primary is always called master here, also where TF_CONFIG says chief.
    """

    MASTER = "master"
    WORKER = "worker"
    PARAMETER_SERVER = "ps"
    EVALUATOR = "evaluator"

    @property
    def field(self) -> str:
        """The beginning of its fields in a job file, and its field in ``encamp.machines``: ``parameter_server``."""
        return self.name.lower()

    @property
    def key(self) -> str:
        """The same in camelCase: ``parameterServer``."""
        first, *rest = self.field.split("_")
        return first + "".join(word.capitalize() for word in rest)

    @property
    def words(self) -> str:
        """Its name in messages: ``parameter server``."""
        return self.field.replace("_", " ")

    @property
    def flag(self) -> str:
        """The beginning of its flags: ``parameter-server``."""
        return self.field.replace("_", "-")

    @property
    def type_field(self) -> str:
        """The TrainingInput field of its machine type."""
        return f"{self.field}_type"

    @property
    def count_field(self) -> str | None:
        """The TrainingInput field of its number of replicas; None for the master, of which there is one."""
        return None if self is Role.MASTER else f"{self.field}_count"

    @property
    def config_field(self) -> str:
        """The TrainingInput field of its machines' and container's options."""
        return f"{self.field}_config"

    @property
    def is_in_cluster(self) -> bool:
        """Whether TF_CONFIG's cluster has its replicas: an evaluator only reads what the others write."""
        return self is not Role.EVALUATOR

    @property
    def computes(self) -> bool:
        """Whether its replicas run training steps, and so may have TPUs and a share of local GPUs.

        Parameter servers keep values, and evaluators are no part of a distribution strategy.
        """
        return self in {Role.MASTER, Role.WORKER}


#: The roles whose number a job file says.
COUNTED_ROLES = tuple(role for role in Role if role.count_field is not None)
