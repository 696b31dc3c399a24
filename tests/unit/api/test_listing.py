"""Lists in sentences: at most so many items, and the number of the others."""

import pytest

from modelplane.api.listing import count_noun, in_order, listing


@pytest.mark.parametrize(
    ("items", "text"),
    [
        pytest.param([], "", id="none"),
        pytest.param(["a"], "a", id="one"),
        pytest.param(["c", "a", "b"], "a, b, c", id="as many as are shown, sorted"),
        pytest.param(["d", "c", "b", "a"], "a, b, c and 1 more", id="one too many"),
        pytest.param(iter("cab"), "a, b, c", id="an iterator"),
        pytest.param([f"{n:04}" for n in range(1003)], "0000, 0001, 0002 and 1,000 more", id="many"),
    ],
)
def test_a_listing_is_sorted_and_counts_what_it_leaves_out(items, text):
    assert listing(items) == text


def test_a_listing_shows_as_many_as_it_is_told_to():
    assert listing("cab", 2) == "a, b and 1 more"


def test_items_in_order_keep_it():
    assert in_order(["c", "a", "b", "d"]) == "c, a, b and 1 more"


def test_the_count_of_clauses_stands_apart_from_the_last_one():
    assert in_order(["it waits for a and b", "c is late"], 1, "; ") == "it waits for a and b; and 1 more"


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "node", "1 node"), (2, "node", "2 nodes"), (3, "InferenceClass", "3 InferenceClasses")],
    ids=["one", "several", "a noun that ends with an s"],
)
def test_a_number_has_the_form_of_the_noun_that_fits(number, noun, text):
    assert count_noun(number, noun) == text
