"""Values, names and paths as they are written into a sentence.

One rule: whatever a file holds, a sentence stays one line of printable characters.
"""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

Path = tuple[str | int, ...]
"""Where a value is in an object: names of fields and positions in lists."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MOST_CHOICES = 8
_LONGEST_NAME = 64  # the longest for which another one is looked for


def shortened(text: str, most: int = 80) -> str:
    """Return a text on one line, with its end left out where it is long."""
    text = text if len(text) <= most else f"{text[: most - 3]}..."
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if character < " " else f"\\u{ord(character):04x}"


def shown(value: Any) -> str:
    """Return a value as a sentence names it: a text in quotes, a number bare, a collection by its kind."""
    match value:
        case str():
            return f'"{shortened(value)}"'
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return shortened(json.dumps(value))


def field(path: Path) -> str:
    """Return a path as text, such as ``spec.engines[0].name``."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step if isinstance(step, int) else shortened(step)}]"
    return text


def nearest(name: str, known: Iterable[str], least: float = 0.7) -> str:
    """Return the known name that was probably meant; empty where none is near."""
    if len(name) > _LONGEST_NAME:
        return ""
    by_form = {_form(each): each for each in known}
    if (form := _form(name)) in by_form:
        return by_form[form]
    found = difflib.get_close_matches(form, by_form, n=1, cutoff=least)
    return by_form[found[0]] if found else ""


def _form(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def choice(options: Sequence[Any]) -> str:
    """Return the values that a field may have, in their order."""
    texts = [str(option) for option in options]
    if len(texts) > _MOST_CHOICES:
        return f"{', '.join(texts[:_MOST_CHOICES])} and {len(texts) - _MOST_CHOICES} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
