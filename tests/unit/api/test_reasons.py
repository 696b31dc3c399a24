import re
from enum import StrEnum

from modelplane.api.conditions import reasons
from modelplane.api.conditions.reason_meanings import DOCUMENTED, EVERY_KIND
from modelplane.api.kinds import KINDS
from modelplane.api.meta import GROUP
from modelplane.compose.kinds import COMPOSERS

ENUMS = [value for value in vars(reasons).values() if isinstance(value, type) and issubclass(value, StrEnum)]


def _of(suffix):
    return {
        (enum.__name__.removesuffix(suffix), member.value)
        for enum in ENUMS
        if enum.__name__.endswith(suffix) and enum is not StrEnum
        for member in enum
    }


def _owner(row, part):
    return type(getattr(row, part)).__name__


def test_every_reason_is_documented():
    documented = {(_owner(row, "reason").removesuffix("Reason"), row.reason.value) for row in DOCUMENTED}
    assert documented == _of("Reason")


def test_every_condition_is_documented():
    documented = {(_owner(row, "type").removesuffix("Condition"), row.type.value) for row in DOCUMENTED}
    assert documented == _of("Condition")


def test_every_kind_that_users_meet_reports_a_condition_of_its_own():
    kinds = {kind.name for kind in KINDS if kind.group == GROUP or kind.name in COMPOSERS}
    assert kinds | {EVERY_KIND} == {row.kind for row in DOCUMENTED}


def test_no_reason_is_documented_twice():
    rows = [(row.kind, row.type, row.holds, row.reason) for row in DOCUMENTED]
    assert sorted(rows) == sorted(set(rows))


def test_a_reason_is_one_capitalised_word():
    words = [member.value for enum in ENUMS if enum is not StrEnum for member in enum]
    assert [word for word in words if not re.fullmatch("([A-Z][a-z]*)+", word)] == []


def test_what_holds_is_never_alarming():
    assert [row for row in DOCUMENTED if row.alarming and row.holds] == []
