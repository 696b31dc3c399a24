"""Files of web servers that truncate, corrupt, stall and refuse: staged, or the cause; never a wrong file."""

import hashlib
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from modelplane.gateway import destinations
from support.weights_server import OVERLOADED, Fault, WeightsServer
from unit.staging.conftest import Volume

CONTENT = bytes(range(256)) * 20_000
"""Five megabytes, so that a part of them counts as progress."""


def source(server: WeightsServer, **files: bytes) -> dict[str, Any]:
    entries = [
        {
            "path": name.replace("__", "/"),
            "url": server.add(f"/{name}", content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for name, content in files.items()
    ]
    return {"http": {"files": entries}}


def test_files_are_staged_and_the_marker_says_which(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, config=b"{}", weights__x=CONTENT)
    assert volume.stage(wanted) == (0, "")
    assert volume.files() == {"config": b"{}", "weights/x": CONTENT}
    assert volume.marker() == {"artifact": "a", "source": "http"}
    before = len(server.asked)
    assert volume.stage(wanted) == (0, "")
    assert len(server.asked) == before, "what is there is not downloaded again"


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(cut_after=3_000_000)], id="truncated"),
        pytest.param([Fault(cut_after=3_000_000), Fault(whole=True)], id="truncated, and ranges are ignored"),
        pytest.param([Fault(cut_after=0)] * 3, id="truncated at once, three times"),
        pytest.param([Fault(flipped=True)], id="corrupted once"),
        pytest.param([OVERLOADED] * 3, id="429"),
        pytest.param([Fault(503), Fault(500), Fault(408)], id="other answers that pass"),
    ],
)
def test_what_passes_is_overcome(volume: Volume, server: WeightsServer, faults: list[Fault]) -> None:
    wanted = source(server, weights=CONTENT)
    server.faults["/weights"].extend(faults)
    assert volume.stage(wanted) == (0, "")
    assert volume.files() == {"weights": CONTENT}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(cut_after=2_000_000, stalls=True), id="a stall"),
        pytest.param(Fault(cut_after=2_000_000, trickles=True), id="a trickle"),
    ],
)
def test_a_connection_that_is_too_slow_is_given_up(
    impatient: Volume, server: WeightsServer, fault: Fault
) -> None:
    wanted = source(server, weights=CONTENT)
    server.faults["/weights"].append(fault)
    assert impatient.stage(wanted) == (0, "")
    assert impatient.files() == {"weights": CONTENT}
    assert len(server.asked) > 1


def test_a_broken_connection_goes_on_where_it_broke(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, weights=CONTENT)
    server.faults["/weights"].append(Fault(cut_after=3_000_000))
    assert volume.stage(wanted) == (0, "")
    assert [asked.range for asked in server.asked] == ["", "bytes=3000000-"]


@pytest.mark.parametrize(
    ("fault", "ended"),
    [
        pytest.param(Fault(404), (65, "{url} does not exist (404)"), id="no such file"),
        pytest.param(Fault(403), (65, "{url} refuses access (403): correct the Secret"), id="no access"),
        pytest.param(Fault(418), (65, "{url} answers 418"), id="another refusal"),
        pytest.param(
            Fault(flipped=True),
            (65, "the checksum of weights is {found}, and must be {wanted}"),
            id="corrupted each time",
        ),
        pytest.param(OVERLOADED, (1, "cannot stage the weights: {url} answers 429"), id="429 for long"),
        pytest.param(
            Fault(cut_after=10),
            (
                1,
                "cannot stage the weights: weights broke off after 40 of 5120000 bytes",
            ),
            id="truncated each time",
        ),
        pytest.param(
            Fault(302, {"Location": "ftp://127.0.0.1/x"}),
            (65, "{url} redirects to ftp, which is not followed"),
            id="a redirect to another scheme",
        ),
        pytest.param(
            Fault(302, {"Location": "file:///etc/passwd"}),
            (65, "{url} answers 302"),
            id="a redirect to a file",
        ),
    ],
)
def test_what_does_not_pass_is_the_cause(
    volume: Volume, server: WeightsServer, fault: Fault, ended: tuple[int, str]
) -> None:
    volume.stage(source(server, before=b"1"), artifact="before")
    wanted = source(server, weights=CONTENT)
    server.faults["/weights"].extend([fault] * 50)
    changed = hashlib.sha256(bytes([CONTENT[0] ^ 1]) + CONTENT[1:]).hexdigest()
    sha256 = wanted["http"]["files"][0]["sha256"]
    code, said = ended
    told = said.format(url=f"{server.url}/weights", found=changed, wanted=sha256)
    assert volume.stage(wanted) == (code, told)
    assert (volume.files(), volume.marker()["artifact"]) == ({"before": b"1"}, "before")


def test_a_file_that_is_another_than_named_is_never_staged(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, weights=CONTENT)
    server.add("/weights", CONTENT + b"more")
    code, _ = volume.stage(wanted)
    assert (code, volume.files(), volume.marker()) == (65, {}, {})


def test_a_token_does_not_follow_a_redirect_to_another_host(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    wanted = source(server, weights=CONTENT, near=b"2")
    server.token = "secret"
    server.faults["/weights"].append(Fault(302, {"Location": other_server.add("/elsewhere", CONTENT)}))
    server.faults["/near"].append(Fault(302, {"Location": "/weights"}))
    wanted["http"]["files"][1]["sha256"] = wanted["http"]["files"][0]["sha256"]
    assert volume.stage(wanted, secret={"TOKEN": "secret"}) == (0, "")
    assert {asked.authorization for asked in server.asked} == {"Bearer secret"}
    assert [(asked.path, asked.authorization) for asked in other_server.asked] == [("/elsewhere", "")]


def test_a_token_is_in_no_message(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, weights=CONTENT)
    server.token = "secret"
    told = f"no request can be made for {server.url}/weights: correct the URL or the Secret"
    assert volume.stage(wanted, secret={"TOKEN": "secret\nline"}) == (65, told)
    assert volume.stage(wanted, secret={"TOKEN": "secret\n"}) == (0, "")


def test_redirects_are_few(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, weights=CONTENT)
    server.faults["/weights"].extend([Fault(302, {"Location": f"/weights?{number}"}) for number in range(20)])
    code, said = volume.stage(wanted)
    assert (code, said) == (65, f"{server.url}/weights answers 302")


def test_the_query_of_a_url_is_not_repeated(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, weights=CONTENT)
    wanted["http"]["files"][0]["url"] += "?X-Amz-Signature=secret"
    server.faults["/weights"].append(Fault(404))
    assert volume.stage(wanted) == (65, f"{server.url}/weights does not exist (404)")


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::1]"])
def test_no_connection_leads_to_the_machine_itself(
    volume: Volume, server: WeightsServer, address: str
) -> None:
    wanted = source(server, weights=CONTENT)
    wanted["http"]["files"][0]["url"] = server.url.replace("127.0.0.1", address) + "/weights"
    code, said = volume.stage(wanted, local=False)
    assert code == 65
    assert said.endswith("is the machine's own or its cloud's: name another host")
    assert server.asked == []


def test_the_addresses_that_no_connection_leads_to_are_those_of_the_gateway(volume: Volume) -> None:
    refused = [
        cidr.partition("/")[0] for version in (4, 6) for cidr in destinations.MACHINE_SERVICES[version]
    ]
    asks = "\n".join(
        f"try: guard('socket.connect', (None, ({address!r}, 80)))\nexcept Hopeless: print({address!r})"
        for address in (*refused, "64:ff9b::a9fe:a9fe", "10.0.0.1", "2001:db8::1")
    )
    program = volume.program.rpartition('\nif __name__ == "__main__":')[0] + f"\n{asks}\n"
    done = subprocess.run(volume.command(program), capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*refused, "64:ff9b::a9fe:a9fe"]


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "a//x", "..", ".modelplane-former/x", "a\nb", "\\"]
)
def test_no_name_leads_out_of_the_volume(volume: Volume, server: WeightsServer, name: str) -> None:
    wanted = source(server, weights=b"1")
    wanted["http"]["files"][0]["path"] = name
    code, said = volume.stage(wanted)
    assert code == 65
    assert "for a file of the volume" in said or "that the volume itself uses" in said
    assert not (volume.path.parent / "x").exists()


def test_files_that_are_larger_than_the_volume_end_early(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, weights=CONTENT)
    code, said = volume.stage(wanted, limit=1 << 20)
    assert (code, said) == (65, "the files are larger than sizeGiB, which is 0: raise it")
    assert volume.files() == {}


def test_a_full_disk_is_the_cause(volume: Volume, server: WeightsServer) -> None:
    full = volume.program.replace(
        "written.write(piece)", "raise OSError(errno.ENOSPC, 'No space left on device')"
    )
    assert full != volume.program
    wanted = source(server, weights=CONTENT)
    told = "the volume is full: raise sizeGiB; new weights need room beside the old ones"
    assert Volume(volume.path, full).stage(wanted) == (65, told)


def test_a_killed_program_goes_on_and_harms_nothing(volume: Volume, server: WeightsServer) -> None:
    volume.stage(source(server, before=b"1"), artifact="before")
    wanted = source(server, weights=CONTENT)
    server.faults["/weights"].append(Fault(cut_after=3_000_000, stalls=True))
    running = subprocess.Popen(volume.command(), env=volume.environment("a", wanted))
    staging = volume.path / ".modelplane-staging"
    deadline = time.monotonic() + 60
    while sum(_size(path) for path in staging.rglob("*")) < 1_000_000:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert (volume.files(), volume.marker()["artifact"]) == ({"before": b"1"}, "before")
    assert volume.stage(wanted) == (0, "")
    assert volume.files() == {"weights": CONTENT}
    assert server.asked[-1].range != ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


def test_other_files_take_the_place_of_the_first_and_open_ones_stay_readable(
    volume: Volume, server: WeightsServer
) -> None:
    volume.stage(source(server, shard=b"old", old__x=b"2"), artifact="a")
    with (volume.path / "shard").open("rb") as engine:
        assert volume.stage(source(server, shard=b"new", old=b"file"), artifact="b") == (0, "")
        assert (volume.files(), engine.read()) == ({"shard": b"new", "old": b"file"}, b"old")


def test_the_size_is_what_the_servers_say_and_nothing_is_downloaded(
    volume: Volume, server: WeightsServer
) -> None:
    server.faults["/weights"].append(OVERLOADED)
    assert volume.measure(source(server, weights=CONTENT, config=b"{}")) == (66, "5120002 bytes in 2 files")
    server.faults["/weights"].append(Fault(404))
    told = f"{server.url}/weights does not exist (404)"
    assert volume.measure(source(server, weights=CONTENT)) == (65, told)
    assert list(volume.path.iterdir()) == []
