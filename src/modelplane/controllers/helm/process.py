"""Processes of the helm program: one at a time on a cluster, and a few at a time in all.

A process gets its kubeconfig in a private file, its values on standard input, and folders of its own, which
are removed with it. It reads nothing of the user's, runs no shell, and ends with the controller.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from modelplane.controllers.helm import die_with_parent
from modelplane.host.file_system import write_private

AT_A_TIME: Final = 8
"""Processes of Helm in one controller; one takes up to 100 MB of memory."""

_GRACE_S = 120.0
"""Time for reading a chart and for changing objects, beyond what Helm waits for each."""
_ENDS_S = 5.0
_LONGEST_OUTPUT = 64 * 1024
_PASSED_ON = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)


class HelmFailed(Exception):
    """A run of Helm failed; the message is Helm's own, without secrets."""


@dataclass(frozen=True, slots=True)
class Program:
    """The helm program."""

    line: tuple[str, ...] = ()
    """The program with its first arguments; empty if there is none."""
    folder: Path | None = None
    """Folder for what it downloads; None is that for temporary files."""


async def run(
    helm: Program,
    arguments: Sequence[str],
    kubeconfig: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    limit_s: float,
) -> None:
    """Run Helm to its end; raise ``HelmFailed`` if it does not succeed, or takes longer than ``limit_s``."""
    with _folder(None) as private, _folder(helm.folder) as home:
        write_private(Path(private) / "kubeconfig", json.dumps(kubeconfig))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())),
            *helm.line,
            *arguments,
            env=_environment(Path(private), Path(home)),
            cwd="/",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(limit_s + _GRACE_S):
                output = await _talk(process, json.dumps(values).encode())
                await process.wait()
        except TimeoutError:
            raise HelmFailed(f"it did not end in {limit_s + _GRACE_S:.0f} s and was stopped") from None
        finally:
            await _end(process)
    if process.returncode:
        raise HelmFailed(_error(output, process.returncode))


def _folder(above: Path | None) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="modelplane-helm-", dir=above, ignore_cleanup_errors=True)


def _environment(private: Path, home: Path) -> dict[str, str]:
    """Return the environment: private folders, and the proxies and certificates of this process."""
    own = {
        "HOME": str(home),
        "KUBECONFIG": str(private / "kubeconfig"),
        "KUBECACHEDIR": str(home / "kube"),
        "HELM_CACHE_HOME": str(home / "cache"),
        "HELM_CONFIG_HOME": str(home / "config"),
        "HELM_DATA_HOME": str(home / "data"),
        "HELM_DRIVER": "secret",
        "TMPDIR": str(home),
    }
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | own


async def _talk(process: asyncio.subprocess.Process, values: bytes) -> bytes:
    """Write the values, and return the end of what the process prints."""
    stdin, stderr = process.stdin, process.stderr
    if stdin is None or stderr is None:
        raise RuntimeError("a process without pipes")
    reading = asyncio.ensure_future(_last_of(stderr))
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(values)
        await stdin.drain()
    stdin.close()
    return await reading


async def _last_of(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while data := await stream.read(65536):
        kept = (kept + data)[-_LONGEST_OUTPUT:]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that still runs: Helm records what it was about if it is asked to stop."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_ENDS_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _error(output: bytes, code: int) -> str:
    """Return Helm's error, from what it printed; warnings of the log come before."""
    text = output.decode(errors="replace").strip()
    start = text.rfind("Error: ")
    if start >= 0:
        return text[start + len("Error: ") :]
    ended = f"it was killed by signal {-code}" if code < 0 else f"it ended with status {code}"
    return f"{ended}: {text[-500:]}" if text else ended
