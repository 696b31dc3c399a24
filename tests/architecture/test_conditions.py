"""The table of conditions stays small, and each "no" names its remedy."""

from modelplane.api.conditions.reasons import FALSE_IS_USUAL, ROWS

MOST_TYPES = 30
MOST_REASONS = 110


def test_there_are_few_condition_types():
    types = {str(reason.type) for _, reason in ROWS}
    assert len(types) <= MOST_TYPES, sorted(types)


def test_there_are_few_reasons():
    words = {str(reason) for _, reason in ROWS}
    assert len(words) <= MOST_REASONS, sorted(words)


def test_every_row_has_a_meaning_that_is_a_sentence():
    assert [repr(reason) for _, reason in ROWS if not reason.meaning.endswith(".")] == []


def test_every_row_that_says_no_has_a_remedy():
    missing = [
        repr(reason)
        for _, reason in ROWS
        if not reason.remedy.endswith(".")
        and (reason.warns or (reason.holds is not True and reason.type not in FALSE_IS_USUAL))
    ]
    assert missing == []
