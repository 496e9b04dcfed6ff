"""Objects made of other objects, inside the server: copies, renamings and concatenations.

Sources: cloud.google.com/storage/docs/json_api/v1/objects/rewrite and .../compose.

Beliefs: storage-compose-has-no-md5, storage-compose-takes-32.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from encamp_sandbox.storage.digests import digests_of
from encamp_sandbox.storage.errors import invalid
from encamp_sandbox.storage.model import Conditions
from encamp_sandbox.storage.objects import Content
from encamp_sandbox.storage.transfer import NO_OVERWRITE_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from starlette.requests import Request

    from encamp_sandbox.storage.objects import Objects

_MAX_SOURCES = 32


def rewrite(
    objects: Objects, source: tuple[str, str], target: tuple[str, str], body: Mapping[str, Any], request: Request
) -> dict[str, Any]:
    """Copy an object in one step; with a body, its metadata are those of the body."""
    query = request.query_params
    generation = query.get("sourceGeneration")
    row = objects.row(*source, int(generation) if generation and generation.isdigit() else None)
    Conditions.of(query, "ifSource").check(row)
    copy = objects.new_file()
    _clone(objects.path(row), copy)
    content = Content(copy, digests_of(copy), composite=row["md5"] is None)
    wanted = dict(body) or json.loads(row["body"])
    overwrite = NO_OVERWRITE_HEADER not in request.headers
    made = objects.put(*target, wanted, content, Conditions.of(query), overwrite=overwrite)
    size = str(row["size"])
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": size,
        "objectSize": size,
        "done": True,
        "resource": made,
    }


def move(objects: Objects, bucket: str, names: tuple[str, str], request: Request) -> dict[str, Any]:
    """Rename an object: source and target are ``names``."""
    conditions = (Conditions.of(request.query_params, "ifSource"), Conditions.of(request.query_params))
    return objects.move(bucket, names, conditions, overwrite=NO_OVERWRITE_HEADER not in request.headers)


def compose(objects: Objects, bucket: str, name: str, body: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """Concatenate up to 32 objects of the bucket."""
    sources = body.get("sourceObjects") or []
    if not 1 <= len(sources) <= _MAX_SOURCES:
        raise invalid(f"The number of source components provided ({len(sources)}) has to be 1 to {_MAX_SOURCES}")
    rows = []
    for source in sources:
        generation = source.get("generation")
        row = objects.row(bucket, str(source.get("name")), int(generation) if generation else None)
        wanted = (source.get("objectPreconditions") or {}).get("ifGenerationMatch")
        Conditions(generation=int(wanted) if wanted else None).check(row)
        rows.append(row)
    joined = objects.new_file()
    with joined.open("wb") as out:
        for row in rows:
            with objects.path(row).open("rb") as part:
                shutil.copyfileobj(part, out)
    content = Content(joined, digests_of(joined), composite=True)
    metadata = body.get("destination") or json.loads(rows[0]["body"])
    overwrite = NO_OVERWRITE_HEADER not in request.headers
    return objects.put(bucket, name, metadata, content, Conditions.of(request.query_params), overwrite=overwrite)


def _clone(source: Path, target: Path) -> None:
    """Give bytes that never change a second name, or copy them if the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
