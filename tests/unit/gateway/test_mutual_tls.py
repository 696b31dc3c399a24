"""Renewal of certificates between gateways, authorities in use, and messages about a rollout."""

from datetime import UTC, datetime, timedelta

import pytest

from modelplane.api.fields.cluster.mutual_tls_settings import MutualTLSPhase as Phase
from modelplane.gateway.mutual_tls import (
    Protocol,
    Rollout,
    Seen,
    Validity,
    build_bundle,
    describe_waiting,
    must_issue,
    step,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NINETY = Validity(BEGIN, BEGIN + timedelta(days=90))
DRAIN = timedelta(hours=6)


@pytest.mark.parametrize(
    ("validity", "day", "by_current", "is_trusted", "expected"),
    [
        pytest.param(None, 0, False, False, True, id="none exists"),
        pytest.param(NINETY, 59, True, True, False, id="two thirds of its life are not over"),
        pytest.param(NINETY, 60, True, True, True, id="its last third begins"),
        pytest.param(NINETY, 1, False, True, True, id="the new authority is trusted everywhere"),
        pytest.param(NINETY, 1, False, False, False, id="a cluster does not trust the new authority yet"),
        pytest.param(NINETY, 80, False, False, False, id="a silent cluster delays even a due renewal"),
        pytest.param(NINETY, 81, False, False, True, id="no cluster delays beyond the last tenth"),
    ],
)
def test_a_certificate_is_issued_in_time(
    validity: Validity | None, day: int, by_current: bool, is_trusted: bool, expected: bool
) -> None:
    now = BEGIN + timedelta(days=day)
    assert must_issue(validity, by_current=by_current, is_trusted=is_trusted, now=now) is expected


@pytest.mark.parametrize(
    ("stored", "used", "expected"),
    [
        pytest.param((), (), "new", id="the first authority"),
        pytest.param(("old",), ("old",), "newold", id="a certificate of the former one is in use"),
        pytest.param(("new", "old"), ("new",), "new", id="no certificate of the former one is left"),
    ],
)
def test_former_authorities_are_trusted_while_in_use(
    stored: tuple[str, ...], used: tuple[str, ...], expected: str
) -> None:
    assert build_bundle("new", stored, used) == expected


BOTH = frozenset(Protocol)
PLAIN = frozenset({Protocol.PLAIN})
TLS = frozenset({Protocol.TLS})


@pytest.mark.parametrize(
    ("phase", "seen", "expected"),
    [
        pytest.param(Phase.PLAIN, Seen(True, False), Phase.PLAIN, id="no certificates"),
        pytest.param(Phase.PLAIN, Seen(True, True), Phase.OFFERED, id="certificates"),
        pytest.param(Phase.OFFERED, Seen(True, True, PLAIN), Phase.OFFERED, id="TLS is not in force"),
        pytest.param(Phase.OFFERED, Seen(True, False, BOTH), Phase.OFFERED, id="the identity is gone"),
        pytest.param(Phase.OFFERED, Seen(True, True, BOTH), Phase.USED, id="TLS is in force"),
        pytest.param(Phase.USED, Seen(True, True, BOTH, BOTH), Phase.USED, id="an endpoint uses plain HTTP"),
        pytest.param(Phase.USED, Seen(True, True, BOTH, TLS), Phase.REQUIRED, id="drained"),
        pytest.param(Phase.USED, Seen(True, True, PLAIN, TLS), Phase.USED, id="TLS is not in force any more"),
        pytest.param(Phase.REQUIRED, Seen(False), Phase.USED, id="off: plain HTTP is opened at once"),
        pytest.param(Phase.USED, Seen(False, True, TLS), Phase.USED, id="off: plain is not in force"),
        pytest.param(Phase.USED, Seen(False, True, BOTH), Phase.OFFERED, id="off: plain is in force"),
        pytest.param(Phase.OFFERED, Seen(False, True, BOTH, BOTH), Phase.OFFERED, id="off: TLS is used"),
        pytest.param(Phase.OFFERED, Seen(False, True, BOTH, PLAIN), Phase.PLAIN, id="off: drained"),
    ],
)
def test_each_phase_waits_for_its_cause(phase: Phase, seen: Seen, expected: Phase) -> None:
    drained = Rollout(phase, BEGIN)
    assert step(drained, seen, DRAIN, BEGIN + DRAIN).phase is expected


def test_the_time_to_drain_begins_when_the_last_endpoint_has_changed() -> None:
    state = Rollout(Phase.USED)
    state = step(state, Seen(True, True, BOTH, BOTH), DRAIN, BEGIN)
    assert state.draining_since is None
    state = step(state, Seen(True, True, BOTH, TLS), DRAIN, BEGIN + timedelta(hours=1))
    assert state == Rollout(Phase.USED, BEGIN + timedelta(hours=1))
    state = step(state, Seen(True, True, BOTH, BOTH), DRAIN, BEGIN + timedelta(hours=2))
    assert state.draining_since is None, "one that comes back begins it anew"


@pytest.mark.parametrize(
    ("state", "seen", "expected"),
    [
        pytest.param(Rollout(Phase.REQUIRED), Seen(True), "", id="complete"),
        pytest.param(Rollout(Phase.PLAIN), Seen(True), "waiting for certificates", id="begins"),
        pytest.param(
            Rollout(Phase.USED),
            Seen(True, in_use=BOTH),
            "the gateway still accepts plain HTTP: endpoints of replicas use it",
            id="an endpoint has not changed",
        ),
        pytest.param(
            Rollout(Phase.USED, BEGIN),
            Seen(True, in_use=TLS),
            "the gateway still accepts plain HTTP, for requests in progress until 2026-01-01T06:00:00Z",
            id="drains",
        ),
    ],
)
def test_the_message_has_the_next_step(state: Rollout, seen: Seen, expected: str) -> None:
    assert describe_waiting(state, seen, DRAIN) == (expected or None)
