"""Renders the charts of JobSet and Kueue into ``templates/charts/``: ``python tools/charts.py``, after an upgrade.

The charts lie in the folders of the Go modules that ``tools/jobset`` and ``tools/kueue`` pin, and Helm is a tool that
is built like the others. Left out are: descriptions of fields, which make three quarters of the types and would stand
in every preview and in the engine's state; empty data of Secrets, which the controllers fill in themselves; what asks
for an aggregated API server that nothing here uses (Kueue's visibility); webhooks of Kueue's about pods and kinds of
jobs that never wait in a queue here, so that a Kueue that is down stops nobody else's; and roles for people, which
nothing binds: who may what is said by the environment's ``access``.

Webhooks listen on the kubelet's port in their pods: beside 443, GKE's own firewall rule lets a control plane reach that
one alone on private nodes (cert-manager.io/docs/installation/compatibility, "GKE").
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "infra"))

from encamp.errors import EncampError  # noqa: E402 - the checkout may not be installed
from encamp_sandbox.tools import TOOLS, BuildLines, Tool, ensure_one  # noqa: E402
from encamp_sandbox.tools.catalog import HELM  # noqa: E402

CHARTS = {"jobset": "jobset-system", "kueue": "kueue-system"}
#: The charts' own port of webhooks, and the one they get.
_CHARTS_PORT, _OPEN_PORT = 9443, 10250
_CONFIG = "controller_manager_config.yaml"
_LEFT_OUT = {"APIService"}
#: How kinds end, beside those that begin with Cluster, whose objects have no namespace, though a chart names one.
_OF_CLUSTERS = ("Definition", "WebhookConfiguration")
#: What webhooks are kept for: the controllers' own kinds, and pods, of which JobSet asks for its own alone.
_ASKED = {"kueue.x-k8s.io", "jobset.x-k8s.io", ""}
#: Kueue asks about every pod, to let pods wait that are no job's.
_NOT_ASKED = re.compile(r"^[mv]pod\.kb\.io$")
_LEFT_OUT_NAME = re.compile(r"visibility|-(editor|viewer)-role$|-batch-(admin|user)-role$")


def main() -> int:
    """Render every chart; the exit code is the error's."""
    lines = BuildLines(sys.stderr)
    try:
        helm = ensure_one(HELM, lines.show) / "helm"
    except EncampError as error:
        lines.close_line()
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    for name, namespace in CHARTS.items():
        target = REPOSITORY / "templates" / "charts" / f"{name}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(render(helm, TOOLS[name], namespace), encoding="utf-8")
        sys.stderr.write(f"{target.relative_to(REPOSITORY)}: {target.stat().st_size} bytes\n")
    return 0


def render(helm: Path, tool: Tool, namespace: str) -> str:
    """A chart's objects as JSON, one a line, after what they were made of."""
    module = _run("go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", tool.module, folder=tool.folder).strip()
    values = REPOSITORY / "tools" / "charts" / f"{tool.name}.yaml"
    chart = Path(module) / "charts" / tool.name
    options = ("--namespace", namespace, "--values", str(values), "--include-crds", "--kube-version", "1.34.0")
    text = _run(str(helm), "template", tool.name, str(chart), *options, folder=tool.folder)
    objects = [_without_words(item) for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]
    kept = sorted((item for item in objects if _is_wanted(item)), key=_order)
    head = {
        "chart": tool.name,
        "module": tool.module,
        "version": tool.version,
        "sum": module_sum(tool),
        "values": hashlib.sha256(values.read_bytes()).hexdigest(),
        "helm": HELM.version,
        "namespace": namespace,
    }
    lines = ",\n".join(json.dumps(item, separators=(",", ":"), sort_keys=True) for item in kept)
    return f'{json.dumps(head, indent=1)[:-2]},\n "objects": [\n{lines}\n]}}\n'


def module_sum(tool: Tool) -> str:
    """The hash of the module's content, which the chart is part of, as ``go.sum`` has it."""
    for line in (tool.folder / "go.sum").read_text(encoding="utf-8").splitlines():
        module, version, digest = line.split()
        if (module, version) == (tool.module, tool.version):
            return digest
    raise AssertionError(f"{tool.module} {tool.version} is not in {tool.folder}/go.sum")


def _is_wanted(item: dict[str, Any]) -> bool:
    return item["kind"] not in _LEFT_OUT and not _LEFT_OUT_NAME.search(item["metadata"]["name"])


def _is_asked(webhook: dict[str, Any]) -> bool:
    groups = {group for rule in webhook["rules"] for group in rule["apiGroups"]}
    return groups <= _ASKED and not _NOT_ASKED.match(webhook["name"])


def _order(item: dict[str, Any]) -> tuple[bool, str, str]:
    """Types first; all else by kind and name."""
    return item["kind"] != "CustomResourceDefinition", item["kind"], item["metadata"]["name"]


def _without_words(item: dict[str, Any]) -> dict[str, Any]:
    item.pop("status", None)
    if item["kind"].startswith("Cluster") or item["kind"].endswith(_OF_CLUSTERS):
        item["metadata"].pop("namespace", None)
    if item["kind"] == "CustomResourceDefinition":
        for version in item["spec"]["versions"]:
            _forget_descriptions(version["schema"]["openAPIV3Schema"])
    if "webhooks" in item:
        item["webhooks"] = [hook for hook in item["webhooks"] if _is_asked(hook)]
    if item["kind"] == "Secret" and not any((item.get("data") or {}).values()):
        item.pop("data", None)
    return _reachable(item)


def _reachable(item: dict[str, Any]) -> dict[str, Any]:
    """An object whose webhooks' port a control plane may reach: in the config, the container, the Service."""
    if item["kind"] == "ConfigMap" and _CONFIG in item["data"]:
        config = yaml.safe_load(item["data"][_CONFIG])
        config["webhook"] = {**config.get("webhook", {}), "port": _OPEN_PORT}
        item["data"][_CONFIG] = yaml.safe_dump(config)
    elif item["kind"] == "Deployment":
        for port in (port for each in _containers(item) for port in each.get("ports", [])):
            if port["containerPort"] == _CHARTS_PORT:
                port["containerPort"] = _OPEN_PORT
    elif item["kind"] == "Service":
        for port in item["spec"]["ports"]:
            if port["targetPort"] == _CHARTS_PORT:
                port["targetPort"] = _OPEN_PORT
    return item


def _containers(deployment: dict[str, Any]) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return containers


def _forget_descriptions(schema: Any) -> None:
    """Below ``properties`` a key is a field's name, also where that is ``description``."""
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("description"), str):
        del schema["description"]
    for key, inner in schema.items():
        if key == "properties":
            for field in inner.values():
                _forget_descriptions(field)
        elif isinstance(inner, list):
            for each in inner:
                _forget_descriptions(each)
        else:
            _forget_descriptions(inner)


def _run(*command: str, folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
