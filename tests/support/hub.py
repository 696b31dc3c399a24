"""A Hugging Face hub on loopback, as the ``huggingface_hub`` library speaks with the real one.

Repositories have commits, branches and gates; small files are plain, large ones are redirected to another
server's path ("LFS"), with ranges. It answers after a delay, and can cut a connection once.
"""

import functools
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_LARGE = 100_000
_BLOCK = 1 << 20
_API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<what>revision|tree)/(?P<revision>[^/]+))?")
_RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_CONTENT = re.compile(r"/content/(?P<sha>[0-9a-f]{64})")


@dataclass(frozen=True)
class Repo:
    """One repository at its one commit."""

    name: str
    files: Mapping[str, Path]
    """Where the content of each of its files is."""
    token: str = ""
    """Who is let in; everybody, where the file is empty."""

    @property
    def commit(self) -> str:
        return _sha1(json.dumps(sorted(self.files)).encode())

    def has(self, revision: str) -> bool:
        return revision in {"main", self.commit}


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    range: str
    agent: str


@dataclass
class Hub:
    """What the hub has, what it was asked, and how it behaves."""

    repos: dict[str, Repo] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    delay_s: float = 0.01
    cut_after: int = 0
    """After how many bytes of a large file the next connection is cut, once; 0 for never."""
    bytes_per_s: float = 0
    """How fast a connection carries a large file; 0 for as fast as it can."""
    fails: list[int] = field(default_factory=list)
    """Statuses of the next requests for parts of large files; 0 cuts the connection."""
    fails_whole: list[int] = field(default_factory=list)
    """The same for whole files."""
    away: bool = False
    """Whether it answers that it is overloaded."""
    per_page: int = 2
    """How many files a page of a list has."""
    url: str = ""
    content_url: str = ""

    def add(self, name: str, files: Mapping[str, Path], token: str = "") -> Repo:
        self.repos[name] = Repo(name, files, token)
        return self.repos[name]


@contextmanager
def serve() -> Iterator[Hub]:
    """Run a hub."""
    hub = Hub()

    handler = type("Handler", (_Handler,), {"hub": hub})
    # Large files come from another host, which the library tells from the hub itself.
    addresses = ("127.0.0.1", "127.0.0.2")
    servers = [ThreadingHTTPServer((address, 0), handler) for address in addresses]
    hub.url, hub.content_url = (
        f"http://{address}:{each.server_port}" for address, each in zip(addresses, servers, strict=True)
    )
    threads = [threading.Thread(target=each.serve_forever) for each in servers]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@functools.cache
def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _blob(path: Path) -> str:
    """Return git's name of a file's content."""
    content = path.read_bytes()
    return _sha1(b"blob %d\0" % len(content) + content)


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        time.sleep(self.hub.delay_s)
        url = urlsplit(self.path)
        headers = self.headers
        self.hub.asked.append(
            Asked(self.command, url.path, headers.get("Range", ""), headers.get("User-Agent", ""))
        )
        if self.hub.away:
            self._send(503, b"overloaded")
        elif found := _API.fullmatch(url.path):
            self._describe(found, parse_qs(url.query))
        elif found := _CONTENT.fullmatch(url.path):
            self._send_or_fail(found["sha"])
        elif found := _RESOLVE.fullmatch(url.path):
            self._resolve(found)
        else:
            self._send(404, b"")

    def _repo(self, name: str, revision: str) -> Repo | None:
        """Return a repository; None after the refusal was sent."""
        repo = self.hub.repos.get(name)
        if repo is None:
            self._refuse(404 if "Authorization" in self.headers else 401, "RepoNotFound")
        elif not repo.has(revision):
            self._refuse(404, "RevisionNotFound")
        else:
            return repo
        return None

    def _describe(self, found: re.Match[str], query: Mapping[str, list[str]]) -> None:
        repo = self._repo(found["repo"], unquote(found["revision"] or "main"))
        if repo is None:
            return
        if found["what"] == "tree":
            self._list(repo, int(query.get("cursor", ["0"])[0]))
            return
        about = {
            "_id": repo.commit[:24],
            "id": repo.name,
            "modelId": repo.name,
            "sha": repo.commit,
            "private": False,
            "gated": "manual" if repo.token else False,
            "siblings": [{"rfilename": path, "size": at.stat().st_size} for path, at in repo.files.items()],
        }
        self._send(200, json.dumps(about).encode())

    def _list(self, repo: Repo, start: int) -> None:
        entries = []
        for path in sorted(repo.files)[start : start + self.hub.per_page]:
            size = repo.files[path].stat().st_size
            entry: dict[str, Any] = {"type": "file", "path": path, "size": size}
            if size >= _LARGE:
                sha = _sha256(repo.files[path])
                # What git has is a pointer to it.
                entry |= {"oid": _sha1(sha.encode()), "lfs": {"oid": sha, "size": size, "pointerSize": 134}}
            else:
                entry["oid"] = _blob(repo.files[path])
            entries.append(entry)
        more, end = {}, start + self.hub.per_page
        if end < len(repo.files):
            tree = f"{self.hub.url}/api/models/{repo.name}/tree/{repo.commit}"
            more = {"Link": f'<{tree}?recursive=True&expand=False&cursor={end}>; rel="next"'}
        self._send(200, json.dumps(entries).encode(), more)

    def _resolve(self, found: re.Match[str]) -> None:
        repo = self._repo(found["repo"], unquote(found["revision"]))
        if repo is None:
            return
        given = self.headers.get("Authorization", "")
        if repo.token and given != f"Bearer {repo.token}":
            self._refuse(403 if given else 401, "GatedRepo")
            return
        file = repo.files.get(unquote(found["path"]))
        if file is None:
            self._refuse(404, "EntryNotFound")
        elif file.stat().st_size < _LARGE:
            headers = {"X-Repo-Commit": repo.commit, "ETag": f'"{_blob(file)}"', "Accept-Ranges": "bytes"}
            self._send(200, file.read_bytes(), headers)
        else:
            sha = _sha256(file)
            linked = {"X-Linked-Etag": f'"{sha}"', "X-Linked-Size": str(file.stat().st_size)}
            place = {"X-Repo-Commit": repo.commit, "Location": f"{self.hub.content_url}/content/{sha}"}
            self._send(302, b"", place | linked)

    def _send_or_fail(self, sha: str) -> None:
        hub = self.hub
        fails = hub.fails if "Range" in self.headers else hub.fails_whole
        if not fails:
            self._send_content(sha)
        elif status := fails.pop(0):
            self._send(status, b"not now")
        else:
            hub.cut_after = 1_000
            self._send_content(sha)

    def _send_content(self, sha: str) -> None:
        files = (file for repo in self.hub.repos.values() for file in repo.files.values())
        path = next(file for file in files if file.stat().st_size >= _LARGE and _sha256(file) == sha)
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        stop = min(int(asked[2]) + 1, size) if asked and asked[2] else size
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{sha}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(stop - start))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()
        if self.command == "HEAD":
            return
        cut, self.hub.cut_after = self.hub.cut_after, 0
        end = start + cut if cut else stop
        began = time.monotonic()
        with path.open("rb") as file:
            file.seek(start)
            while (here := file.tell()) < end:
                self.wfile.write(file.read(min(_BLOCK, end - here)))
                if self.hub.bytes_per_s:
                    due = began + (file.tell() - start) / self.hub.bytes_per_s
                    time.sleep(max(due - time.monotonic(), 0))
        # Less than was announced: the other side sees a connection that broke.
        self.close_connection = end < stop

    def _refuse(self, code: int, why: str) -> None:
        self._send(code, b"{}", {"X-Error-Code": why, "X-Error-Message": why})

    def _send(self, code: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
