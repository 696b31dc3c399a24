"""Credentials: renew the tokens of clusters before they expire.

Only tokens of the accounts that ``modelplane install --inference-cluster`` makes are renewed, each with the
present token: that of the fleet, and that which installs charts. The new one is written into the kubeconfig
Secret, and used only from there: a failure at any point leaves a Secret with a valid token.
"""

import asyncio
import base64
import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.cluster.cluster_kubeconfig import ACCOUNT, INSTALLER, replacement, subject_of
from modelplane.controllers import fleet_resources
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.connections import Access, Clusters
from modelplane.controllers.clusters.kubeconfigs import Installers, Kubeconfigs
from modelplane.controllers.queue import delay_s
from modelplane.controllers.runnable import Runnable
from modelplane.kube import errors, kubeconfig_secret, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from modelplane.kube.kubeconfig_secret import Claims, Lifetime, decode_claims
from modelplane.telemetry.traces import make_fields

_log = logging.getLogger(__name__)

LIFETIME_S: Final = 30 * 24 * 3600
SHORTEST_S: Final = 600
"""The shortest lifetime that an API server grants."""

_LOOK_S = 10.0
_WRITES_AT_A_TIME = 4
"""Writes to the control plane, which reconciles need too."""
_FIRST_RETRY_S = 10.0
_LAST_RETRY_S = 3600.0


def renewal_of(claims: Claims | None, share: float, account: str = ACCOUNT) -> float:
    """Return the time to renew a token of an account; infinite for one that is not renewed.

    A token without an end, of an earlier version, is renewed at once.
    """
    if claims is None or claims.subject != subject_of(account):
        return math.inf
    return claims.lifetime.choose_renewal(share) if claims.lifetime else -math.inf


def longest_pause_s(lifetime_s: float) -> float:
    """Return the longest delay before another attempt, and the delay after a success.

    So a tool that restores an old token, or a cluster that grants odd ones, causes few writes.
    """
    return min(_LAST_RETRY_S, max(_FIRST_RETRY_S, lifetime_s / 20))


def pause_s(failures: int, lifetime_s: float) -> float:
    """Return the delay before the next attempt, which doubles with each failure."""
    return delay_s(_FIRST_RETRY_S, failures, longest_pause_s(lifetime_s))


def share_of(cluster: str) -> float:
    """Return a number from 0 to 1 that is constant for a cluster."""
    return int.from_bytes(hashlib.sha256(cluster.encode()).digest()[:4], "big") / 2**32


@dataclass(frozen=True, slots=True)
class _Held:
    """A credential of a cluster, as its Secret has it."""

    connection: Connection
    access: Access
    account: str
    """The account whose tokens are renewed."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.connection.name

    @property
    def key(self) -> tuple[str, str]:
        """Its identity among the credentials of all clusters."""
        return self.cluster, self.account

    @property
    def lifetime(self) -> Lifetime | None:
        """The lifetime of its token; None if that is not known, or has no end."""
        return self.access.claims.lifetime if self.access.claims else None

    def __str__(self) -> str:
        """The credential as the log names it."""
        what = "credential" if self.account == ACCOUNT else "installer's credential"
        return f"{what} of cluster {self.cluster}"


@dataclass(slots=True)
class _Attempts:
    """The attempts to renew the token of one cluster."""

    not_before: float = -math.inf
    failures: int = 0
    problem: str = ""
    """The cause of the last failure; empty after a success."""


class Credentials(Runnable):
    """Renews tokens at half of their lives, and reports those that nothing renews."""

    name = "credentials"

    def __init__(
        self,
        client: Client,
        kubeconfigs: Kubeconfigs,
        clusters: Clusters,
        lifetime_s: int = LIFETIME_S,
        clock: Callable[[], float] = time.time,
        *,
        fence: Fence | None = None,
    ) -> None:
        """``client`` is that of the control plane. A cluster may grant less than ``lifetime_s``."""
        self._client = client
        self._kubeconfigs = kubeconfigs
        self._installers = Installers(kubeconfigs)
        self._clusters = clusters
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._fence = fence
        self._attempts: dict[tuple[str, str], _Attempts] = {}
        self._writing = asyncio.Semaphore(_WRITES_AT_A_TIME)

    async def run(self) -> None:
        """Look at every cluster's tokens every few seconds, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Renew the tokens that are due, and report those that expire soon."""
        found = [token for connection in self._clusters for token in self._held(connection)]
        self._attempts = {token.key: self._attempts.get(token.key, _Attempts()) for token in found}
        # All at once: one that does not answer delays no other by more than the time-out of a request.
        await asyncio.gather(*(self._renew(token) for token in found if self._is_due(token)))
        for connection in self._clusters:
            held = {token.account: token for token in self._held(connection) if token.key in self._attempts}
            if own := held.get(ACCOUNT):
                installer = self._of_installer(held.get(INSTALLER))
                self._clusters.report_expiry(connection.name, self._problem(own), installer)

    def _held(self, connection: Connection) -> Iterator[_Held]:
        if access := self._clusters.access(connection.name):
            yield _Held(connection, access, ACCOUNT)
            if installer := self._installers.access(connection.name):
                yield _Held(connection, installer, INSTALLER)

    def _is_due(self, held: _Held) -> bool:
        renewal = renewal_of(held.access.claims, share_of(held.cluster), held.account)
        due = max(renewal, self._attempts[held.key].not_before)
        return self._clock() >= due and not held.connection.loading

    def _problem(self, held: _Held) -> str | None:
        claims, lifetime = held.access.claims, held.lifetime
        if claims is None or lifetime is None or self._clock() < lifetime.last_quarter:
            return None
        if claims.subject != subject_of(held.account):
            why = f'is not renewed, because it is not a token for ServiceAccount "{held.account}"'
        elif cause := self._attempts[held.key].problem:
            why = f"cannot be renewed: {cause}"
        else:
            return None
        return f"{why}: {replacement(held.access.where, held.account)}"

    def _of_installer(self, held: _Held | None) -> str | None:
        """Return a sentence about the credential that installs charts; None while there is time."""
        why = self._problem(held) if held else ""
        if not (held and held.lifetime and why):
            return None
        until = timestamps.format_at(held.lifetime.expires)
        return f"the credential that installs charts expires at {until} and {why}"

    async def _renew(self, held: _Held) -> None:
        about = make_fields(cluster=held.cluster)
        try:
            granted = await self._renewed(held)
        except (errors.KubernetesError, ValueError) as error:
            self._failed(held, errors.describe_error(error))
        except Exception:  # noqa: BLE001 - the tokens of the other clusters expire too
            _log.exception("cannot renew the %s", held, extra=about)
            self._failed(held, "a bug in Modelplane: see the log of the controllers")
        else:
            rests_s = longest_pause_s(granted.expires - granted.issued)
            self._attempts[held.key] = _Attempts(self._clock() + rests_s)
            _log.info("renewed the %s until %s", held, timestamps.format_at(granted.expires), extra=about)

    def _failed(self, held: _Held, cause: str) -> None:
        """Log a failure, and put off the next attempt."""
        attempts, lifetime = self._attempts[held.key], held.lifetime
        lasts_s = lifetime.expires - lifetime.issued if lifetime else self._lifetime_s
        attempts.not_before = self._clock() + pause_s(attempts.failures, lasts_s)
        attempts.failures += 1
        attempts.problem = cause
        until = (
            f"valid until {timestamps.format_at(lifetime.expires)}" if lifetime else "which does not expire"
        )
        _log.warning(
            "cannot renew the %s, %s: %s", held, until, cause, extra=make_fields(cluster=held.cluster)
        )

    async def _renewed(self, held: _Held) -> Lifetime:
        """Renew a token; return the lifetime of the new one.

        Raises ``KubernetesError`` or ``ValueError``; the present token is then still in the Secret.
        """
        access, account = held.access, held.account
        is_own = account == ACCOUNT
        of = self._kubeconfigs.secret_of if is_own else self._installers.secret
        secret = of(held.cluster)
        # Read before the request: a change of the Secret from here on is a conflict, and wins.
        if (
            secret is None
            or kubeconfig_secret.read_content(secret, access.key, access.where) != access.content
        ):
            raise ValueError(f"{access.where} contains a different kubeconfig, which is not in use")
        # An account may request tokens of itself only, so each uses its own.
        async with (
            nullcontext(held.connection.client)
            if is_own
            else Client.from_kubeconfig(
                access.kubeconfig, fence=self._fence, known=fleet_resources.find_known
            ) as client
        ):
            token = await client.create_token(account, SYSTEM_NAMESPACE, self._lifetime_s)
        claims = decode_claims(token)
        granted = claims.lifetime if claims and claims.subject == subject_of(account) else None
        if granted is None or granted.expires - granted.issued < SHORTEST_S:
            raise ValueError(f'the cluster did not issue a ten-minute token for ServiceAccount "{account}"')
        metadata = secret["metadata"]
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "data": {access.key: base64.b64encode(access.with_token(token)).decode()},
        }
        async with self._writing:
            written = await self._client.patch(
                resources.SECRETS, metadata["name"], body, metadata["namespace"]
            )
        self._kubeconfigs.remember(written)
        return granted
