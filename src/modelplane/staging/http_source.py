"""Files of web servers, each with the checksum that it must have."""

from functools import partial
from typing import Any

from modelplane.staging.checksums import Checksum
from modelplane.staging.stage import File, Stage, safe
from modelplane.staging.web import Hopeless, ask, patiently, shown


def fill_from_http(source: dict[str, Any], secret: dict[str, str], stage: Stage) -> None:
    """Download the files that a ModelCache lists."""
    token = {"Authorization": f"Bearer {secret['TOKEN']}"} if secret.get("TOKEN") else {}
    stage.fetch(_file(entry, token) for entry in source["files"])


def sizes_of_http(source: dict[str, Any], secret: dict[str, str]) -> list[int]:
    """Return the size of each file."""
    token = {"Authorization": f"Bearer {secret['TOKEN']}"} if secret.get("TOKEN") else {}
    return [patiently(partial(_size_of, entry["url"], token)) for entry in source["files"]]


def _size_of(url: str, token: dict[str, str]) -> int:
    # Not HEAD: a URL that is signed for GET refuses it. The body is not read.
    with ask(url, {}, token) as answer:
        length = answer.headers.get("Content-Length", "")
    if not length.isdecimal():
        raise Hopeless(f"{shown(url)} does not say how large it is: set sizeGiB")
    return int(length)


def _file(entry: dict[str, str], token: dict[str, str]) -> File:
    return File(
        path=safe(entry["path"]),
        size=-1,
        open=lambda offset: ask(entry["url"], {"Range": f"bytes={offset}-"} if offset else {}, token),
        checksum=lambda _answer: Checksum("sha256", entry["sha256"]),
    )
