"""The table of roles, and the fields that the models have for each of them."""

from __future__ import annotations

from pydantic.alias_generators import to_camel

from encamp.spec.data_files import data_file
from encamp.spec.encamp import MachinesSpec
from encamp.spec.roles import COUNTED_ROLES, Role
from encamp.spec.training import TrainingInputSpec


def test_the_names_of_a_role_are_those_of_the_api() -> None:
    """Source: the job model, sections 1.2 and 4.2; the old client's flags."""
    role = Role.PARAMETER_SERVER
    assert (role.value, role.field, role.key) == ("ps", "parameter_server", "parameterServer")
    assert (role.words, role.flag) == ("parameter server", "parameter-server")
    assert (role.type_field, role.count_field, role.config_field) == (
        "parameter_server_type",
        "parameter_server_count",
        "parameter_server_config",
    )


def test_there_is_one_master_and_the_others_are_counted() -> None:
    assert Role.MASTER.count_field is None
    assert COUNTED_ROLES == (Role.WORKER, Role.PARAMETER_SERVER, Role.EVALUATOR)


def test_the_cluster_and_the_training_steps_are_of_these_roles() -> None:
    assert [role for role in Role if role.is_in_cluster] == [Role.MASTER, Role.WORKER, Role.PARAMETER_SERVER]
    assert [role for role in Role if role.computes] == [Role.MASTER, Role.WORKER]


def test_a_training_input_has_the_fields_of_every_role_and_of_no_other() -> None:
    """A role that the table lacks, or whose fields the model lacks, would be left out of rules and plans in silence."""
    fields = TrainingInputSpec.model_fields
    assert {name for name in fields if name.endswith("_count")} == {role.count_field for role in COUNTED_ROLES}
    assert {name for name in fields if name.endswith("_type")} == {role.type_field for role in Role}
    configs = {name for name in fields if name.endswith("_config")}
    others = {"encryption_config", "use_chief_in_tf_config"}
    assert configs - others == {role.config_field for role in Role}
    assert {info.alias for info in MachinesSpec.model_fields.values()} == {role.key for role in Role}
    assert [to_camel(role.field) for role in Role] == [role.key for role in Role]


def test_scale_tiers_name_no_role_beside_them() -> None:
    groups = {name for tier in data_file("tiers")["scaleTiers"].values() for name in tier}
    assert groups - {"source"} <= set(Role)
