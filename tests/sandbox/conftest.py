"""The real engine in a folder of its own: the built CLI, our language host, a file backend."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from encamp_sandbox.access import write_access
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates
from encamp_sandbox.tools import installed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROJECT = "name: tiny\nmain: infra/\nstackConfigDir: stacks\nruntime:\n  name: python\n"


@dataclass
class EngineProject:
    """A Pulumi project with one stack, ``dev``; ``providers`` maps a package to the port of its running provider."""

    folder: Path
    layout: Layout
    providers: dict[str, int] = field(default_factory=dict)

    def program(self, text: str) -> None:
        (self.folder / "infra" / "__main__.py").write_text(text)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.layout.bin}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_PROVIDERS": ",".join(f"{name}:{port}" for name, port in self.providers.items()),
            "KUBECONFIG": str(self.folder / "no-kubeconfig"),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``pulumi``; output and errors go to one pipe."""
        command = [str(self.layout.bin / "pulumi"), *arguments, "--non-interactive", "--color=never"]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run ``pulumi`` to its end, which must be ``code``, and return what it said."""
        process = self.start(*arguments)
        try:
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        assert process.returncode == code, said
        return said


@pytest.fixture(scope="session")
def engine_layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A sandbox's folder with its executables and certificates, in which nothing runs."""
    layout = Layout.create(tmp_path_factory.mktemp("sandbox") / "sb")
    issue_certificates(layout)
    tools = installed()
    write_access(layout, {name: tools[name] for name in ("kubectl", "pulumi")}, path="")
    return layout


@pytest.fixture
def engine_project(engine_layout: Layout, tmp_path: Path) -> EngineProject:
    """A fresh project with an empty stack."""
    made = EngineProject(tmp_path, engine_layout)
    for folder in ("infra", "stacks", "state"):
        (tmp_path / folder).mkdir()
    (tmp_path / "Pulumi.yaml").write_text(PROJECT)
    made.program("")
    made.run("stack", "init", "dev")
    return made


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Waits until something is true, ten seconds at most."""

    def wait(true: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not true():
            assert time.monotonic() < end
            time.sleep(0.05)

    return wait
