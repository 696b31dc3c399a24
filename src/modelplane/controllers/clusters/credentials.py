"""Credentials: renew the tokens of clusters before they expire.

Only a token of the account that ``modelplane install --inference-cluster`` makes is renewed, with the present
token. The new one is written into the kubeconfig Secret, and used only from there: a failure at any point
leaves a Secret with a valid token.
"""

import asyncio
import base64
import hashlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.cluster_kubeconfig import ACCOUNT, SUBJECT, replacement
from modelplane.controllers.back_off import delay_s
from modelplane.controllers.clusters.access import Access
from modelplane.controllers.clusters.connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.runnable import Runnable
from modelplane.kube import errors, kubeconfig_secret, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.token_claims import Claims, Lifetime, claims_of
from modelplane.telemetry.log_lines import fields

_log = logging.getLogger(__name__)

LIFETIME_S: Final = 30 * 24 * 3600
SHORTEST_S: Final = 600
"""The shortest lifetime that an API server grants."""

_LOOK_S = 10.0
_WRITES_AT_A_TIME = 4
"""Writes to the control plane, which reconciles need too."""
_FIRST_RETRY_S = 10.0
_LAST_RETRY_S = 3600.0


def renewal_of(claims: Claims | None, share: float) -> float:
    """Return the time to renew a token; infinite for one that is not renewed.

    A token without an end, of an earlier version, is renewed at once.
    """
    if claims is None or claims.subject != SUBJECT:
        return math.inf
    return claims.lifetime.renewal(share) if claims.lifetime else -math.inf


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
    ) -> None:
        """``client`` is that of the control plane. A cluster may grant less than ``lifetime_s``."""
        self._client = client
        self._kubeconfigs = kubeconfigs
        self._clusters = clusters
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._attempts: dict[str, _Attempts] = {}
        self._writing = asyncio.Semaphore(_WRITES_AT_A_TIME)

    async def run(self) -> None:
        """Look at every cluster's token every few seconds, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Renew the tokens that are due, and report those that expire soon."""
        found = [(each, access) for each in self._clusters if (access := self._clusters.access(each.name))]
        self._attempts = {each.name: self._attempts.get(each.name, _Attempts()) for each, _ in found}
        # All at once: one that does not answer delays no other by more than the time-out of a request.
        await asyncio.gather(*(self._renew(*each) for each in found if self._is_due(*each)))
        for name in self._attempts:
            if access := self._clusters.access(name):
                self._clusters.report_expiry(name, self._problem(name, access))

    def _is_due(self, connection: Connection, access: Access) -> bool:
        name = connection.name
        due = max(renewal_of(access.claims, share_of(name)), self._attempts[name].not_before)
        return self._clock() >= due and not connection.loading

    def _problem(self, name: str, access: Access) -> str:
        lifetime = access.claims.lifetime if access.claims else None
        if access.claims is None or lifetime is None or self._clock() < lifetime.last_quarter:
            return ""
        if access.claims.subject != SUBJECT:
            why = f'is not renewed, because it is not a token of ServiceAccount "{ACCOUNT}"'
        elif cause := self._attempts[name].problem:
            why = f"cannot be renewed: {cause}"
        else:
            return ""
        return f"{why}: {replacement(access.where)}"

    async def _renew(self, connection: Connection, access: Access) -> None:
        """Try to renew a cluster's token."""
        name = connection.name
        try:
            granted = await self._renewed(connection, access)
        except (errors.KubernetesError, ValueError) as error:
            self._failed(name, access, errors.sentence(error))
        except Exception:  # noqa: BLE001 - the tokens of the other clusters expire too
            _log.exception("cannot renew the credential of cluster %s", name, extra=fields(cluster=name))
            self._failed(name, access, "a bug in Modelplane: see the log of the controllers")
        else:
            rests_s = longest_pause_s(granted.expires - granted.issued)
            self._attempts[name] = _Attempts(self._clock() + rests_s)
            until = timestamps.at(granted.expires)
            _log.info(
                "renewed the credential of cluster %s until %s", name, until, extra=fields(cluster=name)
            )

    def _failed(self, name: str, access: Access, cause: str) -> None:
        """Log a failure, and put off the next attempt."""
        attempts, lifetime = self._attempts[name], access.claims.lifetime if access.claims else None
        lasts_s = lifetime.expires - lifetime.issued if lifetime else self._lifetime_s
        attempts.not_before = self._clock() + pause_s(attempts.failures, lasts_s)
        attempts.failures += 1
        attempts.problem = cause
        until = f"valid until {timestamps.at(lifetime.expires)}" if lifetime else "which does not expire"
        _log.warning(
            "cannot renew the credential of cluster %s, %s: %s",
            name,
            until,
            cause,
            extra=fields(cluster=name),
        )

    async def _renewed(self, connection: Connection, access: Access) -> Lifetime:
        """Renew a cluster's token; return the lifetime of the new one.

        Raises ``KubernetesError`` or ``ValueError``; the present token is then still in the Secret.
        """
        secret = self._kubeconfigs.secret_of(connection.name)
        # Read before the request: a change of the Secret from here on is a conflict, and wins.
        if secret is None or kubeconfig_secret.content(secret, access.key, access.where) != access.content:
            raise ValueError(f"{access.where} has another kubeconfig, which is not in use")
        token = await connection.client.create_token(ACCOUNT, SYSTEM_NAMESPACE, self._lifetime_s)
        claims = claims_of(token)
        granted = claims.lifetime if claims and claims.subject == SUBJECT else None
        if granted is None or granted.expires - granted.issued < SHORTEST_S:
            raise ValueError(f'the cluster answers no token of ServiceAccount "{ACCOUNT}" for ten minutes')
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
