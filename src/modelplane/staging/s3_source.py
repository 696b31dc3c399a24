"""The objects of a bucket below a prefix (Amazon S3 API, ListObjectsV2 and GetObject).

Requests are signed as "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)"
says, and follow no redirect. The entity tags of the list pin the content: an object that changes meanwhile is
not taken. Its checksum is the one that S3 stores, or its entity tag where that is an MD5.
"""

import base64
import binascii
import datetime as dt
import functools
import hashlib
import hmac
import http.client
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode, urlsplit
from xml.etree import ElementTree as ET

from modelplane.staging.checksums import Checksum
from modelplane.staging.stage import File, safe
from modelplane.staging.web import STRICT, Hopeless, ask, described, patiently

MOST_OBJECTS = 10_000
NOTHING = hashlib.sha256().hexdigest()
KEY_ID, KEY, SESSION = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


def signature(
    method: str,
    url: str,
    region: str,
    secret: dict[str, str],
    now: dt.datetime,
    headers: dict[str, str],
) -> dict[str, str]:
    """Return headers, and those that sign them, for a URL whose path and query are canonical."""
    parts, stamp = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): value for name, value in headers.items()}
    signed |= {"host": parts.netloc, "x-amz-content-sha256": NOTHING, "x-amz-date": stamp}
    if secret.get(SESSION):
        signed["x-amz-security-token"] = secret[SESSION]
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    canonical = "\n".join([method, parts.path, parts.query, *lines, "", names, NOTHING])
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret[KEY]}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    final = hmac.new(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256").hexdigest()
    del signed["host"]
    credential = f"Credential={secret[KEY_ID]}/{scope}, SignedHeaders={names}, Signature={final}"
    return signed | {"Authorization": f"AWS4-HMAC-SHA256 {credential}"}


class Bucket:
    """A bucket at an endpoint, and the credentials for it; without any, requests are anonymous."""

    def __init__(self, source: dict[str, Any], secret: dict[str, str]) -> None:
        self._region = source["region"]
        endpoint = source.get("endpoint") or f"https://s3.{self._region}.amazonaws.com"
        self._url = f"{endpoint.rstrip('/')}/{source['bucket']}"
        self._prefix = f"{prefix}/" if (prefix := source.get("prefix", "").strip("/")) else ""
        self._secret = secret

    def _ask(
        self, key: str, query: dict[str, str], headers: dict[str, str] | None = None, method: str = "GET"
    ) -> http.client.HTTPResponse:
        url = f"{self._url}/{quote(key, safe='/-_.~')}" if key else self._url
        if query:
            url += "?" + urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
        sent = headers or {}
        if self._secret.get(KEY):
            now = dt.datetime.now(dt.timezone.utc)  # noqa: UP017  as other versions of Python read it
            sent = signature(method, url, self._region, self._secret, now, sent)
        return ask(url, {}, sent, method=method, web=STRICT)

    def files(self) -> tuple[list[File], str]:
        """Return the objects below the prefix, and what pins them."""
        found = sorted(self._objects())
        if not found:
            raise Hopeless(f"there is no object below {self._prefix!a} in the bucket")
        pin = hashlib.sha256(repr(found).encode()).hexdigest()
        return [self._file(*each) for each in found], pin

    def _objects(self) -> Iterator[tuple[str, int, str]]:
        """Yield the key, the size and the entity tag of each object."""
        query = {"list-type": "2", "prefix": self._prefix, "encoding-type": "url"}
        count = pages = 0
        while True:
            page = patiently(lambda: self._page(query))
            pages += 1
            for entry in page.iterfind("{*}Contents"):
                key = unquote_plus(entry.findtext("{*}Key", ""))
                if key.endswith("/"):
                    continue  # a folder, as consoles create it
                count += 1
                yield key, int(entry.findtext("{*}Size", "-1")), entry.findtext("{*}ETag", "").strip('"')
            if count > MOST_OBJECTS or pages > MOST_OBJECTS:
                raise Hopeless(f"there are more than {MOST_OBJECTS} objects below {self._prefix!a}")
            if page.findtext("{*}IsTruncated") != "true":
                return
            query["continuation-token"] = page.findtext("{*}NextContinuationToken", "")

    def _page(self, query: dict[str, str]) -> ET.Element:
        with self._ask("", query) as answer:
            body = described(answer)
        if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
            raise Hopeless("the list of objects is no plain XML")
        try:
            return ET.fromstring(body)  # noqa: S314  it has no entities
        except ET.ParseError as error:
            raise Hopeless(f"the list of objects is no XML: {error}") from error

    def _file(self, key: str, size: int, tag: str) -> File:
        if not key.startswith(self._prefix):
            raise Hopeless(f"the list has {key[:255]!a}, which is not below {self._prefix!a}")

        headers = {"If-Match": f'"{tag}"', "x-amz-checksum-mode": "ENABLED"}

        def from_offset(offset: int) -> http.client.HTTPResponse:
            return self._ask(key, {}, headers | ({"Range": f"bytes={offset}-"} if offset else {}))

        return File(
            path=safe(key.removeprefix(self._prefix)),
            size=size,
            open=from_offset,
            checksum=functools.partial(self._checksum, key, tag),
            describe=functools.partial(self._ask, key, {}, headers, method="HEAD"),
        )

    def _checksum(self, key: str, tag: str, answer: http.client.HTTPResponse) -> Checksum:
        """Return the checksum that S3 has of a whole object."""
        headers = answer.headers
        whole = headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT"
        for algorithm in ("sha256", "sha1", "crc32"):
            stored = headers.get(f"x-amz-checksum-{algorithm}", "")
            if stored and whole and "-" not in stored:
                hexadecimal = algorithm != "crc32"
                return Checksum(algorithm, _hexadecimal(stored) if hexadecimal else stored)
        encrypted = headers.get("x-amz-server-side-encryption", "AES256") != "AES256"
        if not encrypted and re.fullmatch("[0-9a-f]{32}", tag):
            return Checksum("md5", tag)
        if not encrypted and re.fullmatch("[0-9a-f]{32}-[0-9]{1,5}", tag):
            with self._ask(key, {"partNumber": "1"}, method="HEAD") as part:
                size = part.headers.get("Content-Length", "0")
            return Checksum("md5", tag, int(size))
        raise Hopeless(f"S3 has no checksum of {key[:255]!a}: upload it with --checksum-algorithm SHA256")


def _hexadecimal(stored: str) -> str:
    try:
        return base64.b64decode(stored, validate=True).hex()
    except binascii.Error:
        return stored
