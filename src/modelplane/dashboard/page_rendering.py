"""Rendering: templates that escape every value, and the fragments of a page that change while it is open."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

PER_PAGE: Final = 50
"""Rows of one page of a table."""

_FRAGMENTS: Final = "_fragments"


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered page, and the content of its fragments by id."""

    html: str
    fragments: Mapping[str, str]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Rows:
    """One page of a table; ``number`` counts from 1."""

    rows: Sequence[Any]
    total: int
    number: int
    last: int


def select_page(rows: Sequence[Any], number: int) -> Rows:
    """Return one page of rows; of a number beyond the last, the last."""
    last = max(math.ceil(len(rows) / PER_PAGE), 1)
    at = min(max(number, 1), last)
    return Rows(rows[(at - 1) * PER_PAGE : at * PER_PAGE], len(rows), at, last)


class Renderer:
    """Renders the templates of this package."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("modelplane.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(fragment=_fragment, link=build_path, with_query=build_query)
        self._environment.filters.update(age=_age, decimal=_decimal, number="{:,}".format)

    def render_page(self, template: str, values: Mapping[str, Any], status: int = 200) -> Page:
        """Render a page."""
        fragments: dict[str, str] = {}
        html = self._environment.get_template(template).render({**values, _FRAGMENTS: fragments})
        return Page(html, fragments, status)


@pass_context
def _fragment(context: Context, name: str, caller: Callable[[], Markup]) -> Markup:
    """Return a part of a page that is replaced when it changes; for ``call`` in templates."""
    content = caller()
    context[_FRAGMENTS][name] = str(content)
    return Markup('<div class="fragment" id="{}" data-live>{}</div>').format(name, content)


def build_path(*segments: str) -> str:
    """Return the path of a page."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def build_query(**values: object) -> str:
    """Return a query of the values that are not empty."""
    return "?" + urlencode({key: str(value) for key, value in values.items() if value})


def _age(at: str | datetime) -> Markup:
    """Return a time that the page's script shows as an age, and without it as a time of day."""
    if not at:
        return Markup("")
    text = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(at, datetime) else at
    return Markup('<time datetime="{}">{} UTC</time>').format(text, text[:19].replace("T", " "))


def _decimal(value: float) -> str:
    """Return a number with two significant digits, or as a whole number from 10 on."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"
