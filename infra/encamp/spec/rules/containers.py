"""Rules of images, packages, commands and versions: V08-V12, V17 and E30."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.ai_platform import CLOUD_TPU, ai_platform, version_key
from encamp.spec.paths import nearest
from encamp.spec.roles import Role
from encamp.spec.rules.case import INPUT
from encamp.spec.rules.places import gcs_path_problem
from encamp.spec.training import ScaleTier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.spec.rules.case import Case

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MOST_PACKAGES = 100
#: Bytes of a replica's arguments. Each role's pods repeat them, and an object of Kubernetes holds 1.5 MiB.
MOST_ARGUMENT_BYTES = 64 * 1024
_RUNTIME = (INPUT, "runtime_version")
_IMAGE = (INPUT, "master_config", "image_uri")


def check_runtime(case: Case) -> None:
    """Check V08: exactly one of runtimeVersion and the master's image, and a version that there was."""
    version, image = case.input.runtime_version, case.master_image
    if version is not None and image is not None:
        case.problem("V08", _RUNTIME, "excludes masterConfig.imageUri: a job has exactly one of the two")
    elif version is None and image is None and not case.master_image_broken:
        case.problem(
            "V08", _RUNTIME, "is missing: a job has a runtimeVersion or a masterConfig.imageUri", 'write "2.11"'
        )
    if version is None:
        return
    known = ai_platform().runtime_versions
    if version not in known:
        hint = f'write "{_closest(version, known)}"'
        case.problem("V08", _RUNTIME, f"{version[:40]!r} is not one of {', '.join(known)}", hint)
    if case.input.use_chief_in_tf_config:
        message = "has no effect with runtimeVersion; 2.1 and newer say chief anyway"
        case.warn(None, (INPUT, "use_chief_in_tf_config"), message)


def check_images(case: Case) -> None:
    """Check V08: an image is a name without blanks."""
    for role in Role:
        image = case.config(role).image_uri
        if image is not None and (not image or image != "".join(image.split())):
            path = (INPUT, role.config_field, "image_uri")
            case.problem("V08", path, f"{image[:120]!r} is no image", "such as gcr.io/my-project/trainer:1")


def _closest(version: str, known: Mapping[str, object]) -> str:
    """Return the newest known version that is not newer, else the one written most alike, else the newest."""
    older = [each for each in known if version_key(version) and version_key(each) <= version_key(version)]
    return max(older, key=version_key) if older else nearest(version, list(known)) or max(known, key=version_key)


def check_python(case: Case) -> None:
    """Check V09: pythonVersion is there and fits runtimeVersion."""
    version, python = case.input.runtime_version, case.input.python_version
    path = (INPUT, "python_version")
    if case.master_image is not None or case.master_image_broken:
        if python is not None and case.master_image is not None:
            case.warn("V09", path, "has no effect: the image has a Python of its own")
        return
    runtime = ai_platform().runtime_versions.get(version or "")
    if runtime is None:
        if python is None:
            case.problem("V09", path, "is missing: it is required with a runtimeVersion", 'write "3.7"')
        return
    choices = " or ".join(f'"{choice}"' for choice in runtime.pythons)
    if python is None:
        case.problem("V09", path, f"is missing: runtimeVersion {version} has {choices}", f"set it to {choices}")
    elif python not in runtime.pythons:
        message = f"{python[:40]!r} does not fit runtimeVersion {version}, which has {choices}"
        case.problem("V09", path, message, f"set it to {choices}")


def check_packages(case: Case) -> None:
    """Check V10: packages and module without a custom image; gs:// paths, at most 100."""
    uris = case.input.package_uris
    path = (INPUT, "package_uris")
    for index, uri in enumerate(uris or []):
        wrong = gcs_path_problem(uri)
        if wrong is None and not uri.removeprefix("gs://").partition("/")[2]:
            wrong = "names a bucket, not a package"
        if wrong is not None:
            case.problem("V10", (*path, index), f"{uri[:120]!r}: {wrong}", "such as gs://my-bucket/trainer-0.1.tar.gz")
    if uris is not None and len(uris) > _MOST_PACKAGES:
        case.problem("V10", path, f"has {len(uris)} packages; at most {_MOST_PACKAGES}")
    module = case.input.python_module
    if module is not None and not _MODULE.fullmatch(module):
        close = module.removesuffix(".py").replace("/", ".").replace("-", "_")
        hint = f"write {close}" if _MODULE.fullmatch(close) else None
        case.problem(
            "V10", (INPUT, "python_module"), f"{module[:120]!r} must be a dotted name, such as trainer.task", hint
        )
    if case.master_image is not None or case.master_image_broken:
        return
    block = case.job.encamp
    local = block.package_path is not None or block.packages or case.broken("encamp")
    if not uris and not local:
        hint = "name a gs:// package, or a local folder by encamp.packagePath"
        case.problem("V10", path, "is missing: without a custom image a job needs at least one package", hint)
    if module is None:
        message = "is missing: without a custom image a job names the module to run"
        case.problem("V10", (INPUT, "python_module"), message, "such as trainer.task")


def check_commands(case: Case) -> None:
    """Check V11 and V12: containerCommand and containerArgs exclude args, and need an image."""
    for role in Role:
        config = case.config(role)
        for name in ("container_command", "container_args"):
            path = (INPUT, role.config_field, name)
            if not getattr(config, name):
                continue
            if case.input.args:
                case.problem("V11", path, "excludes trainingInput.args", "move the arguments here, or remove it")
            if config.image_uri is None and case.master_image is None and not case.master_image_broken:
                message = "needs a custom image: there is no imageUri, neither of this role nor of the master"
                case.problem("V12", path, message, "set masterConfig.imageUri, or use pythonModule and args")


def check_arguments(case: Case) -> None:
    """Check E30: arguments have a bound."""
    lists = [((INPUT, "args"), case.input.args)]
    for role in Role:
        config = case.config(role)
        lists += [
            ((INPUT, role.config_field, name), getattr(config, name))
            for name in ("container_command", "container_args")
        ]
    for path, words in lists:
        size = sum(len(word.encode(errors="surrogatepass")) + 1 for word in words or ())
        if size > MOST_ARGUMENT_BYTES:
            message = f"is {size} bytes long; at most {MOST_ARGUMENT_BYTES}"
            case.problem("E30", path, message, "put long values into a file of the package or a bucket, and name that")


def check_tpu_version(case: Case) -> None:
    """Check V17: tpuTfVersion with a TPU worker's custom image, and nowhere else."""
    for role in Role:
        config = case.config(role)
        path = (INPUT, role.config_field, "tpu_tf_version")
        of_tier = case.tier is ScaleTier.BASIC_TPU
        is_tpu = role is Role.WORKER and (of_tier or case.machine_type(role) == CLOUD_TPU)
        custom_image = config.image_uri is not None or case.master_image is not None
        if config.tpu_tf_version is not None and not (is_tpu and custom_image):
            message = "is allowed for a TPU worker with a custom image only"
            case.problem("V17", path, message, "remove it")
        elif is_tpu and custom_image and config.tpu_tf_version is None:
            case.problem("V17", path, "is missing: a TPU worker with a custom image needs it", 'such as "2.1"')
        elif config.tpu_tf_version is not None and config.tpu_tf_version not in ai_platform().runtime_versions:
            newest = max(ai_platform().runtime_versions, key=version_key)
            case.problem("V17", path, f"{config.tpu_tf_version[:40]!r} is no runtime version; the newest is {newest}")
