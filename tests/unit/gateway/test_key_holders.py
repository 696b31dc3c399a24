"""Of several ModelKeys with one hash, the first keeps it, whatever is edited or made again."""

from typing import Any

import pytest

from modelplane.api.inference_gateway import KeyGrant
from modelplane.gateway.module_files import key_rights
from modelplane.gateway.module_files.key_rights import Claim, Holders, find_holders
from modelplane.gateway.module_files.keys import KeyFile, KeyTable, build_key_table

A, B = "aa" * 32, "bb" * 32
OLD, NEW = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
ANY = (KeyGrant(namespace="*"),)
Key = dict[str, Any]


def key(
    id_: str,
    *hashes: str,
    created: str = NEW,
    generation: int = 1,
    seen: str = "",
    refused: bool = False,
    **spec: Any,
) -> Key:
    namespace, name = id_.split("/")
    status = {"hashes": [{"sha256": each, "firstSeen": seen, "refused": refused} for each in hashes]}
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": created, "generation": generation}
    return {
        "metadata": metadata,
        "spec": {"hashes": [{"sha256": each} for each in hashes or (B,)], **spec},
        **({"status": status} if seen else {}),
    }


class Fleet:
    """The gateway's keys over time."""

    def __init__(self) -> None:
        self.table = KeyTable()

    def has(self, *keys: Key, grants: tuple[KeyGrant, ...] = ANY) -> str:
        """Return the ModelKey that has hash A; empty if none does."""
        self.table = build_key_table(keys, grants, self.table)
        return next((each.id for each in self.table.file.keys if each.sha256 == A), "")

    def restart(self, *, is_published: bool = True) -> None:
        """Forget everything but the gateway's file, or that too."""
        self.table = KeyTable.build_from_file(self.table.file if is_published else KeyFile())


VICTIM = key("team/app", A)
THIEF = key("evil/a", A, B, created=OLD, generation=2)


def test_a_hash_that_is_added_to_an_older_key_stays_where_it_was() -> None:
    fleet = Fleet()
    assert fleet.has(VICTIM) == "team/app"
    assert fleet.has(VICTIM, THIEF) == "team/app"
    assert fleet.table.list_refused("evil/a") == {A}
    fleet.restart()
    assert fleet.has(THIEF, VICTIM) == "team/app"


def test_of_two_that_were_never_seen_the_one_that_cannot_have_been_edited_has_it() -> None:
    assert Fleet().has(THIEF, VICTIM) == "team/app"
    assert Fleet().has(key("evil/a", A, created=OLD), VICTIM) == "evil/a", "it is older, and was not edited"


def test_two_at_once_have_one_holder_in_any_order() -> None:
    twins = (key("team/app", A), key("evil/a", A))
    assert Fleet().has(*twins) == Fleet().has(*reversed(twins)) == "evil/a"
    assert Fleet().has(*twins) == "evil/a"


def test_a_hash_moves_between_keys_of_one_namespace() -> None:
    fleet = Fleet()
    fleet.has(VICTIM)
    new = key("team/b", A)
    assert fleet.has(VICTIM, new) == "team/app"
    assert fleet.table.problems == {
        "team/b": "hash aaaaaaaa belongs to ModelKey team/app: remove it from one of them"
    }
    assert fleet.has(new) == "team/b"
    assert fleet.has(new, VICTIM) == "team/b"


@pytest.mark.parametrize("thief", [THIEF, key("evil/new", A)])
def test_a_holder_that_is_deleted_and_made_again_has_its_hash_again(thief: Key) -> None:
    fleet = Fleet()
    fleet.has(VICTIM)
    fleet.has(VICTIM, thief)
    assert fleet.has(thief) == "", "who has copied a hash gets no requests of the clients that still use it"
    assert fleet.has(thief, key("team/app", A, created="2026-07-01T00:00:00Z")) == "team/app"


def test_a_hash_that_nobody_has_any_more_stays_in_its_namespace() -> None:
    fleet = Fleet()
    fleet.has(VICTIM)
    assert fleet.has() == ""
    assert fleet.has(THIEF) == "", "it came when the hash was free"
    assert fleet.has(THIEF, key("team/other", A)) == "team/other"


def test_a_key_that_is_not_in_force_keeps_its_hash() -> None:
    fleet = Fleet()
    fleet.has(VICTIM)
    evil = (KeyGrant(namespace="evil"),)
    assert fleet.has(VICTIM, THIEF, grants=evil) == "", "the grant of the holder is gone for a while"
    assert fleet.has(VICTIM, THIEF) == "team/app"
    full = (KeyGrant(namespace="team", max_keys=1), KeyGrant(namespace="evil"))
    assert fleet.has(key("team/older", B, created=OLD), VICTIM, THIEF, grants=full) == ""
    assert fleet.has(VICTIM, THIEF) == "team/app"
    unreadable = key("team/app", A, services="none")
    assert fleet.has(unreadable, THIEF) == "team/app"


@pytest.mark.parametrize("is_published", [True, False])
def test_after_a_restart_or_a_restore_the_status_tells_who_had_it_first(is_published: bool) -> None:
    """A restored object is as old as its restore, and the gateway's files are not in a backup."""
    fleet = Fleet()
    if is_published:
        fleet.has(key("team/app", B))
    fleet.restart(is_published=is_published)
    victim = key("team/app", A, seen="2026-03-01T00:00:00Z")
    thief = key("evil/a", A, created=OLD, seen="2026-03-02T00:00:00Z")
    assert fleet.has(thief, victim) == "team/app"


def test_a_refusal_outlives_a_restart_without_the_holder() -> None:
    fleet = Fleet()
    fleet.restart(is_published=False)
    assert fleet.has(key("evil/a", A, seen=OLD, refused=True)) == ""
    assert fleet.has(key("evil/a", A, seen=OLD, refused=True), VICTIM) == "team/app"


def test_the_files_of_an_earlier_version_say_who_has_it() -> None:
    fleet = Fleet()
    fleet.has(key("team/app", A))
    fleet.restart()
    assert fleet.has(key("evil/a", A, created=OLD), key("team/app", A, generation=7)) == "team/app"


def test_only_the_latest_hashes_without_a_holder_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_rights, "MOST_LEFT", 2)
    found = Holders()
    for number in range(4):
        found = find_holders([Claim(f"{number}", "team/app")], found)
    assert (dict(found.ids), dict(found.left)) == ({"3": "team/app"}, {"1": "team", "2": "team"})
