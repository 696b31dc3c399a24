"""Pulls of a pod's image (Kubernetes, "Images").

Pull secrets are in files that only their owner can read, and only during the pull.
"""

import base64
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.host.file_system import write_private
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.pods.views import Waiting
from modelplane.kubelet.runtime.container_cli import ContainerRuntime, ContainerRuntimeError, NoSuchObject
from modelplane.kubelet.runtime.protocol import Tell

_FIRST_BACK_OFF_S = 10.0
_LAST_BACK_OFF_S = 300.0
_SECRET_KEYS = (".dockerconfigjson", ".dockercfg")
_LAYER = re.compile(r"([0-9a-f]{12}): (.*)")
"""A line about a layer, as Docker writes it; other container runtimes print less."""


def expand_name(image: str) -> str:
    """Return the name of an image with its registry, as Kubernetes completes it."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


@dataclass(slots=True)
class Pulls:
    """The pulls of one pod's image, with their back-off."""

    client: Client
    namespace: str
    directory: Path
    """Directory for the credentials, during a pull."""
    _next_at: float = 0.0
    _back_off_s: float = _FIRST_BACK_OFF_S
    _failed: str = ""

    async def get(
        self, runtime: ContainerRuntime, pod: Mapping[str, Any], remedy: str, tell: Tell
    ) -> dict[str, Any]:
        """Return the description of the pod's image, pulled if necessary; raise ``CannotStart``.

        ``remedy`` ends the message if it cannot be pulled.
        """
        container = pod["spec"]["containers"][0]
        image = expand_name(container["image"])
        policy = container.get("imagePullPolicy", "IfNotPresent")
        if policy != "Always":
            try:
                return await runtime.find_image(image)
            except NoSuchObject:
                pass
        if policy == "Never":
            fault = f'{runtime.name} does not have image "{image}", and imagePullPolicy is Never'
            remedy = "pull the image by hand, or change the policy"
            raise CannotStart(Rejected(WaitingReason.IMAGE_NEVER_PULLED, detail=fault, remedy=remedy))
        await self._pull(runtime, image, pod, remedy, tell)
        return await runtime.find_image(image)

    async def _pull(
        self,
        runtime: ContainerRuntime,
        image: str,
        pod: Mapping[str, Any],
        remedy: str,
        tell: Tell,
    ) -> None:
        if time.monotonic() < self._next_at:
            fault = f"waiting before the next attempt: {self._failed}"
            raise CannotStart(Rejected(WaitingReason.IMAGE_PULL_BACK_OFF, detail=fault))
        tell(Waiting(WaitingReason.PULLING, f'{runtime.name} is pulling image "{image}"'))
        try:
            names = [entry["name"] for entry in pod["spec"].get("imagePullSecrets", ())]
            secrets = [await self.client.get(resources.SECRETS, name, self.namespace) for name in names]
            # As in Kubernetes, missing secrets are ignored: the image may not need them.
            with write_credentials(
                self.directory, tuple(secret for secret in secrets if secret is not None)
            ) as variables:
                await _pull(runtime, image, variables, tell)
        except ContainerRuntimeError as error:
            self._failed = f'cannot pull image "{image}": {error}{remedy}'
            self._next_at = time.monotonic() + self._back_off_s
            self._back_off_s = min(self._back_off_s * 2, _LAST_BACK_OFF_S)
            raise CannotStart(Rejected(WaitingReason.IMAGE_NOT_PULLED, detail=self._failed)) from error
        self._back_off_s = _FIRST_BACK_OFF_S


async def _pull(runtime: ContainerRuntime, image: str, variables: Mapping[str, str], tell: Tell) -> None:
    layers: set[str] = set()
    done: set[str] = set()
    unfinished = ""
    async for data in runtime.stream("pull", image, variables=variables):
        *lines, unfinished = (unfinished + data.decode(errors="replace")).split("\n")
        before = len(done)
        for line in lines:
            if match := _LAYER.match(line):
                layers.add(match[1])
                if match[2] in {"Pull complete", "Already exists"}:
                    done.add(match[1])
        if len(done) != before:
            progress = f"{len(done)} of {len(layers)} layers"
            tell(Waiting(WaitingReason.PULLING, f'{runtime.name} is pulling image "{image}": {progress}'))


def merge_credentials(secrets: Iterable[Object]) -> dict[str, Any]:
    """Return the credentials of pull secrets by registry; the first secret wins."""
    credentials: dict[str, Any] = {}
    for secret in secrets:
        data = secret.get("data") or {}
        for key in _SECRET_KEYS:
            if key not in data:
                continue
            try:
                held = json.loads(base64.b64decode(data[key]))
                held = held.get("auths", {}) if key == _SECRET_KEYS[0] else held
                credentials = {**held, **credentials}
            except (ValueError, AttributeError, TypeError):
                raise ContainerRuntimeError(
                    f'the pull secret "{secret["metadata"]["name"]}" is not a Docker configuration'
                ) from None
    return credentials


@contextmanager
def write_credentials(directory: Path, secrets: Iterable[Object]) -> Iterator[dict[str, str]]:
    """Provide credentials in files, and the variables by which a container runtime's program finds them."""
    auths = merge_credentials(secrets)
    if not auths:
        yield {}
        return
    shutil.rmtree(directory, ignore_errors=True)  # of an agent that was killed
    directory.mkdir(mode=0o700, parents=True)
    try:
        user = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
        configuration: dict[str, Any] = {"auths": auths}
        # The same directory holds the address of the daemon.
        if context := _configured(user).get("currentContext"):
            configuration["currentContext"] = context
            (directory / "contexts").symlink_to(user / "contexts")
        write_private(directory / "config.json", json.dumps(configuration))
        yield {"DOCKER_CONFIG": str(directory), "REGISTRY_AUTH_FILE": str(directory / "config.json")}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _configured(directory: Path) -> dict[str, Any]:
    try:
        configuration = json.loads((directory / "config.json").read_text())
    except (OSError, ValueError):
        return {}
    return configuration if isinstance(configuration, dict) else {}
