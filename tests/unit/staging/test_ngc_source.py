"""A version of a model of NVIDIA NGC: staged, or the cause; a stand-in has the shapes of its API."""

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import pytest

from support.weights_server import Fault, WeightsServer
from unit.staging.conftest import Volume

CONTENT = bytes(range(256)) * 20_000
FILES = {"config.json": b"{}", "weights/model-1.safetensors": CONTENT}
TEAM = {"org": "nim", "team": "meta", "model": "llama-3_1-8b", "version": "1.0+fp8"}
SOURCE = {"ngc": TEAM}
OWNED = "/v2/org/nim/team/meta/models/llama-3_1-8b"
LISTED = f"{OWNED}/versions/1.0+fp8/files"
SCOPED = "nvapi-secret"


def sha(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


class Catalogue:
    """A stand-in for NGC, whose files another host serves at signed addresses."""

    def __init__(self, volume: Volume, api: WeightsServer, store: WeightsServer) -> None:
        program = volume.program
        for written, here in (
            ('NGC = "https://api.ngc.nvidia.com"', f'NGC = "{api.url}"'),
            ('NGC_TOKENS = "https://authn.nvidia.com/token"', f'NGC_TOKENS = "{api.url}/token"'),
        ):
            assert program.count(written) == 1
            program = program.replace(written, here)
        self.volume, self.api, self.store = Volume(volume.path, program), api, store

    def publish(
        self, files: dict[str, bytes], listed: str = LISTED, download: str = f"{OWNED}/1.0+fp8/files"
    ) -> None:
        entries = [
            {"path": path, "sizeInBytes": len(content), "sha256_base64": sha(content)}
            for path, content in files.items()
        ]
        self.list(entries, listed)
        for path, content in files.items():
            url = self.store.add(f"/signed/{path}", content) + "?X-Amz-Signature=secret"
            found = {"filepath": [path], "urls": [url], "sha256_base64": [sha(content)]}
            self.api.add(f"{download}?path={quote_plus(path)}", json.dumps(found).encode())

    def list(self, entries: list[dict[str, Any]], listed: str = LISTED) -> None:
        """List files on two pages, as NGC counts them."""
        for number, page in enumerate((entries[:1], entries[1:])):
            body = {"modelFiles": page, "paginationInfo": {"index": number, "totalPages": 2}}
            query = "?page-size=500" + (f"&page-number={number}" if number else "")
            self.api.add(listed + query, json.dumps(body).encode())

    def stage(self, secret: str = SCOPED, source: dict[str, Any] = SOURCE) -> tuple[int, str]:
        return self.volume.stage(source, secret={"NGC_API_KEY": secret} if secret else {})


@pytest.fixture
def ngc(volume: Volume, server: WeightsServer, other_server: WeightsServer) -> Catalogue:
    found = Catalogue(volume, server, other_server)
    found.publish(FILES)
    return found


def test_a_version_is_staged_with_a_key_that_only_ngc_gets(ngc: Catalogue) -> None:
    ngc.api.token = SCOPED
    assert ngc.stage() == (0, "")
    assert ngc.volume.files() == FILES
    assert ngc.volume.marker()["source"] == "ngc"
    assert {asked.authorization for asked in ngc.store.asked} == {""}


def test_an_older_key_is_exchanged_for_a_token(ngc: Catalogue) -> None:
    ngc.api.token, ngc.api.account = "short-lived", "$oauthtoken:old-key"
    assert ngc.stage("old-key") == (0, "")
    assert ngc.volume.files() == FILES
    asked = next(each for each in ngc.api.asked if each.path.startswith("/token"))
    assert parse_qs(urlsplit(asked.path).query) == {
        "service": ["ngc"],
        "scope": ["group/ngc:nim", "group/ngc:nim/meta"],
    }


def test_without_a_key_a_guest_reads_public_models(ngc: Catalogue) -> None:
    ngc.api.files.clear()
    ngc.publish(
        FILES,
        listed="/v2/models/nim/meta/llama-3_1-8b/versions/1.0+fp8/files",
        download="/v2/models/org/nim/team/meta/llama-3_1-8b/1.0+fp8/files",
    )
    assert ngc.stage("") == (0, "")
    assert ngc.volume.files() == FILES
    assert {asked.authorization for asked in ngc.api.asked} == {""}


def test_a_model_may_belong_to_no_team(ngc: Catalogue) -> None:
    ngc.publish(
        FILES,
        listed="/v2/org/nim/models/llama-3_1-8b/versions/1.0+fp8/files",
        download="/v2/org/nim/models/llama-3_1-8b/1.0+fp8/files",
    )
    assert ngc.stage(source={"ngc": TEAM | {"team": ""}}) == (0, "")


def test_a_broken_connection_goes_on_with_another_address(ngc: Catalogue) -> None:
    ngc.store.faults["/signed/weights/model-1.safetensors"].append(Fault(cut_after=3_000_000))
    assert ngc.stage() == (0, "")
    assert ngc.volume.files() == FILES
    assert sum("model-1" in asked.path for asked in ngc.api.asked) == 2
    assert "bytes=3000000-" in {asked.range for asked in ngc.store.asked}


def test_a_file_that_is_another_than_listed_is_never_staged(ngc: Catalogue) -> None:
    ngc.store.add("/signed/config.json", b"[]")
    code, said = ngc.stage()
    assert (code, ngc.volume.files(), ngc.volume.marker()) == (65, {}, {})
    assert said.startswith("the checksum of config.json is ")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        pytest.param(
            {"path": "x", "sizeInBytes": 1, "sha256_base64": None},
            "NGC has no SHA-256 of 'x', which cannot be verified: use another source",
            id="no checksum",
        ),
        pytest.param(
            {"path": "x", "sizeInBytes": 1, "sha256_base64": "AAAA"},
            "NGC has no SHA-256 of 'x', which cannot be verified: use another source",
            id="a checksum of another length",
        ),
        pytest.param(
            {"path": "../x", "sizeInBytes": 1, "sha256_base64": sha(b"")},
            "'../x' is no name for a file of the volume",
            id="a name that leads out of the volume",
        ),
        pytest.param(
            {"sizeInBytes": 1},
            "the source describes itself wrongly: KeyError: 'path'",
            id="no name",
        ),
    ],
)
def test_what_cannot_be_verified_is_refused(ngc: Catalogue, entry: dict[str, Any], said: str) -> None:
    ngc.list([entry])
    assert ngc.stage() == (65, said)
    assert ngc.store.asked == []


@pytest.mark.parametrize(
    ("fault", "ended"),
    [
        pytest.param(Fault(401), (65, "{url} refuses access (401): correct the Secret"), id="another key"),
        pytest.param(Fault(404), (65, "{url} does not exist (404)"), id="no such version"),
        pytest.param(
            Fault(412),
            (65, "NGC asks to accept the terms of the model first: open it in the catalog"),
            id="terms that are not accepted",
        ),
        pytest.param(Fault(503), (1, "cannot stage the weights: {url} answers 503"), id="away"),
    ],
)
def test_what_ngc_says_is_the_cause(ngc: Catalogue, fault: Fault, ended: tuple[int, str]) -> None:
    ngc.api.faults[LISTED].extend([fault] * 10)
    code, said = ended
    assert ngc.stage() == (code, said.format(url=ngc.api.url + LISTED))


def test_an_address_in_clear_text_is_not_followed(ngc: Catalogue) -> None:
    found = json.dumps({"urls": ["ftp://127.0.0.2/config.json"]}).encode()
    ngc.api.add(f"{OWNED}/1.0+fp8/files?path=config.json", found)
    told = "NGC names an address of 'config.json' without HTTPS, which is not followed"
    assert ngc.stage() == (65, told)


def test_files_come_from_a_mirror(ngc: Catalogue) -> None:
    for path, content in FILES.items():
        ngc.store.add(f"/mirror/{path}", content)
    assert ngc.stage(source={"ngc": TEAM | {"mirrors": [f"{ngc.store.url}/mirror"]}}) == (0, "")
    assert ngc.volume.files() == FILES
    assert all(asked.path.startswith("/mirror/") for asked in ngc.store.asked)


def test_the_size_is_what_ngc_lists(ngc: Catalogue) -> None:
    assert ngc.volume.measure(SOURCE, {"NGC_API_KEY": SCOPED}) == (
        66,
        f"{len(CONTENT) + 2} bytes in 2 files",
    )
    assert ngc.store.asked == []
