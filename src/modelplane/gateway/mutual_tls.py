"""Mutual TLS from the fleet's gateway to those of clusters: rollout and renewal.

One rule: requests use a protocol only while the cluster's gateway accepts it. So the gateway first accepts
both, then requests change, and the former protocol is closed once no endpoint has used it for a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

import msgspec

from modelplane.api.fields.cluster.mutual_tls_settings import SERVER_DOMAIN, MutualTLSPhase

CLIENT_NAME: Final = "gateway.modelplane.internal"
"""Name in the certificate of the fleet's gateway."""


class Protocol(Enum):
    """A protocol between the gateways."""

    PLAIN = auto()
    TLS = auto()


_PHASES = tuple(MutualTLSPhase)
_ACCEPTED = {
    MutualTLSPhase.PLAIN: frozenset({Protocol.PLAIN}),
    MutualTLSPhase.OFFERED: frozenset(Protocol),
    MutualTLSPhase.USED: frozenset(Protocol),
    MutualTLSPhase.REQUIRED: frozenset({Protocol.TLS}),
}


def list_accepted(phase: MutualTLSPhase) -> frozenset[Protocol]:
    """Return the protocols that the cluster's gateway is to accept."""
    return _ACCEPTED[phase]


def choose_protocol(phase: MutualTLSPhase) -> Protocol:
    """Return the protocol that requests are to use."""
    return Protocol.TLS if phase in (MutualTLSPhase.USED, MutualTLSPhase.REQUIRED) else Protocol.PLAIN


def build_server_name(uid: str) -> str:
    """Return the name of a cluster's gateway, by the uid of its InferenceCluster: no other ever has it."""
    return f"{uid}.{SERVER_DOMAIN}"


class Rollout(msgspec.Struct, frozen=True):
    """State of the rollout on one cluster."""

    phase: MutualTLSPhase = MutualTLSPhase.PLAIN
    draining_since: datetime | None = None
    """Time since which no endpoint uses the protocol that is to be closed; None while one does."""


class Seen(msgspec.Struct, frozen=True):
    """Observations of a cluster."""

    wanted: bool
    certified: bool = False
    """True if both gateways have certificates."""
    accepted: frozenset[Protocol] = frozenset()
    """The protocols that its gateway reports as in force."""
    in_use: frozenset[Protocol] = frozenset()
    """The protocols of its endpoints."""


def find_leaving(rollout: Rollout, *, wanted: bool) -> Protocol | None:
    """Return the protocol that is to be closed next; None if none is yet."""
    if rollout.phase is MutualTLSPhase.USED and wanted:
        return Protocol.PLAIN
    if rollout.phase is MutualTLSPhase.OFFERED and not wanted:
        return Protocol.TLS
    return None


def step(rollout: Rollout, seen: Seen, drain: timedelta, now: datetime) -> Rollout:
    """Return the next state of a rollout: the same, or one phase further towards what is wanted."""
    closing = find_leaving(rollout, wanted=seen.wanted)
    is_draining = closing is not None and closing not in seen.in_use
    since = (rollout.draining_since or now) if is_draining else None
    has_drained = since is not None and now - since >= drain
    phase = rollout.phase
    towards = {
        True: {
            MutualTLSPhase.PLAIN: seen.certified,
            MutualTLSPhase.OFFERED: seen.certified and Protocol.TLS in seen.accepted,
            MutualTLSPhase.USED: has_drained and Protocol.TLS in seen.accepted,
        },
        False: {
            MutualTLSPhase.REQUIRED: True,
            MutualTLSPhase.USED: Protocol.PLAIN in seen.accepted,
            MutualTLSPhase.OFFERED: has_drained and Protocol.PLAIN in seen.accepted,
        },
    }
    if towards[seen.wanted].get(phase, False):
        return Rollout(_PHASES[_PHASES.index(phase) + (1 if seen.wanted else -1)])
    return Rollout(phase, since)


def describe_waiting(rollout: Rollout, seen: Seen, drain: timedelta) -> str | None:
    """Return the next step of a rollout, and its cause for waiting; None if it is complete."""
    phase, wanted = rollout.phase, seen.wanted
    if phase is (MutualTLSPhase.REQUIRED if wanted else MutualTLSPhase.PLAIN):
        return None
    if closing := find_leaving(rollout, wanted=wanted):
        name = "plain HTTP" if closing is Protocol.PLAIN else "mutual TLS"
        if closing in seen.in_use:
            return f"the gateway still accepts {name}: endpoints of replicas use it"
        if rollout.draining_since is None:
            return f"the gateway still accepts {name}: waiting for its endpoints"
        until = rollout.draining_since + drain
        return f"the gateway still accepts {name}, for requests in progress until {until:%Y-%m-%dT%H:%M:%SZ}"
    steps = {
        MutualTLSPhase.PLAIN: "waiting for certificates",
        MutualTLSPhase.OFFERED: "waiting for the listener with mutual TLS and its policy to be in force",
        MutualTLSPhase.USED: "waiting for the listener with plain HTTP to be in force",
        MutualTLSPhase.REQUIRED: "opening the plain HTTP listener",
    }
    return steps[phase]


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, in PEM."""

    chain: str
    key: str = field(repr=False)


class Identity(msgspec.Struct, frozen=True):
    """Certificate of the fleet's gateway, and the authorities of the clusters' certificates, in PEM."""

    certificate: Pair
    authorities: str


class Link(msgspec.Struct, frozen=True):
    """Mutual TLS of one cluster, as the controllers have it."""

    rollout: Rollout = Rollout()
    certificate: Pair | None = None
    """The certificate of the cluster's gateway; None before it is issued."""
    authorities: str = ""
    """The authorities of the certificate of the fleet's gateway, in PEM."""
    problem: str = ""
    """The reason why a certificate cannot be issued or renewed; empty if there is none."""
    waiting: str = ""
    """The cause for which the rollout does not go on; empty if it is complete."""


class Validity(msgspec.Struct, frozen=True):
    """Time for which a certificate is valid."""

    begins: datetime
    ends: datetime

    def is_due(self, now: datetime) -> bool:
        """Return True in the last third of its life."""
        return now >= self.ends - (self.ends - self.begins) / 3

    def is_urgent(self, now: datetime) -> bool:
        """Return True in the last tenth of its life."""
        return now >= self.ends - (self.ends - self.begins) / 10


def must_issue(validity: Validity | None, *, by_current: bool, is_trusted: bool, now: datetime) -> bool:
    """Return True if a certificate is to be issued, in place of one with this validity, if any.

    ``by_current``: the present authority issued it. ``is_trusted``: everyone who checks it trusts the present
    authority. Until then, a certificate of the former one stays as long as it can.
    """
    if validity is None:
        return True
    if by_current:
        return validity.is_due(now)
    return is_trusted or validity.is_urgent(now)


def build_bundle(current: str, stored: Iterable[str], still_used: Iterable[str]) -> str:
    """Return the authorities to trust, in PEM: the present one, and former ones with certificates in use."""
    needed = frozenset(still_used)
    return "".join(dict.fromkeys((current, *(authority for authority in stored if authority in needed))))
