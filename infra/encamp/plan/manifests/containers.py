"""A replica's container: image, command, arguments and environment (sections 4.3-4.6 of the job model)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.plan.images import RuntimeImage, runtime_image
from encamp.spec.ai_platform import version_key
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.replicas import RoleRequest
    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.training import TrainingInputSpec

#: TensorFlow's name of the TPU of the machine that it runs on.
LOCAL_TPU = "local"
#: From this runtime version on TF_CONFIG calls the master chief.
_CHIEF_SINCE = (2, 1)


@dataclass(frozen=True)
class Container:
    """The container of a role; None as command or args leaves the image's own.

    Attributes:
        custom: whether the image is the user's own.
        interpreter: Python that runs the module after the set-up, None if there is no set-up.
        runtime: the stock image, None for a custom one.
        values_at: position in ``args`` at which the values of a trial come.
    """

    image: str
    command: tuple[str, ...] | None
    args: tuple[str, ...] | None
    custom: bool
    interpreter: str | None
    runtime: RuntimeImage | None
    values_at: int = 0


def container(
    training_input: TrainingInputSpec, request: RoleRequest, job_dir: str | None, images: Mapping[str, str]
) -> Container:
    """Return the container of a role; ``images`` are the environment's own for runtime versions.

    With a runtime version, or with an image and a pythonModule, packages are installed and the module is run. Any other
    image runs as it is, by the truth table of containerCommand and containerArgs, to which nothing is added but the
    values of a trial. These come after the user's own words, before ``--job-dir`` (section 4.5).
    """
    image = _image(training_input, request)
    runtime = None
    if image is None:
        gpu = request.shape.accelerator is not None and request.shape.accelerator.type.startswith("nvidia")
        tpu = request.shape.tpu_version is not None
        version, python = training_input.runtime_version or "", training_input.python_version or ""
        runtime = runtime_image(version, python, gpu=gpu, tpu=tpu, given=images)
    name = image or (runtime.image if runtime else "")
    own = training_input.args or ()
    arguments = (*own, *(("--job-dir", job_dir) if job_dir is not None else ()))
    command, args = request.config.container_command, request.config.container_args
    if training_input.python_module is not None and not command and not args:
        interpreter = runtime.interpreter if runtime else "python3"
        run = (interpreter, "-m", training_input.python_module)
        return Container(name, run, arguments, image is not None, interpreter, runtime, len(own))
    if command or args:
        words = tuple(args) if args else None
        return Container(name, tuple(command) if command else None, words, True, None, runtime, len(args or ()))
    return Container(name, None, arguments or None, True, None, runtime, len(own))


def _image(training_input: TrainingInputSpec, request: RoleRequest) -> str | None:
    """Return the role's own image, else the master's, else None for the runtime version's."""
    if request.config.image_uri is not None:
        return request.config.image_uri
    master = training_input.master_config
    return master.image_uri if master is not None else None


def master_task_type(training_input: TrainingInputSpec) -> str:
    """Return the master's name in TF_CONFIG: ``chief`` or ``master`` (section 4.3)."""
    version = training_input.runtime_version
    if version is not None:
        return "chief" if version_key(version) >= _CHIEF_SINCE else "master"
    return "chief" if training_input.use_chief_in_tf_config else "master"


def task_type(role: Role, master: str) -> str:
    """Return the name of a role in TF_CONFIG."""
    return master if role is Role.MASTER else role.value


def environment_variables(job: TrainingJobSpec, project: str, training_input_json: str) -> Mapping[str, str]:
    """Return variables that every replica of a job has, without TF_CONFIG and CLUSTER_SPEC (section 4.4)."""
    return {
        "CLOUD_ML_JOB": training_input_json,
        "CLOUD_ML_JOB_ID": job.job_id or "",
        "CLOUD_ML_PROJECT_ID": project,
        "CLOUD_ML_REGION": job.training_input.region or "",
        "PYTHONUNBUFFERED": "1",
    }


def tpu_variables(project: str, zone: str | None) -> Mapping[str, str]:
    """Return variables of replicas with a TPU, none where ``zone`` is None (section 4.8).

    A TPU of GKE belongs to the machine: code that resolves the node named in TPU_CONFIG, as AI Platform's samples do,
    finds it by the name ``local``, which TensorFlow takes for the machine's own TPU.
    """
    if zone is None:
        return {}
    config = {"project": project, "tpu_node_name": LOCAL_TPU, "zone": zone}
    return {"TPU_CONFIG": compact_json(config), "TPU_NAME": LOCAL_TPU}


def training_input_data(training_input: TrainingInputSpec, job_dir: str | None) -> dict[str, Any]:
    """Return the TrainingInput as JSON data with snake_case keys, as TF_CONFIG's ``job`` carries it."""
    data = training_input.model_dump(mode="json", exclude_none=True)
    if job_dir is not None:
        data["job_dir"] = job_dir
    return data


def compact_json(data: Any) -> str:
    """Return JSON without spaces, keys sorted, text as it is."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
