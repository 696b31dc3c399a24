"""Connections to all inference clusters, and the kubeconfigs that they use."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from modelplane.compose.cluster.cluster_facts import Credential
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.guards import recorded
from modelplane.controllers import fleet_resources
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.watch_health import LOST_S
from modelplane.controllers.clusters.watches import Changed
from modelplane.kube import errors, kubeconfig_secret, timestamps
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from modelplane.kube.kubeconfig_secret import Claims, decode_claims
from modelplane.kube.resources import Object
from modelplane.telemetry.traces import make_fields

_log = logging.getLogger(__name__)

_OPENED_AT_A_TIME = 16
_TURN_S = 1.0
"""Clusters that are first read at a time, and the time that one may delay the others."""


@dataclass(frozen=True, slots=True)
class Supplied:
    """A token from elsewhere, for a kubeconfig without a credential."""

    token: str = field(default="", repr=False)
    """Empty if there is none."""
    problem: str = ""
    """The reason for which there is none, although the kubeconfig needs one; empty otherwise."""


@dataclass(frozen=True, slots=True)
class Access:
    """A kubeconfig from a Secret."""

    key: str
    where: str
    """The Secret as messages name it."""
    content: bytes = field(repr=False)
    kubeconfig: Mapping[str, Any] = field(repr=False)
    """Its current context."""
    claims: Claims | None
    """The claims of its token; None if it has none, or if it is renewed elsewhere."""

    supplied: Supplied = Supplied()
    """The token to use if the kubeconfig has no credential."""

    @classmethod
    def of(
        cls,
        content: bytes,
        key: str,
        where: str,
        *,
        supplied: Supplied = Supplied(),
        is_renewed: bool = False,
    ) -> Self:
        """Read a kubeconfig. Raises ``ValueError`` for one that is not accepted.

        ``is_renewed`` tells that a provider renews the token: its claims are then not read.
        """
        kubeconfig = kubeconfig_secret.parse_kubeconfig(content, key, where)
        if kubeconfig_secret.has_credential(kubeconfig):
            claims = None if is_renewed else decode_claims(kubeconfig_secret.find_token(kubeconfig))
            return cls(key, where, content, kubeconfig, claims, supplied)
        if supplied.problem:
            raise ValueError(supplied.problem)
        if supplied.token:
            kubeconfig = kubeconfig_secret.replace_token(kubeconfig, supplied.token)
        return cls(key, where, content, kubeconfig, None, supplied)

    @property
    def token(self) -> str:
        """The token; empty if it has none."""
        return kubeconfig_secret.find_token(self.kubeconfig)

    def differs_in_token_only(self, other: "Access") -> bool:
        """Return True if another access has a token too, and is the same otherwise."""
        same = (self.key, self.where) == (other.key, other.where) and self.token and other.token
        return bool(same) and self.kubeconfig == kubeconfig_secret.replace_token(other.kubeconfig, self.token)

    def with_token(self, token: str) -> bytes:
        """Return its text with another token. Raises ``ValueError`` if that is not possible."""
        return kubeconfig_secret.rewrite_token(self.content, token, self.key, self.where)


class Clusters:
    """The connection to each inference cluster."""

    def __init__(
        self,
        on_change: Changed,
        on_problem: Callable[[str], None],
        fence: Fence | None = None,
        *,
        routes: bool = False,
    ) -> None:
        """``on_problem`` is called with a cluster's name when its problem changes."""
        self._routes = routes
        self._on_change = on_change
        self._on_problem = on_problem
        self._fence = fence
        self._connections: dict[str, Connection] = {}
        self._accesses: dict[str, Access] = {}
        self._problems: dict[str, str] = {}
        self._without: dict[str, float] = {}
        """Time at which the wait for each cluster without a connection started, on the event loop's clock."""
        self._expiring: dict[str, str | None] = {}
        self._installers: dict[str, str | None] = {}
        self._turn = asyncio.Semaphore(_OPENED_AT_A_TIME)
        self._opening: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._connections.values()))

    def get(self, name: str) -> Connection | None:
        """Return a cluster's connection; None if there is none."""
        return self._connections.get(name)

    def recorded(self, owner: Mapping[str, Any]) -> tuple[Connection, ...]:
        """Return the connections to the clusters that an owner's status records."""
        return tuple(self._connections[name] for name in recorded(owner) if name in self._connections)

    def problem(self, name: str) -> str | None:
        """Return the cause if a cluster cannot be observed; None if it can."""
        connection = self._connections.get(name)
        if connection is None:
            return self._explain_absence(name)
        return connection.problem

    def _explain_absence(self, name: str) -> str:
        return self._problems.get(name, f'InferenceCluster "{name}" does not exist')

    def kubeconfig_problem(self, name: str) -> str | None:
        """Return why a cluster's kubeconfig cannot be used; None if it can.

        A connection may still be there, by an earlier kubeconfig.
        """
        return self._problems.get(name)

    def access(self, name: str) -> Access | None:
        """Return the kubeconfig that a cluster's connection uses; None if there is no connection."""
        return self._accesses.get(name)

    def credential(self, name: str) -> Credential | None:
        """Return a cluster's credential if it is known to expire."""
        access = self._accesses.get(name)
        lifetime = access.claims.lifetime if access and access.claims else None
        installer = self._installers.get(name) or ""
        if lifetime is None:
            return Credential("", installer=installer) if installer else None
        return Credential(timestamps.format_at(lifetime.expires), self._expiring.get(name) or "", installer)

    def start_waiting(self, name: str) -> None:
        """Start the minutes after which a cluster without a connection is lost, unless they have started.

        Nothing is remembered of an earlier process: the minutes start again with each.
        """
        if name not in self._connections:
            self._without.setdefault(name, asyncio.get_running_loop().time())

    def find_loss(self, name: str) -> str | None:
        """Return the cause if a cluster has been silent, or waited for, for minutes; else None."""
        if connection := self._connections.get(name):
            return connection.loss
        now = asyncio.get_running_loop().time()
        return self.problem(name) if now - self._without.get(name, now) > LOST_S else None

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the objects that a requirement names on its cluster, or the cause if they are unknown."""
        connection = self._connections.get(requirement.cluster)
        if connection is None:
            return Unknown(self._explain_absence(requirement.cluster))
        return connection.find(requirement)

    def connect(
        self,
        name: str,
        secret: Mapping[str, Any] | None,
        key: str,
        where: str,
        *,
        supplied: Supplied = Supplied(),
        is_renewed: bool = False,
    ) -> None:
        """Connect to a cluster with the kubeconfig that a Secret holds; ``where`` names it in messages.

        ``supplied`` is the token for a kubeconfig without a credential. ``is_renewed`` tells that the
        provider of the cluster's cloud renews the token of the kubeconfig.
        """
        try:
            content = kubeconfig_secret.read_content(secret, key, where)
            known = self._accesses.get(name)
            if known is not None and (known.content, known.supplied) == (content, supplied):
                if self._problems.pop(name, ""):
                    self._on_problem(name)
                return
            access = Access.of(content, key, where, supplied=supplied, is_renewed=is_renewed)
            connection = self._connections.get(name)
            # A connection with a problem is made anew, so that a new token is used at once.
            if connection and known and not connection.problem and access.differs_in_token_only(known):
                self._hand_over(connection, access)
            else:
                self._connect(name, access)
        except ValueError as error:
            # A present connection stays: a Secret may be half-written.
            self.report(name, str(error))

    def _connect(self, name: str, access: Access) -> None:
        client = Client.from_kubeconfig(
            access.kubeconfig, fence=self._fence, known=fleet_resources.find_known
        )
        self.disconnect(name)
        self._accesses[name] = access
        connection = Connection(
            name, client, self._on_change, self._on_problem, routes=self._routes, credential=access.where
        )
        self._connections[name] = connection
        self._without.pop(name, None)
        _keep(asyncio.create_task(self._open(connection)), self._opening)
        _log.info("connected to cluster %s", name, extra=make_fields(cluster=name))

    def _hand_over(self, connection: Connection, access: Access) -> None:
        """Give a new token to a connection, which keeps its copies and its open watches."""
        name = connection.name
        self._accesses[name] = access
        self._problems.pop(name, None)
        self._expiring.pop(name, None)
        connection.client.use_token(access.token)
        self._on_problem(name)
        _keep(asyncio.create_task(self._check(connection, access)), self._opening)
        _log.info("cluster %s: a new token is in use", name, extra=make_fields(cluster=name))

    async def _check(self, connection: Connection, access: Access) -> None:
        """Connect anew if a cluster does not accept a new token: open watches do not show it for an hour."""
        try:
            await connection.client.get_raw("/version")
        except errors.KubernetesError as error:
            is_refused = isinstance(error, errors.ApiError) and error.code == 401
            if is_refused and self._accesses.get(connection.name) is access:
                self._connect(connection.name, access)

    async def _open(self, connection: Connection) -> None:
        """Read a cluster in its turn; one that does not answer soon continues beside the others."""
        async with self._turn:
            if self._connections.get(connection.name) is connection:
                with suppress(TimeoutError):
                    await asyncio.wait_for(connection.open(), _TURN_S)

    def refuse(self, name: str, why: str) -> None:
        """Drop a cluster's connection, and report the cause."""
        if name in self._connections:
            self.disconnect(name)
        self.report(name, why)

    def report(self, name: str, why: str) -> None:
        """Report the cause if a cluster cannot be connected to; a present connection stays."""
        if self._problems.get(name) != why:
            _log.warning("cannot connect to cluster %s: %s", name, why, extra=make_fields(cluster=name))
            self._problems[name] = why
            self._on_problem(name)

    def report_expiry(self, name: str, own: str | None, installer: str | None) -> None:
        """Report why nothing replaces a cluster's credential before it expires; None if something does.

        ``installer`` is the same for the credential that installs charts.
        """
        if (self._expiring.get(name), self._installers.get(name)) != (own, installer):
            self._expiring[name], self._installers[name] = own, installer
            self._on_problem(name)

    def disconnect(self, name: str) -> None:
        """Drop a cluster's connection and its copies."""
        self._without.pop(name, None)
        self._accesses.pop(name, None)
        self._problems.pop(name, None)
        self._expiring.pop(name, None)
        self._installers.pop(name, None)
        connection = self._connections.pop(name, None)
        if connection is not None:
            _keep(asyncio.create_task(connection.close()), self._closing)

    async def close(self) -> None:
        """Close every connection."""
        for task in self._opening:
            task.cancel()
        for name in tuple(self._connections):
            self.disconnect(name)
        await asyncio.gather(*self._opening, *self._closing, return_exceptions=True)


def _keep(task: asyncio.Task[None], tasks: set[asyncio.Task[None]]) -> None:
    """Hold a reference to a task until it is done; the event loop has none."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
