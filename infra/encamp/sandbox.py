"""The door to the sandbox: the one module of encamp that imports ``encamp_sandbox``.

The sandbox is a package of its own, which stands for Google Cloud: what is planned and run meets it over its ports
alone. Commands that start, look at and end it do so through here. Each function imports what it needs when it is
called, so that commands that have nothing to do with the sandbox start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import TextIO

    from encamp.findings import Finding
    from encamp_sandbox.layout import Layout
    from encamp_sandbox.lifecycle import Listener
    from encamp_sandbox.pythons.pulled import PulledPython
    from encamp_sandbox.pythons.report import RuntimePython
    from encamp_sandbox.state import ProcessState, SandboxState
    from encamp_sandbox.status import SandboxStatus


class Sandbox:
    """The sandbox of one folder.

    Args:
        layout: names the folder and everything in it.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @classmethod
    def located(cls) -> Sandbox:
        """Return the sandbox that this call is about, whether or not it was made yet."""
        from encamp_sandbox.layout import Layout  # noqa: PLC0415

        return cls(Layout.located())

    @classmethod
    def opened(cls) -> Sandbox:
        """Return the sandbox that this call is about.

        Raises:
            SandboxError: no sandbox was made there, or its configuration cannot be read.
        """
        from encamp_sandbox.layout import Layout  # noqa: PLC0415

        return cls(Layout.open())

    @classmethod
    def created(cls) -> Sandbox:
        """Return the sandbox that this call is about; its folder and configuration are made where they are missing."""
        from encamp_sandbox.layout import Layout  # noqa: PLC0415

        return cls(Layout.create())

    @property
    def root(self) -> Path:
        """Its folder."""
        return self._layout.root

    @property
    def port(self) -> int:
        """The port of its cloud on the loopback address."""
        return self._layout.ports.front

    def up(self, listener: Listener, project: str | None = None) -> SandboxState:
        """Start it, and build its tools where they are missing; ``project`` is for a new one."""
        from encamp_sandbox import lifecycle  # noqa: PLC0415

        return lifecycle.up(self._layout, listener, project)

    def start_queues(self, listener: Listener) -> None:
        """Start Kueue in it."""
        from encamp_sandbox import lifecycle  # noqa: PLC0415

        lifecycle.start_queues(self._layout, listener)

    def down(self, listener: Listener) -> int:
        """End its processes, and return how many there were."""
        from encamp_sandbox import lifecycle  # noqa: PLC0415

        return lifecycle.down(self._layout, listener)

    def reset(self, listener: Listener) -> None:
        """End its processes and remove its folder."""
        from encamp_sandbox import lifecycle  # noqa: PLC0415

        lifecycle.reset(self._layout, listener)

    def status(self) -> SandboxStatus:
        """Ask each of its processes how it is."""
        from encamp_sandbox.status import sandbox_status  # noqa: PLC0415

        return sandbox_status(self._layout)

    def is_up(self) -> bool:
        """Tell whether it runs, or is about to."""
        from encamp_sandbox.status import RUNNING, STARTING  # noqa: PLC0415

        return self.status().state in (RUNNING, STARTING)

    def findings(self) -> list[Finding]:
        """Return what this machine allows, and how what it does not is mended."""
        from encamp_sandbox.doctor import examine  # noqa: PLC0415

        return examine(self._layout)

    def variables(self) -> Mapping[str, str]:
        """Return the environment variables that lead a process to it instead of Google Cloud."""
        from encamp_sandbox.environment import variables  # noqa: PLC0415

        return variables(self._layout)

    def trainer_variables(self) -> Mapping[str, str]:
        """Return the variables that TensorFlow needs beside these outside of a pod."""
        from encamp_sandbox.environment import trainer_variables  # noqa: PLC0415

        return trainer_variables(self._layout)

    def token(self, member: str | None) -> str:
        """Return an access token of a member such as ``user:ana@example.com``; the administrator's for None.

        Raises:
            SandboxError: the sandbox does not run.
            UsageError: there is no such member.
        """
        from encamp_sandbox.members import token_of  # noqa: PLC0415

        return token_of(self._layout, member)


def make_listener(stream: TextIO, show: Callable[[str, str], None]) -> Listener:
    """Return what is told of the sandbox's progress.

    ``stream`` is where builds of tools are shown, ``show`` gets a subject and what happened to it.
    """
    from encamp_sandbox.lifecycle import Listener  # noqa: PLC0415
    from encamp_sandbox.tools import BuildLines  # noqa: PLC0415

    builds = BuildLines(stream)

    def say(subject: str, text: str) -> None:
        builds.close_line()
        show(subject, text)

    def process(name: str, found: ProcessState) -> None:
        if found.state not in ("waiting", "starting"):
            say(name, f"{found.state}{f': {found.message}' if found.message and found.state != 'ready' else ''}")

    return Listener(building=builds.show, process=process, say=lambda text: say("sandbox", text))


def served_project() -> str | None:
    """Return the project of the sandbox that the variables of this process lead to; None if they lead to none."""
    from encamp_sandbox.environment import served_project  # noqa: PLC0415

    return served_project()


def image_difference(image: str) -> str:
    """Return how the Python of replicas differs here from that of their image, empty where it does not."""
    from encamp_sandbox.pythons.choice import difference  # noqa: PLC0415

    return difference(image)


def own_python() -> str:
    """Return the version of the Python that stands for images that are not had exactly."""
    from encamp_sandbox.pythons.choice import own_python  # noqa: PLC0415

    return own_python()


def runtime_pythons() -> list[RuntimePython]:
    """Return what replicas get here for each runtime version."""
    from encamp_sandbox.pythons.report import versions  # noqa: PLC0415

    return versions()


def pythons_folder() -> Path:
    """Return the folder in which pulled Pythons are kept."""
    from encamp_sandbox.pythons.cache import pythons_folder  # noqa: PLC0415

    return pythons_folder()


def check_pull(version: str) -> None:
    """Check that the Python of a runtime version can be pulled.

    Raises:
        UsageError: nobody knows its packages.
    """
    from encamp_sandbox.pythons.pulled import contents_of  # noqa: PLC0415

    contents_of(version)


def pull_python(version: str, python: str | None, tell: Callable[[str], None]) -> PulledPython:
    """Make the Python of a runtime version; ``python`` is a program of its version, found or downloaded for None.

    Raises:
        SandboxError: it cannot be made.
        UsageError: nobody knows its packages.
    """
    from encamp_sandbox.pythons.pulled import pull  # noqa: PLC0415

    return pull(version, python, tell)
