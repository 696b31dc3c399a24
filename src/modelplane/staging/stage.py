"""The folder in which new content is put together, beside that of the volume, and how it takes its place.

A file gets its name once its checksum is right. The marker is JSON and names the content of the volume: it is
removed before the first file is put in place, and written after the last. Replaced files are moved aside, not
removed, so that engines can read the ones that they have open; the next change removes them.
"""

import concurrent.futures
import hashlib
import http.client
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from urllib.parse import quote

from modelplane.staging.checksums import Checksum
from modelplane.staging.web import DELAYS_S, LONGEST_DELAY_S, Damaged, Hopeless, Interrupted, ask

AT_ONCE = 8
MOST_FILES = 10_000
BLOCK = 1 << 20
GIB = 1 << 30
MIB = 1 << 20
STAGING = ".modelplane-staging"
FORMER = ".modelplane-former"
SLOWEST = (64 << 10, 60.0)
"""Bytes that must arrive within some seconds; else the connection is given up."""


def safe(name: str) -> Path:
    """Return a name as a path below a folder; raise ``Hopeless`` if it could be anywhere else."""
    parts = name.split("/")
    if not all(re.fullmatch(r"[^\x00-\x1f\x7f\\]{1,255}", part) and part.strip(".") for part in parts):
        raise Hopeless(f"{name[:255]!a} is no name for a file of the volume")
    if parts[0].startswith(".modelplane") or parts[0] in {".cache", "lost+found"} or len(name) > 1024:
        raise Hopeless(f"{name[:255]!a} is too long, or a name that the volume itself uses")
    return Path(*parts)


@dataclass(frozen=True)
class File:
    """A file of a source."""

    path: Path
    size: int
    """Its bytes; -1 if unknown."""
    open: Callable[[int], http.client.HTTPResponse]
    """Ask for it from an offset on."""
    checksum: Callable[[http.client.HTTPResponse], Checksum]
    """Return what its content must give."""
    describe: Callable[[], http.client.HTTPResponse] | None = None
    """Ask for the answer that has its checksum; None if the checksum is known without one."""
    packed: bool = False
    """Whether it is an archive, which no mirror has."""


class Stage:
    """The folder beside the volume's content in which the new content is put together."""

    def __init__(self, volume: Path, pin: str, limit: int, mirrors: Iterable[str] = ()) -> None:
        self.folder, self._parts = volume / STAGING / pin, volume / STAGING / f"{pin}.parts"
        self._mirrors = dict.fromkeys(mirrors)
        self._limit, self._used, self._lock = limit, 0, threading.Lock()
        kept = {self.folder, self._parts}
        staging = volume / STAGING
        for other in (volume / FORMER, *(each for each in _entries(staging) if each not in kept)):
            shutil.rmtree(other, ignore_errors=True)
        for each in kept:
            each.mkdir(parents=True, exist_ok=True)

    def spend(self, count: int) -> None:
        """Count bytes of the new content; raise ``Hopeless`` if they are more than the volume should hold."""
        with self._lock:
            if count > 0 and self._used + count > self._limit:
                size = self._limit / GIB
                raise Hopeless(f"the files are larger than sizeGiB, which is {size:.0f}: raise it")
            self._used += count

    def fetch(self, files: Iterable[File]) -> None:
        """Download files, some of them at once."""
        wanted: dict[Path, File] = {}
        for file in files:
            if wanted.setdefault(file.path, file) is not file:
                raise Hopeless(f"two files of the source have the name {str(file.path)!a}")
        known = sum(max(file.size, 0) for file in wanted.values())
        if known > self._limit:
            self.spend(known)
        pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
        running = [pool.submit(self._fetch, file) for file in wanted.values()]
        try:
            for count, done in enumerate(concurrent.futures.as_completed(running), 1):
                done.result()
                sys.stdout.write(f"{count} of {len(running)} files, {self._used // MIB} MiB\n")
                sys.stdout.flush()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def take(self, files: Iterable[File]) -> None:
        """Download what mirrors have, some of it at once."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._take, files))

    def _take(self, file: File) -> None:
        if not (self.folder / file.path).exists() and self._from_mirrors(file, self._part(file)):
            self._put(file)

    def _part(self, file: File) -> Path:
        return self._parts / hashlib.sha256(os.fsencode(file.path)).hexdigest()

    def _put(self, file: File) -> None:
        target = self.folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        self._part(file).replace(target)

    def _fetch(self, file: File) -> None:
        target = self.folder / file.path
        if target.exists():
            self.spend(target.stat().st_size)
            return
        if not self._from_mirrors(file, self._part(file)):
            self._from_source(file, self._part(file))
        self._put(file)

    def _from_mirrors(self, file: File, part: Path) -> bool:
        """Return True if a mirror had the file. A mirror that fails is not asked again."""
        for mirror in () if file.packed else tuple(self._mirrors):
            try:
                self._receive(mirrored(file, mirror), part)
            except (Hopeless, Interrupted) as error:
                self._mirrors.pop(mirror, None)
                sys.stdout.write(f"the mirror {mirror} is not used: {error}\n")
                if isinstance(error, Damaged):
                    part.unlink(missing_ok=True)
            else:
                return True
        return False

    def _from_source(self, file: File, part: Path) -> None:
        failures = damages = 0
        while True:
            before = _size(part)
            try:
                self._receive(file, part)
                break
            except Interrupted as error:
                damages += isinstance(error, Damaged)
                failures = 0 if _size(part) > before + BLOCK else failures + 1
                if isinstance(error, Damaged):
                    part.unlink(missing_ok=True)
                if damages > 1:
                    raise Hopeless(str(error)) from error
                if failures > len(DELAYS_S):
                    raise
                time.sleep(min(error.after_s or DELAYS_S[max(failures - 1, 0)], LONGEST_DELAY_S))

    def _receive(self, file: File, part: Path) -> None:
        """Complete a file of which a part may be there."""
        there = _size(part)
        with file.open(there) as answer:
            if there and answer.status != http.client.PARTIAL_CONTENT:
                there = 0
            elif there and not answer.headers.get("Content-Range", "").startswith(f"bytes {there}-"):
                raise Damaged(f"{file.path} was sent from another place than asked for")
            checksum = file.checksum(answer)
            announced = answer.headers.get("Content-Length", "")
            size = there + int(announced) if announced.isdecimal() else file.size
            if size > self._limit:
                self.spend(size)
            with part.open("r+b" if there else "wb") as written:
                self._keep(written, there, checksum)
                try:
                    for piece in pieces(answer):
                        self.spend(len(piece))
                        checksum.update(piece)
                        written.write(piece)
                except Exception:
                    self.spend(-written.tell())
                    raise
                count = written.tell()
                written.flush()
                os.fsync(written.fileno())
        whole = file.size if file.size >= 0 else size
        if (0 <= size > count) or (0 <= whole > count):
            self.spend(-count)
            raise Interrupted(f"{file.path} broke off after {count} of {max(size, whole)} bytes")
        if (found := checksum.result()) != checksum.wanted:
            self.spend(-count)
            raise Damaged(f"the checksum of {file.path} is {found}, and must be {checksum.wanted}")

    def _keep(self, written: IO[bytes], there: int, checksum: Checksum) -> None:
        """Count the part that is there, and go to its end."""
        left = there
        while left and (block := written.read(min(BLOCK, left))):
            checksum.update(block)
            left -= len(block)
        written.seek(there)
        written.truncate()
        self.spend(there)

    def staged(self) -> int:
        """Return the bytes that an attempt leaves to the next."""
        return sum(_size(path) for top in (self.folder, self._parts) for path in top.rglob("*"))


class Volume:
    """The volume, and what is in it."""

    def __init__(self, path: Path, marker: str) -> None:
        self.path, self._marker = path, path / marker

    def artifact(self) -> str:
        """Return the artifact that is staged; empty if none is."""
        try:
            return str(json.loads(self._marker.read_text())["artifact"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _files(self, folder: Path) -> list[Path]:
        own = {self._marker.name, STAGING, FORMER, ".cache", "lost+found"}
        every = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
        return sorted(path for path in every if path.parts[0] not in own)

    def _move(self, source: Path, target: Path) -> None:
        for path in self._files(source):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).replace(target / path)

    def replace(self, folder: Path, about: dict[str, str]) -> None:
        """Put new content in the place of the old, and write the marker."""
        self._marker.unlink(missing_ok=True)
        emptied = {parent for path in self._files(self.path) for parent in path.parents if parent.parts}
        self._move(self.path, self.path / FORMER)
        for parent in sorted(emptied, reverse=True):
            if not any((self.path / parent).iterdir()):
                (self.path / parent).rmdir()
        self._move(folder, self.path)
        shutil.rmtree(self.path / STAGING)
        written = self._marker.with_name(f"{self._marker.name}.new")
        written.write_text(json.dumps(about))
        written.replace(self._marker)


def mirrored(file: File, mirror: str) -> File:
    """Return a file as a mirror has it; only a SHA-256 of the source makes it the same."""
    url = f"{mirror.rstrip('/')}/{quote(file.path.as_posix())}"

    def checksum(answer: http.client.HTTPResponse) -> Checksum:
        if file.describe:
            answer = file.describe()
            answer.close()
        found = file.checksum(answer)
        if found.algorithm != "sha256":
            raise Hopeless(f"the source has no SHA-256 of {file.path}")
        return found

    def from_offset(offset: int) -> http.client.HTTPResponse:
        return ask(url, {"Range": f"bytes={offset}-"} if offset else {})

    return replace(file, open=from_offset, checksum=checksum)


def pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield content as it arrives; raise ``Interrupted`` if it breaks off, or comes too slowly."""
    least, window_s = SLOWEST
    began, got = time.monotonic(), 0
    while True:
        try:
            piece = answer.read1(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"a download broke off: {error}") from error
        if not piece:
            return
        yield piece
        got += len(piece)
        if time.monotonic() - began > window_s:
            if got < least:
                raise Interrupted(f"a download came with less than {least} bytes in {window_s:.0f} s")
            began, got = time.monotonic(), 0


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
