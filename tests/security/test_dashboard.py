"""Attacks on the dashboard: from other sites, from other users, and by the texts of tenants."""

import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import aiohttp
import pytest
from rich.console import Console
from yarl import URL

from modelplane.cli.inspect.top import build_screen
from modelplane.dashboard.pages import Pages
from modelplane.dashboard.server import Server
from support import shown_fleet

NOW = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)
EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J{{7*7}}"


class Address:
    """A dashboard that runs, and the parts of its address."""

    def __init__(self, address: str) -> None:
        self.full = address
        self.base, self.key = address.split("/?key=")
        self.port = self.base.rpartition(":")[2]

    @property
    def cookie(self) -> dict[str, str]:
        return {"Cookie": f"modelplane-{self.port}={self.key}"}


@pytest.fixture
async def dashboard() -> AsyncIterator[Address]:
    view = shown_fleet.small(NOW).view()
    async with Server(Pages("a test"), lambda: view).serve(0) as address:
        yield Address(address)


async def ask(method: str, url: str | URL, **options: Any) -> tuple[int, str, dict[str, str]]:
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.request(method, url, allow_redirects=False, **options) as answer,
    ):
        return answer.status, await answer.text(), dict(answer.headers)


async def test_the_printed_address_admits_a_browser_and_leaves_no_key_in_it(dashboard: Address) -> None:
    status, _, headers = await ask("GET", dashboard.full)
    assert (status, headers["Location"]) == (303, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]

    status, text, _ = await ask("GET", dashboard.base, headers=dashboard.cookie)
    assert status == 200
    assert "eu-north-a" in text
    assert dashboard.key not in text


@pytest.mark.parametrize(
    "path", ["/", "/live?page=/", "/static/page.js", "/services", "/?key=", "/?key=%C3%A9"]
)
async def test_another_user_of_the_machine_is_refused(dashboard: Address, path: str) -> None:
    status, text, _ = await ask("GET", f"{dashboard.base}{path}")

    assert status == 403
    assert "eu-north-a" not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}"]
)
async def test_a_name_that_was_rebound_to_loopback_is_refused(dashboard: Address, host: str) -> None:
    headers = {**dashboard.cookie, "Host": host.format(port=dashboard.port)}
    status, text, _ = await ask("GET", dashboard.base, headers=headers)

    assert status == 421
    assert "eu-north-a" not in text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", ""]
)
async def test_another_site_cannot_read_or_plan(dashboard: Address, origin: str) -> None:
    headers = {**dashboard.cookie, "Origin": origin.format(port=dashboard.port)}

    assert (await ask("GET", dashboard.base, headers=headers))[0] == 403
    assert (await ask("POST", f"{dashboard.base}/plan", headers=headers, data={"manifest": "{}"}))[0] == 403


async def test_a_plan_that_does_not_say_its_site_is_refused(dashboard: Address) -> None:
    status, _, _ = await ask(
        "POST", f"{dashboard.base}/plan", headers=dashboard.cookie, data={"manifest": "{}"}
    )

    assert status == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
async def test_there_is_nothing_that_writes(dashboard: Address, method: str) -> None:
    headers = {**dashboard.cookie, "Origin": dashboard.base}
    status, _, _ = await ask(method, f"{dashboard.base}/deployments/ml-team/llama-70b", headers=headers)

    assert status == 405


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/%2e%2e/server.py", "/static/%2e%2e%2fserver.py", "/static/server.py"],
)
async def test_only_the_pages_own_files_are_served(dashboard: Address, path: str) -> None:
    status, text, _ = await ask("GET", URL(f"{dashboard.base}{path}", encoded=True), headers=dashboard.cookie)

    assert status == 404
    assert "aiohttp" not in text


async def test_every_answer_forbids_scripts_of_others_and_frames(dashboard: Address) -> None:
    for path in ("/", "/none", "/static/page.js"):
        _, _, headers = await ask("GET", f"{dashboard.base}{path}", headers=dashboard.cookie)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["Cache-Control"] == "no-store"


async def test_a_manifest_that_is_too_long_is_refused(dashboard: Address) -> None:
    headers = {**dashboard.cookie, "Origin": dashboard.base}
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    for length in (300_000, 3_000_000):
        body = io.BytesIO(b"manifest=" + b"x" * length)
        status, _, _ = await ask("POST", f"{dashboard.base}/plan", headers=headers, data=body)
        assert status == 413


class _Parsed(HTMLParser):
    """Tags of a page, and what could run a script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.handlers: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))
        self.handlers += [
            name for name, value in attrs if name.startswith("on") or (value or "").startswith("javascript:")
        ]


def poisoned() -> shown_fleet.ShownFleet:
    """Return a fleet in which every text that a tenant or a cluster may write is hostile."""
    fleet = shown_fleet.small(NOW)
    for items in fleet.objects.values():
        for item in items:
            for condition in item.get("status", {}).get("conditions", ()):
                condition["message"] = condition["reason"] = EVIL
                condition["status"] = "False"
            item["metadata"].setdefault("annotations", {})["note"] = EVIL
            item["metadata"].setdefault("labels", {})["label"] = EVIL
    for item in fleet.objects["InferenceCluster"]:
        item["metadata"]["labels"]["modelplane.ai/region"] = EVIL
    for item in fleet.objects["ModelService"]:
        item["status"]["address"] = EVIL
    for item in fleet.objects["Event"]:
        item["note"] = item["reason"] = EVIL
    fleet.cluster(EVIL, EVIL, {"l4": 1}, EVIL)
    fleet.deployment(f"model{EVIL}", "l4", 1, [EVIL], namespace=f"team{EVIL}")
    return fleet


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/clusters/eu-north-a",
        "/deployments",
        "/deployments/ml-team/llama-70b",
        "/services",
        "/services/ml-team/qwen-14b",
        "/replicas/ml-team/llama-70b-eu-north-a",
        "/events",
        "/plan",
        f"/{EVIL}",
        f"/clusters/{EVIL.replace('/', '%2F')}",
    ],
)
def test_texts_of_tenants_are_texts(path: str) -> None:
    view = poisoned().view(problems=(EVIL,), traffic_problem=EVIL)
    page = Pages(EVIL).render(path, {"q": EVIL}, view)
    parsed = _Parsed(page.html)

    assert parsed.scripts == ["/static/page.js"]
    assert parsed.handlers == []
    assert "&lt;script&gt;alert(1)" in page.html
    assert "{{7*7}}" in page.html


def test_a_planned_manifest_is_a_text() -> None:
    page = Pages("a test").plan(f"</textarea>{EVIL}", shown_fleet.small(NOW).view())

    assert _Parsed(page.html).scripts == ["/static/page.js"]


def test_texts_of_tenants_do_not_change_the_terminal() -> None:
    view = poisoned().view(problems=(EVIL,))
    console = Console(width=400, color_system=None)
    with console.capture() as printed:
        console.print(build_screen(view, None))

    assert "\x1b" not in printed.get()
    assert "<script>" in printed.get()
