"""``encamp serve``: the jobs API of an environment, for gcloud and other clients of AI Platform."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from encamp.api.identity import IdentityOptions
    from encamp.api.live_access import AccessFile
    from encamp.run.history.context import Context
    from encamp.spec.environment import EnvironmentSpec

#: As ``plan.environment.api`` has it, and ``api.dispatcher``; help pages import neither.
DEFAULT_PORT, DEFAULT_DRIVERS = 8484, 4
_AUDIT_FILE = "audit.jsonl"


@click.command(name="serve")
@ENVIRONMENT
@click.option("--host", default="127.0.0.1", show_default=True, help="Address or name to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True, help="0 takes a free one."
)
@click.option(
    "--drivers",
    type=click.IntRange(1, 200),
    help=f"How many jobs are driven at once; as the environment's api block says, else {DEFAULT_DRIVERS}.",
)
@click.option(
    "--audit-log",
    metavar="FILE",
    help=f"Where every call is written down, - for stdout; {_AUDIT_FILE} beside the record when absent.",
)
@click.option(
    "--no-credentials", is_flag=True, help="Accept callers without credentials; each of this machine may do everything."
)
@click.option(
    "--audience",
    "audiences",
    metavar="URL",
    multiple=True,
    help="Audience of ID tokens; may be repeated, and replaces those of the api block.",
)
@click.option(
    "--teams-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="JSON with access and actAs in place of the environment's; read again when it changes, as its config is.",
)
@click.option(
    "--in-cluster", is_flag=True, help="Let pods of the environment's cluster drive; this is one of its pods."
)
def command(
    environment: str,
    host: str,
    port: int,
    drivers: int | None,
    audit_log: str | None,
    *,
    no_credentials: bool,
    audiences: tuple[str, ...],
    teams_file: str | None,
    in_cluster: bool,
) -> None:
    """Serve AI Platform's jobs API until SIGTERM or Ctrl-C: what gcloud and the Python client know as ml v1.

    Jobs wait in the record and are begun by drivers of their own, which go on without this process. Several may serve
    one record. Listens wider than loopback only where callers have to show who they are.
    """
    from contextlib import closing  # noqa: PLC0415 - `encamp serve --help` needs none of it

    from encamp.extras import need  # noqa: PLC0415

    need("serve", "the jobs API")
    from encamp.api.access import access_warnings  # noqa: PLC0415
    from encamp.api.connections import Limits  # noqa: PLC0415
    from encamp.api.listening import listen  # noqa: PLC0415
    from encamp.api.server import serve  # noqa: PLC0415
    from encamp.api.service import ServiceOptions, opened_service  # noqa: PLC0415
    from encamp.jobs.target import enter  # noqa: PLC0415

    spec = enter(environment)
    block = spec.api
    context = _context()
    with closing(listen(host, port, credentials=not no_credentials)) as listening:
        options = ServiceOptions(
            environment,
            drivers or (block.drivers if block is not None else DEFAULT_DRIVERS),
            None if no_credentials else _identity(spec, audiences),
            _audit(audit_log, context.folder),
            in_cluster=in_cluster,
            teams=_teams(environment, teams_file, spec),
        )

        def started() -> None:
            _say(f"the jobs API of {environment} listens on {', '.join(listening.addresses)}")
            for line in exports(spec, listening.url, credentials=not no_credentials):
                # Where stdout is the audit log, it is that alone.
                say(line, err=audit_log == "-")
            for warning in access_warnings(spec) if not no_credentials else ():
                _say(f"warning: {warning}")

        with opened_service(spec, context, options) as service:
            serve(service, listening, limits=Limits(), started=started, say=_say)
        _say("drivers go on; jobs that wait are begun by whoever serves next")


def exports(spec: EnvironmentSpec, url: str, *, credentials: bool) -> Iterator[str]:
    """Return the variables by which gcloud and the Python client speak to a service, and example commands."""
    values = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": f"{url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{url}/",
        "CLOUDSDK_CORE_PROJECT": spec.project,
        "CLOUDSDK_COMPUTE_REGION": spec.region,
        "ENCAMP_API_URL": url,
    }
    yield "# for a shell whose gcloud is to speak to it:"
    if spec.is_sandbox:
        yield 'eval "$(encamp sandbox env)"'
    elif not credentials:
        values["CLOUDSDK_AUTH_DISABLE_CREDENTIALS"] = "true"
    for name, value in values.items():
        yield f"export {name}={shlex.quote(value)}"
    yield "# gcloud ai-platform jobs list"
    yield "# Python: googleapiclient.discovery.build("
    yield f'#     "ml", "v1", discoveryServiceUrl="{url}/$discovery/rest?version=v1", static_discovery=False)'


def _identity(spec: EnvironmentSpec, audiences: tuple[str, ...]) -> IdentityOptions:
    """Whose credentials are taken: as the environment's block says; in a sandbox also its administrator's."""
    from encamp.api.access_tokens import USUAL_CLIENTS  # noqa: PLC0415
    from encamp.api.id_tokens import Issuer  # noqa: PLC0415
    from encamp.api.identity import IdentityOptions  # noqa: PLC0415
    from encamp.cloud.whoami import google_account  # noqa: PLC0415

    block = spec.api
    me = google_account() if spec.is_sandbox else None
    return IdentityOptions(
        audiences=audiences or (block.audiences if block is not None else ()),
        issuers=tuple(
            Issuer(one.url, one.keys, one.pool, one.subject, tuple(domain.lower() for domain in one.domains))
            for one in (block.issuers if block is not None else ())
        ),
        clients=(*USUAL_CLIENTS, *(block.clients if block is not None else ())),
        admins=frozenset({me} if me is not None else ()),
    )


def _teams(environment: str, given: str | None, spec: EnvironmentSpec) -> AccessFile:
    from pathlib import Path  # noqa: PLC0415

    from encamp.api.live_access import AccessFile  # noqa: PLC0415
    from encamp.project import project_folder  # noqa: PLC0415

    return AccessFile.given(Path(given), spec) if given else AccessFile.committed(environment, project_folder())


def _audit(asked: str | None, folder: Path) -> Path | BinaryIO:
    import sys  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    if asked == "-":
        return sys.stdout.buffer
    if asked is not None:
        return Path(asked)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / _AUDIT_FILE


def _context() -> Context:
    """Make the context that looks at jobs; its lines go to the log of this process, with their times."""
    import logging  # noqa: PLC0415

    from encamp.run.history.context import Context  # noqa: PLC0415

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    # It tells of every try to look up a name that is not there.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    log = logging.getLogger("encamp.api")
    log.setLevel(logging.INFO)
    return Context(log.info, lambda _, __: None)


def _say(line: str) -> None:
    say(line, err=True)
