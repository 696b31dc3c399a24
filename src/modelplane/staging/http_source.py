"""Files of web servers, each with the checksum that it must have."""

from typing import Any

from modelplane.staging.checksums import Checksum
from modelplane.staging.stage import File, Stage, safe
from modelplane.staging.web import ask


def fill_from_http(source: dict[str, Any], secret: dict[str, str], stage: Stage) -> None:
    """Download the files that a ModelCache lists."""
    token = {"Authorization": f"Bearer {secret['TOKEN']}"} if secret.get("TOKEN") else {}
    stage.fetch(_file(entry, token) for entry in source["files"])


def _file(entry: dict[str, str], token: dict[str, str]) -> File:
    return File(
        path=safe(entry["path"]),
        size=-1,
        open=lambda offset: ask(entry["url"], {"Range": f"bytes={offset}-"} if offset else {}, token),
        checksum=lambda _answer: Checksum("sha256", entry["sha256"]),
    )
