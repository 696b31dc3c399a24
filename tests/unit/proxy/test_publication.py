import base64
import hashlib
import random
from typing import Any

import pytest

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.route_table import Backend, Listener, Route, Table
from modelplane.proxy.publication import CHUNK_BYTES, INDEX, Channel, Incomplete, Read, build_objects, read

FILES = {"lds.json": "{}\n", "routes/front-door.json": '{"a": "ü"}\n'}


def _noise(kib: int) -> str:
    """Return text that does not become much smaller."""
    return random.Random(1).randbytes(kib * 1024).hex()  # noqa: S311 - to be repeated, not to be secret


LARGE = {"cds.json": _noise(1200)}


def _maps(files: dict[str, str]) -> list[dict[str, Any]]:
    found = build_objects(files, "system")
    return [*found.chunks, found.index]


@pytest.mark.parametrize(
    "files", [pytest.param(FILES, id="small"), pytest.param(LARGE, id="of several parts")]
)
def test_what_is_published_is_read_again_in_any_order(files: dict[str, str]) -> None:
    maps = _maps(files)
    assert read(reversed(maps)) == Read(files)
    assert read([*maps, *_maps({"other": "configuration"})[:-1]]) == Read(files)


def test_the_same_files_make_the_same_config_maps() -> None:
    assert build_objects(FILES, "system") == build_objects(dict(reversed(FILES.items())), "system")


def test_nothing_published_is_no_configuration_and_no_problem() -> None:
    assert read([]) is None
    assert read(_maps(FILES)[:-1]) is None


def test_every_config_map_is_found_by_its_label_and_has_room_to_spare() -> None:
    maps = _maps(LARGE)
    assert len(maps) == 4
    for each in maps:
        assert each["metadata"]["labels"] == {"modelplane.ai/gateway": "default"}
        sizes = [len(base64.b64decode(value)) for value in each.get("binaryData", {}).values()]
        assert max(sizes, default=0) <= CHUNK_BYTES


@pytest.mark.parametrize("left_out", range(3))
def test_a_half_written_configuration_is_not_used(left_out: int) -> None:
    old, new = _maps({"cds.json": "old"}), _maps(LARGE)
    index = new[-1]
    parts = [chunk for number, chunk in enumerate(new[:-1]) if number != left_out]
    found = read([*old[:-1], *parts, index])
    assert found == Incomplete("1 of 3 parts of the configuration do not exist yet")


def test_while_the_index_is_the_old_one_so_is_the_configuration() -> None:
    old, new = _maps(FILES), _maps(LARGE)
    assert read([*new[:-1], *old]) == Read(FILES)


def _with(maps: list[dict[str, Any]], name: str, **changes: Any) -> list[dict[str, Any]]:
    return [each | changes if each["metadata"]["name"] == name else each for each in maps]


@pytest.mark.parametrize(
    ("maps", "reason"),
    [
        pytest.param(
            _with(_maps(FILES), _maps(FILES)[0]["metadata"]["name"], binaryData={"files": "AAAA"}),
            "the parts of the configuration do not belong together",
            id="a part that somebody changed",
        ),
        pytest.param(
            _with(_maps(FILES), _maps(FILES)[0]["metadata"]["name"], binaryData={"files": "!"}),
            "the configuration is damaged: Only base64 data is allowed",
            id="a part that is no base64",
        ),
        pytest.param(
            _with(_maps(FILES), INDEX, data={"format": "2"}),
            "the configuration has another format (2): use one version",
            id="another version's",
        ),
        pytest.param(
            _with(_maps(FILES), INDEX, data=None),
            "the configuration has another format (None): use one version",
            id="an index without anything",
        ),
        pytest.param(
            _maps({"../../etc/passwd": "x"}),
            "the configuration has a file outside its directory: ../../etc/passwd",
            id="a path that leads elsewhere",
        ),
        pytest.param(
            _maps({"/etc/passwd": "x"}),
            "the configuration has a file outside its directory: /etc/passwd",
            id="a path from the root",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(maps: list[dict[str, Any]], reason: str) -> None:
    assert read(maps) == Incomplete(reason)


def test_a_thousand_services_fit_into_one_part() -> None:
    routes = tuple(
        Route(
            f"team-{number % 40}/model-{number}",
            f"/team-{number % 40}/model-{number}/",
            tuple(
                Backend(
                    f"team-{number % 40}/model-{number}-{index:05x}",
                    ((f"10.{number % 200}.0.{index}", 80),),
                    prefix=f"/team-{number % 40}/model-{number}-{index:05x}/",
                )
                for index in range(3)
            ),
        )
        for number in range(1000)
    )
    written = render_files(Table((Listener("front-door", "0.0.0.0", 8080, routes),)))
    found = build_objects(written, "system")
    assert read([*found.chunks, found.index]) == Read(written)
    assert len(found.chunks) == 1


def _keys(number: int, changed: int = -1) -> dict[str, str]:
    hashes = (hashlib.sha256(str(each).encode()).hexdigest() for each in range(number))
    blocked = ("Key" if each == changed else "" for each in range(number))
    return {"private/keys.json": "".join(f"{each}{by}," for each, by in zip(hashes, blocked, strict=True))}


def test_private_files_are_secrets_and_read_again() -> None:
    found = build_objects(FILES, "gateway", Channel.PRIVATE)
    assert {each["kind"] for each in (*found.chunks, found.index)} == {"Secret"}
    assert read([*found.chunks, found.index], Channel.PRIVATE) == Read(FILES)
    damaged = found.index | {"data": {"format": "!"}}
    assert isinstance(read([*found.chunks, damaged], Channel.PRIVATE), Incomplete)


def test_the_index_names_the_private_files_that_belong_to_it() -> None:
    found = build_objects(FILES, "system", private=("private/keys.json",))
    assert read([*found.chunks, found.index]) == Read(FILES, ("private/keys.json",))
    outside = build_objects(FILES, "system", private=("../keys.json",))
    assert read([*outside.chunks, outside.index]) == Incomplete(
        "the configuration has a file outside its directory: ../keys.json"
    )


@pytest.mark.parametrize("changed", [0, 50_000, 99_999])
def test_the_change_of_one_key_makes_few_other_chunks(changed: int) -> None:
    before = build_objects(_keys(100_000), "gateway", Channel.PRIVATE)
    after = build_objects(_keys(100_000, changed), "gateway", Channel.PRIVATE, former=before)
    assert read([*after.chunks, after.index], Channel.PRIVATE) == Read(_keys(100_000, changed))
    known = {each["metadata"]["name"] for each in before.chunks}
    assert len(known) > 6
    assert 1 <= len([each for each in after.chunks if each["metadata"]["name"] not in known]) <= 4


@pytest.mark.parametrize("content", ["0" * 9_000_000, _noise(3000).replace("0", "1")])
def test_content_with_marks_everywhere_or_nowhere_is_published_too(content: str) -> None:
    found = build_objects({"a": content}, "gateway", Channel.PRIVATE)
    assert read([*found.chunks, found.index], Channel.PRIVATE) == Read({"a": content})
    assert len(found.chunks) < 20
    assert all(len(base64.b64decode(each["data"]["files"])) <= CHUNK_BYTES for each in found.chunks)
