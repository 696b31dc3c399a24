"""Order of a restore: owners before what they own, the older of two rivals first, and few turns."""

from collections.abc import Iterator

import pytest

from modelplane.backup.objects import Entry, build_entry
from modelplane.backup.planning import MOST_TURNS, group_entries


def key(name: str, created: int, *hashes: str, owners: tuple[str, ...] = ()) -> Entry:
    return build_entry(
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelKey",
            "metadata": {
                "name": name,
                "namespace": "ml",
                "uid": name,
                "creationTimestamp": f"2026-{created:05}",
                "ownerReferences": [{"uid": each} for each in owners],
            },
            "spec": {"hashes": [{"sha256": each} for each in hashes]},
        }
    )


def order(*entries: Entry) -> list[tuple[list[str], bool]]:
    return [([each.name for each in group.entries], group.is_younger) for group in group_entries(entries)[1:]]


def test_an_object_with_owners_is_older_than_a_rival_without() -> None:
    entries = (
        key("thief", 3, "one"),
        key("owner", 1),
        key("mine", 2, "one", owners=("owner",)),
    )
    assert order(*entries) == [(["owner"], False), (["mine"], False), (["thief"], True)], (
        "levels alone would restore the thief with the owner, and so before the key that it copies"
    )


def test_what_an_object_owns_follows_it_into_a_later_turn() -> None:
    entries = (key("mine", 1, "one"), key("thief", 2, "one"), key("of-thief", 0, owners=("thief",)))
    assert order(*entries) == [(["mine"], False), (["thief"], True), (["of-thief"], False)]


@pytest.mark.parametrize("shape", ["equal", "chain"])
def test_turns_do_not_grow_with_the_number_of_rivals(shape: str) -> None:
    many = 2_000
    entries = [
        key(f"key-{number}", 100 + number, *(["one"] if shape == "equal" else [f"{number}", f"{number + 1}"]))
        for number in range(many)
    ]
    found = group_entries(entries)
    assert sum(group.is_younger for group in found) == MOST_TURNS - 1
    assert sum(len(group.entries) for group in found) == many
    assert [each.name for group in found for each in group.entries][:MOST_TURNS] == [
        f"key-{number}" for number in range(MOST_TURNS)
    ]


def test_the_steps_grow_with_the_number_of_objects_only() -> None:
    steps = 0

    class Counted(frozenset[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal steps
            for each in super().__iter__():
                steps += 1
                yield each

    def count(many: int) -> int:
        nonlocal steps
        steps = 0
        entries = [key(f"key-{number}", 100 + number, "one", "two") for number in range(many)]
        for each in entries:
            object.__setattr__(each, "exclusive_values", Counted(each.exclusive_values))
        group_entries(entries)
        return steps

    assert count(2_000) == 10 * count(200) > 0
