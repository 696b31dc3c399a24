"""The files of a version of a model in the registry of NVIDIA NGC.

Source: NVIDIA's NGC SDK for Python 4.37 (``ngcsdk``): ``ModelAPI``, ``Authentication``, and the classes
``ModelVersionFileListResponse``, ``ModelFile`` and ``ArtifactDownloadAllResponse``. Without a key, the paths
are those of its ``GuestModelAPI``. Every file has a SHA-256, and an address that is valid for a while.
"""

import base64
import binascii
import functools
import hashlib
import http.client
import json
import urllib.error
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from modelplane.staging.checksums import Checksum
from modelplane.staging.stage import MOST_FILES, File, safe
from modelplane.staging.web import Hopeless, Interrupted, Unauthorized, ask, described, patiently

NGC = "https://api.ngc.nvidia.com"
NGC_TOKENS = "https://authn.nvidia.com/token"
BEARER = "nvapi-"
"""Begin of keys that are sent as they are; others are exchanged for a token."""
PER_PAGE = 500


class Version:
    """A version of a model, and the key for it; without a key, requests are a guest's."""

    def __init__(self, source: dict[str, Any], secret: dict[str, str]) -> None:
        org, team, model, version = (source[name] for name in ("org", "team", "model", "version"))
        self._key = secret.get("NGC_API_KEY", "")
        scope = f"org/{org}/team/{team}" if team else f"org/{org}"
        self._scopes = [f"group/ngc:{org}", *([f"group/ngc:{org}/{team}"] if team else [])]
        if self._key:
            self._list = f"{NGC}/v2/{scope}/models/{model}/versions/{version}/files"
            self._download = f"{NGC}/v2/{scope}/models/{model}/{version}/files"
        else:
            plain = f"{org}/{team}" if team else org
            self._list = f"{NGC}/v2/models/{plain}/{model}/versions/{version}/files"
            self._download = f"{NGC}/v2/models/{scope}/{model}/{version}/files"
        bearer = {"Authorization": f"Bearer {self._key}"}
        self._headers = bearer if self._key.startswith(BEARER) else {}

    def _ask(self, url: str, query: dict[str, str]) -> dict[str, Any]:
        """Return an answer of NGC, after asking for a token if one is needed."""
        try:
            return self._answer(url, query)
        except Unauthorized:
            if not self._key or self._key.startswith(BEARER):
                raise
            self._headers = self._token()
        return self._answer(url, query)

    def _answer(self, url: str, query: dict[str, str]) -> dict[str, Any]:
        try:
            with ask(f"{url}?{urlencode(query)}", {}, self._headers) as answer:
                return _ngc_object(described(answer))
        except Interrupted as error:
            cause = error.__cause__
            if isinstance(cause, urllib.error.HTTPError) and cause.code == 412:
                raise Hopeless(
                    "NGC asks to accept the terms of the model first: open it in the catalog"
                ) from error
            raise

    def _token(self) -> dict[str, str]:
        account = base64.b64encode(f"$oauthtoken:{self._key}".encode()).decode()
        query = urlencode({"service": "ngc", "scope": self._scopes}, doseq=True)
        with ask(f"{NGC_TOKENS}?{query}", {}, {"Authorization": f"Basic {account}"}) as answer:
            return {"Authorization": f"Bearer {_ngc_object(described(answer))['token']}"}

    def files(self) -> tuple[list[File], str]:
        """Return the files, and what pins them."""
        found = sorted(self._files())
        if not found:
            raise Hopeless("the version has no files")
        pin = hashlib.sha256(repr(found).encode()).hexdigest()
        return [self._file(*each) for each in found], pin

    def _files(self) -> Iterator[tuple[str, int, str]]:
        """Yield the path, the size and the SHA-256 of each file."""
        count = page = 0
        while True:
            query = {"page-size": str(PER_PAGE), **({"page-number": str(page)} if page else {})}
            listed = patiently(functools.partial(self._ask, self._list, query))
            for entry in listed.get("modelFiles") or ():
                count += 1
                yield str(entry["path"]), int(entry["sizeInBytes"]), str(entry.get("sha256_base64") or "")
            page += 1
            if count > MOST_FILES or page > MOST_FILES:
                raise Hopeless(f"the version has more than {MOST_FILES} files")
            if page >= int((listed.get("paginationInfo") or {}).get("totalPages", 1)):
                return

    def _file(self, path: str, size: int, stored: str) -> File:
        try:
            wanted = base64.b64decode(stored, validate=True).hex()
        except binascii.Error:
            wanted = ""
        if len(wanted) != 64:
            raise Hopeless(
                f"NGC has no SHA-256 of {path[:255]!a}, which cannot be verified: use another source"
            )

        def from_offset(offset: int) -> http.client.HTTPResponse:
            [url] = self._ask(self._download, {"path": path})["urls"]
            if urlsplit(url).scheme != urlsplit(NGC).scheme:
                raise Hopeless(f"NGC names an address of {path[:255]!a} without HTTPS, which is not followed")
            return ask(url, {"Range": f"bytes={offset}-"} if offset else {})

        return File(
            path=safe(path), size=size, open=from_offset, checksum=lambda _answer: Checksum("sha256", wanted)
        )


def _ngc_object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Interrupted("NGC's answer is no JSON object")
    return found
