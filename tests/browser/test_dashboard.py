"""The dashboard in a real browser: what it shows, asks for, and tells a screen reader."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from modelplane.dashboard.pages import Pages, View
from modelplane.dashboard.server import Server
from support import shown_fleet
from support.browser import CHROMIUM, Tab, tab

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "pictures"
PATHS = (
    "/",
    "/clusters/eu-north-a",
    "/deployments",
    "/deployments/ml-team/llama-70b",
    "/services",
    "/services/ml-team/qwen-14b",
    "/replicas/ml-team/llama-70b-eu-north-a",
    "/events",
    "/plan",
    "/none",
)

WIDER_THAN_THE_WINDOW = "document.documentElement.scrollWidth > window.innerWidth"

FAINT = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parsed(getComputedStyle(each).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  for (const each of document.querySelectorAll("body *")) {
    const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || each.closest("[aria-hidden], .hidden, .skip")) continue;
    const [a, b] = [light(parsed(getComputedStyle(each).color)), light(behind(each))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(each.outerHTML.slice(0, 120));
  }
  return faint;
})()
"""
"""Texts whose contrast is below that of WCAG 2.2, level AA."""


@dataclass
class Shown:
    """A browser, and the dashboard that it looks at."""

    tab: Tab
    address: str
    view: View

    async def open(self, path: str) -> None:
        await self.tab.open(f"{self.address.split('/?')[0]}{path}")


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    fleet = shown_fleet.small(shown_fleet.now())
    view = fleet.view(shown_fleet.traffic_of(fleet), version="1")
    async with tab() as opened:
        holder = Shown(opened, "", view)
        async with Server(Pages("this machine"), lambda: holder.view).serve(0) as address:
            holder.address = address
            await opened.look()
            await opened.open(address)
            yield holder
        await opened.send("Page.navigate", url="about:blank")


async def test_pages_need_no_other_server_and_break_no_policy(shown):
    for path in PATHS:
        await shown.open(path)
        assert await shown.tab.evaluate("document.querySelectorAll('main h1').length") == 1
    base = shown.address.split("/?")[0]

    assert [each for each in shown.tab.requests if not each.startswith(base)] == []
    assert [each for each in shown.tab.complaints if "404" not in each] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_texts_are_legible_and_pages_fit_wide_and_narrow_windows(shown, dark):
    for width, height in ((1280, 800), (360, 740)):
        await shown.tab.look(dark=dark, width=width, height=height, touch=width < 500)
        for path in PATHS:
            await shown.open(path)
            assert await shown.tab.evaluate(FAINT) == [], (path, width)
            assert not await shown.tab.evaluate(WIDER_THAN_THE_WINDOW), (path, width)


async def test_a_change_reaches_the_open_page_and_replaces_only_what_changed(shown):
    await shown.open("/")
    await shown.tab.until("document.querySelector('#pulse.live') !== null")
    await shown.tab.evaluate(
        "document.querySelector('#region-us-east').firstElementChild.dataset.kept = 'yes'"
    )
    await shown.tab.evaluate("document.querySelector('#region-eu-west a').focus()")

    changed = shown_fleet.small(shown.view.now)
    condition = next(
        each for each in changed.objects["InferenceCluster"] if each["metadata"]["name"] == "eu-west-b"
    )
    condition["status"]["conditions"][0] |= {"status": "True", "message": ""}
    shown.view = replace(changed.view(version="2"), rates=shown.view.rates)

    await shown.tab.until("document.querySelector('#region-eu-west .state.bad') === null")
    assert (
        await shown.tab.evaluate("document.querySelector('#region-us-east').firstElementChild.dataset.kept")
        == "yes"
    )
    assert await shown.tab.evaluate("document.activeElement.getAttribute('href')") == "/clusters/eu-west-a"


async def test_a_page_whose_parts_change_is_loaded_anew(shown):
    await shown.open("/")
    await shown.tab.until("document.querySelector('#pulse.live') !== null")

    changed = shown_fleet.small(shown.view.now)
    changed.cluster("ap-south-a", "ap-south", {"l4": 1})
    shown.view = changed.view(version="2")

    await shown.tab.until("document.querySelector('#region-ap-south') !== null")


async def test_a_server_that_is_gone_is_not_shown_as_live(shown):
    await shown.open("/")
    await shown.tab.until("document.querySelector('#pulse.live') !== null")

    await shown.tab.evaluate("close(); heard -= 60000; showPulse()")

    assert "Not live" in await shown.tab.evaluate("document.getElementById('pulse').textContent")


async def test_a_copy_that_may_be_stale_is_not_shown_as_live(shown):
    await shown.open("/")
    await shown.tab.until("document.querySelector('#pulse.live') !== null")

    shown.view = replace(shown.view, problems=("modelreplicas: no answer",), version="2")

    await shown.tab.until("document.getElementById('pulse').textContent === 'Out of date'")
    assert await shown.tab.evaluate("document.querySelector('#problems').textContent.includes('no answer')")


async def test_the_keyboard_reaches_the_content_first_and_shows_where_it_is(shown):
    await shown.open("/")
    await shown.tab.press_tab()
    assert await shown.tab.evaluate("document.activeElement.className") == "skip"
    assert await shown.tab.evaluate("document.activeElement.getBoundingClientRect().top >= 0")

    await shown.tab.press_tab()
    assert await shown.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


async def test_a_screen_reader_is_given_landmarks_headings_and_named_states(shown):
    await shown.open("/")
    nodes = await shown.tab.accessible()
    roles = [node["role"]["value"] for node in nodes]
    names = [str(node.get("name", {}).get("value", "")) for node in nodes]

    assert {"banner", "main", "contentinfo", "navigation", "columnheader", "rowheader"} <= set(roles)
    assert "Needs attention" in names
    assert any("eu-west-b" in each and "Unreachable" in each for each in names)
    links = [name for role, name in zip(roles, names, strict=True) if role == "link"]
    assert all(links)


async def test_a_manifest_is_planned_in_the_page(shown):
    await shown.open("/plan")
    await shown.tab.evaluate("document.getElementById('manifest').value = '{'")
    await shown.tab.evaluate("document.querySelector('form.plan button').click()")

    await shown.tab.until("document.body.textContent.includes('The manifest has errors')")


async def test_a_thousand_clusters_are_drawn_and_pictures_are_made(shown, tmp_path):
    folder = PICTURES if os.environ.get("MODELPLANE_PICTURES") else tmp_path
    folder.mkdir(exist_ok=True)
    wide = {"width": 1120, "height": 700}
    await shown.open("/")
    await shown.tab.look(**wide)
    await shown.tab.picture(folder / "dashboard-light.png")
    await shown.open("/deployments/ml-team/llama-70b")
    await shown.tab.picture(folder / "dashboard-deployment.png")
    await shown.open("/plan")  # which has no stream that would load it anew
    shown.view = shown_fleet.large(shown.view.now, 1000).view(version="2")
    await shown.tab.look(dark=True, **wide)
    await shown.open("/")
    await shown.tab.evaluate("document.getElementById('map-title').scrollIntoView()")
    await shown.tab.picture(folder / "dashboard-1000.png")

    assert await shown.tab.evaluate("document.querySelectorAll('a.cell').length") == 1000
    assert len(list(folder.glob("*.png"))) == 3
