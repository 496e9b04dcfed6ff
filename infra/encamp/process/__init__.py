"""The one supervisor of local processes: it starts them, watches them and ends all that they started.

A ``ProcessSpec`` is the request, a ``LiveProcess`` runs, a ``ProcessOutcome`` has happened. The sandbox keeps its
servers and its pods with it, the local runner its replicas. It knows nothing of Kubernetes, training or logs'
formats, and it restarts nothing: whoever wants a process again starts it again.
"""

from __future__ import annotations

from encamp.process.live import LiveProcess, start, stop_all
from encamp.process.model import ProcessOutcome, ProcessSpec
from encamp.process.output import LineSplitter, OutputLine

__all__ = ["LineSplitter", "LiveProcess", "OutputLine", "ProcessOutcome", "ProcessSpec", "start", "stop_all"]
