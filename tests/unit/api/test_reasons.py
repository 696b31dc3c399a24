import re
from collections import Counter
from enum import StrEnum

import pytest

from modelplane.api.conditions import reasons
from modelplane.api.conditions.reasons import EVERY_KIND, ROWS, ModelReplicaReason, find_row, is_warning
from modelplane.api.conditions.row import Reason
from modelplane.api.kinds import KINDS
from modelplane.api.meta import GROUP
from modelplane.compose.kinds import COMPOSERS

CLASSES = [value for value in vars(reasons).values() if isinstance(value, type)]


def test_every_reason_is_in_the_table():
    declared = {repr(reason) for enum in CLASSES if issubclass(enum, Reason) for reason in enum}
    assert declared == {repr(reason) for _, reason in ROWS}


def test_every_condition_has_a_reason():
    types = {
        member
        for enum in CLASSES
        if issubclass(enum, StrEnum) and enum.__name__.endswith("Condition")
        for member in enum
    }
    assert {str(type_) for type_ in types} == {str(reason.type) for _, reason in ROWS}


def test_every_kind_that_users_meet_reports_a_condition_of_its_own():
    kinds = {kind.name for kind in KINDS if kind.group == GROUP or kind.name in COMPOSERS}
    assert kinds | {EVERY_KIND} == {row.kind for row in ROWS}


def test_a_condition_of_a_kind_has_one_row_for_a_reason():
    counts = Counter(
        (kind, str(reason.type), holds, str(reason))
        for kind, reason in ROWS
        for holds in (True, False)
        if reason.holds in (holds, None)
    )
    assert [row for row, count in counts.items() if count > 1] == []


def test_a_reason_is_one_capitalised_word():
    words = {str(word) for _, reason in ROWS for word in (reason, reason.type)}
    assert [word for word in words if not re.fullmatch("([A-Z][a-z]*)+", word)] == []


@pytest.mark.parametrize(
    ("kind", "type_", "reason", "holds", "expected"),
    [
        ("ModelReplica", "ModelAccepted", "NotFound", False, ModelReplicaReason.REFERENCE_NOT_FOUND),
        # It goes with both statuses.
        ("ModelReplica", "RoutingReady", "Draining", True, ModelReplicaReason.DRAINING),
        ("ModelReplica", "RoutingReady", "Draining", False, ModelReplicaReason.DRAINING),
        # A row of every kind.
        ("ModelReplica", "Synced", "ReconcileError", False, reasons.SyncedReason.RECONCILE_ERROR),
        # A word of another version, of another kind, and with another status.
        ("ModelReplica", "RoutingReady", "EndpointCreated", True, None),
        ("ModelKey", "ModelAccepted", "NotFound", False, None),
        ("ModelReplica", "ModelAccepted", "NotFound", True, None),
    ],
)
def test_a_row_is_found_by_kind_condition_word_and_status(kind, type_, reason, holds, expected):
    assert find_row(kind, type_, reason, holds=holds) is expected


def test_a_warning_depends_on_the_condition_and_its_status():
    assert is_warning("RoutingReady", "LimitExceeded", holds=False)
    assert not is_warning("RoutingReady", "LimitExceeded", holds=True)
    assert not is_warning("CapacityOvercommitted", "Unreadable", holds=False)
