"""Changes of a gateway's keys, routes, certificates and models, one after another, while clients ask."""

import asyncio
import hashlib
import itertools
import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile, NamespaceEntry
from modelplane.gateway.module_files.models import AliasEntry, ModelFile, ServiceEntry
from modelplane.gateway.route_table import Backend, Certificate, Front, Listener, Route, Table, Tls
from modelplane.proxy import envoy_directory
from support.certificates import server_pair
from support.envoys import LOCAL
from support.patience import PATIENCE_S
from support.soak_load import HOST, Load, trusting

OPERATOR = "sk-operator"
"""Key of the requests that find out what is in force; never revoked."""

STREAMS = 24
"""Limit of the concurrent streams of the key that is never revoked, more than the clients make."""

STEADY = "sk-steady"

_CONNECTIONS = 4
"""Number of new connections on which a change has to be in force; each may meet another worker."""

_LEAST_TEMPORARY = 3


@dataclass(slots=True)
class Churn:
    """The configuration of a gateway, and its changes."""

    directory: Path
    port: int
    engines: list[int]
    load: Load
    changes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    """Longest time from the write of a change until it was in force."""
    certificates: set[bytes] = field(default_factory=set)
    """Certificates that were seen on new connections."""
    _trust: ssl.SSLContext = field(init=False)
    _temporary: list[str] = field(default_factory=list)
    _extra: list[str] = field(default_factory=list)
    _aliases: list[str] = field(default_factory=list)
    _serving: list[int] = field(default_factory=list)
    _weights: list[int] = field(default_factory=list)
    _certificate: Certificate | None = None
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _draw: random.Random = field(default_factory=lambda: random.Random(20261124))  # noqa: S311 - a load

    def __post_init__(self) -> None:
        self._trust = trusting(self.load.authority)

    async def begin(self) -> None:
        """Bring the first configuration into force."""
        self._serving, self._weights = self.engines[:], [1] * len(self.engines)
        self._certify()
        await self._apply()

    async def run(self, pause_s: float) -> None:
        """Make one change after another, each kind in turn, until the load is over."""
        steps: tuple[Callable[[], Coroutine[None, None, None]], ...] = (
            self._add_key,
            self._exchange_backends,
            self._add_route,
            self._rotate_certificate,
            self._add_alias,
            self._revoke_key,
            self._exchange_backends,
            self._remove_route,
            self._rotate_certificate,
            self._remove_alias,
        )
        for step in itertools.cycle(steps):
            if self.load.over.is_set():
                return
            await step()
            self.changes[step.__name__.removeprefix("_").replace("_", " ")] += 1
            await asyncio.sleep(pause_s)

    async def _add_key(self) -> None:
        key = f"sk-temporary-{next(self._numbers)}"
        self._temporary.append(key)
        await self._apply()
        await self._until(key, "/ml/steady/v1/models", {200})
        self.load.keys.names.append(key)

    async def _revoke_key(self) -> None:
        """Revoke a key that clients use at this moment."""
        if len(self._temporary) < _LEAST_TEMPORARY:
            return
        key = self._temporary.pop(0)
        self.load.revoked.add(key)
        await self._apply()
        await self._until(key, "/ml/steady/v1/models", {401})
        await self.load.keys.retire(key)
        self.load.revoked.discard(key)

    async def _exchange_backends(self) -> None:
        self._serving = self._draw.sample(self.engines, self._draw.randint(1, len(self.engines)))
        self._weights = [self._draw.randint(1, 9) for _ in self._serving]
        await self._apply()

    async def _add_route(self) -> None:
        name = f"ml/extra-{next(self._numbers)}"
        self._extra.append(name)
        await self._apply()
        self.load.paths.names.append(name)
        self.load.models.names.append(name)

    async def _remove_route(self) -> None:
        if len(self._extra) > 1:
            name = self._extra[0]
            await asyncio.gather(self.load.paths.retire(name), self.load.models.retire(name))
            self._extra.remove(name)
            await self._apply()

    async def _add_alias(self) -> None:
        alias = f"alias-{next(self._numbers)}"
        self._aliases.append(alias)
        await self._apply()
        await self._until(OPERATOR, f"/v1/models/{alias}", {200})
        self.load.models.names.append(alias)

    async def _remove_alias(self) -> None:
        if len(self._aliases) > 1:
            alias = self._aliases[0]
            await self.load.models.retire(alias)
            self._aliases.remove(alias)
            await self._apply()

    async def _rotate_certificate(self) -> None:
        self._certify()
        await self._apply()

    def _certify(self) -> None:
        self._certificate = Certificate("front", *server_pair(self.directory, HOST))

    def _listener(self, mark: str) -> Listener:
        exchanged = tuple(
            self._backend(f"ml/engine-{port}", port, weight)
            for port, weight in zip(self._serving, self._weights, strict=True)
        )
        steady = self._backend("ml/steady", self.engines[0])
        names = ["ml/steady", "ml/exchanged", *self._extra]
        routes = [
            Route("ml/steady", "/ml/steady/", (steady,)),
            Route("ml/exchanged", "/ml/exchanged/", exchanged),
        ]
        # Each has a backend of its own, and so a cluster that comes and goes.
        routes += [Route(name, f"/{name}/", (self._backend(name, self.engines[-1]),)) for name in self._extra]
        assert self._certificate is not None
        return Listener(
            "front-door",
            "127.0.0.1",
            self.port,
            (*routes, Route("settled", f"/settled/{mark}/")),
            LOCAL,
            Front(self._keys(), self._models(names)),
            Tls((self._certificate,)),
            envoy_directory.USAGE_LOG,
        )

    def _backend(self, name: str, port: int, weight: int = 1) -> Backend:
        return Backend(name, (("127.0.0.1", port),), weight, "/")

    def _keys(self) -> KeyFile:
        names = (OPERATOR, STEADY, *self._temporary)
        entries = tuple(
            KeyEntry(
                sha256=hashlib.sha256(key.encode()).hexdigest(),
                id=f"ml/{key}",
                namespace="ml",
                services=("*",),
                streams=STREAMS if key == STEADY else None,
                requests_per_minute=10**9,
                tokens_per_minute=10**12,
            )
            for key in names
        )
        grant = NamespaceEntry(services=("*",), requests_per_minute=10**9, tokens_per_minute=10**12)
        return KeyFile(keys=entries, namespaces={"ml": grant})

    def _models(self, names: list[str]) -> ModelFile:
        return ModelFile(
            services=tuple(ServiceEntry(name=name, created=0) for name in names),
            aliases=tuple(
                AliasEntry(name=name, service="ml/exchanged", namespaces=("ml",)) for name in self._aliases
            ),
        )

    async def _apply(self) -> None:
        """Write the configuration and wait until it is in force."""
        mark = str(next(self._numbers))
        began = time.monotonic()
        envoy_directory.write(self.directory, render_files(Table((self._listener(mark),))))
        await self._until(OPERATOR, f"/settled/{mark}/x", {503})
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        # Another worker may be a moment behind.
        await asyncio.sleep(0.1)

    async def _until(self, key: str, path: str, statuses: set[int]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await self._seen(key, path) != statuses:
                await asyncio.sleep(0.02)

    async def _seen(self, key: str, path: str) -> set[int]:
        """Return the statuses of an answer on new connections, and keep their certificates in mind."""
        statuses = set()
        for _ in range(_CONNECTIONS):
            try:
                statuses.add(await self._status(key, path))
            except (OSError, ssl.SSLError):
                statuses.add(0)
        return statuses

    async def _status(self, key: str, path: str) -> int:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self._trust, server_hostname=HOST
        )
        try:
            self.certificates.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            request = f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n"
            writer.write(request.encode())
            line = await reader.readline()
            return int(line.split()[1]) if line else 0
        finally:
            writer.close()
