"""The helm program: its command lines, and its processes, one at a time on a cluster and few in all.

A process gets its kubeconfig in a private file, its values on standard input, and folders of its own, which
are removed with it. It reads nothing of the user's, runs no shell, and ends with the controller.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from modelplane.api.clouds.cluster_origin import KubeconfigSecret
from modelplane.compose.cluster.cluster_kubeconfig import KubeconfigReference
from modelplane.compose.gateway.installed_gateway import INSTALLER
from modelplane.controllers import fleet_resources
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.helm import die_with_parent
from modelplane.controllers.helm.helm_storage import Action, Step
from modelplane.controllers.helm.instruction import USUAL_WAIT_S, Instruction, ReleaseId
from modelplane.host.file_system import write_private
from modelplane.kube import kubeconfig_secret
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from modelplane.kube.resources import Object

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

OWN_INSTALLER = KubeconfigSecret(name=INSTALLER)
"""The Secret of Helm's kubeconfig for the control plane's own cluster."""


class HelmFailed(Exception):
    """A run of Helm failed; the message is Helm's own, without secrets."""


@dataclass(frozen=True, slots=True)
class Program:
    """The helm program."""

    line: tuple[str, ...] = ()
    """The program with its first arguments; empty if there is none."""
    folder: Path | None = None
    """Folder for what it downloads; None is that for temporary files."""


async def run_helm(
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


def arguments(
    step: Step, release: ReleaseId, instruction: Instruction | None, marks: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the arguments of a run, without those for the connection; ``marks`` are the release's labels."""
    match step.action:
        case Action.ROLL_BACK:
            return ("rollback", release.name, str(step.revision), *_common(release), "--wait=hookOnly")
        case Action.CLEAR:
            # Its hooks may be what was interrupted.
            return ("uninstall", release.name, "--no-hooks", *_uninstalling(release))
        case Action.UNINSTALL:
            return ("uninstall", release.name, *_uninstalling(release))
    if instruction is None:
        raise ValueError(f"{step.action} of {release} needs an instruction")
    return (
        "upgrade",
        release.name,
        instruction.chart,
        "--install",
        *_common(release, instruction.timeout_s),
        "--version",
        instruction.version,
        *(("--repo", instruction.repository) if instruction.repository else ()),
        "--values=-",
        "--reset-values",
        f"--wait={'watcher' if instruction.wait else 'hookOnly'}",
        f"--history-max={instruction.history}",
        "--labels",
        ",".join(f"{key}={value}" for key, value in marks.items()),
        *(("--create-namespace",) if instruction.create_namespace else ()),
        *(("--skip-crds",) if instruction.skip_crds else ()),
        *(("--force-conflicts",) if instruction.force_conflicts else ()),
        *(("--take-ownership",) if instruction.take_ownership else ()),
        *(("--plain-http",) if instruction.plain_http else ()),
    )


def _uninstalling(release: ReleaseId) -> tuple[str, ...]:
    # Until its objects are gone: the next one may be what they need.
    return (*_common(release), "--ignore-not-found", "--wait=watcher")


def _common(release: ReleaseId, timeout_s: int = USUAL_WAIT_S) -> tuple[str, ...]:
    return ("--namespace", release.namespace, f"--timeout={timeout_s}s")


class Host:
    """Runs Helm, a few processes at a time, and finds the kubeconfig to use."""

    def __init__(
        self,
        helm: Program,
        clusters: Clusters,
        secret: Callable[[str], Object | None],
        installer: Callable[[str], KubeconfigSecret | None],
        on_change: Callable[[str], None],
        fence: Fence | None = None,
    ) -> None:
        """``secret`` returns a Secret of the system's namespace, ``installer`` the Secret that an
        InferenceCluster names for Helm. ``on_change`` is called with the uid of an owner whose releases have
        changed.
        """
        self._helm = helm
        self._clusters = clusters
        self._installer = installer
        self._fence = fence
        self._turn = asyncio.Semaphore(AT_A_TIME)
        self.secret = secret
        self.changed = on_change

    def kubeconfig(self, cluster: str, installer: KubeconfigSecret | None) -> Mapping[str, Any]:
        """Return Helm's kubeconfig for a cluster. Raises ``ValueError`` with the cause if there is none.

        On the control plane's own cluster, empty, only the installer may: never the controllers' identity.
        """
        if not cluster:
            return self._read(OWN_INSTALLER)
        access = self._clusters.access(cluster)
        if access is None:
            raise ValueError(self._clusters.problem(cluster))
        named = installer or self._installer(cluster)
        return access.kubeconfig if named is None else self._read(named)

    def _read(self, named: KubeconfigSecret) -> Mapping[str, Any]:
        where = str(KubeconfigReference(named.name, named.key))
        content = kubeconfig_secret.read_content(self.secret(named.name), named.key, where)
        return kubeconfig_secret.parse_kubeconfig(content, named.key, where)

    def client(self, kubeconfig: Mapping[str, Any]) -> Client:
        """Return a client for a kubeconfig."""
        return Client.from_kubeconfig(kubeconfig, fence=self._fence, known=fleet_resources.find_known)

    async def run(
        self,
        line: tuple[str, ...],
        kubeconfig: Mapping[str, Any],
        values: Mapping[str, Any],
        limit_s: float,
    ) -> None:
        """Run Helm in its turn; raise ``HelmFailed``."""
        if not self._helm.line:
            raise HelmFailed(
                "the helm program was not found: set MODELPLANE_KUBERNETES_BINARY to the local control "
                "plane's binary, which includes Helm, or install Helm 4 on PATH"
            )
        async with self._turn:
            if self._fence and (why := self._fence()):
                raise HelmFailed(why)
            await run_helm(self._helm, line, kubeconfig, values, limit_s=limit_s)
