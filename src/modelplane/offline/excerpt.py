"""Where in a file the fault of a device selector is, and the line that shows it.

One rule: a place that cannot be told exactly is that of the whole value. A folded or escaped text has other
lines than its file.
"""

import re
from typing import TYPE_CHECKING

from modelplane.offline.tree import Node
from modelplane.offline.yaml_errors import Place

if TYPE_CHECKING:
    from modelplane.cel import SelectorError

_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # YAML 1.1, and how places are counted


def locate(node: Node, error: "SelectorError", text: str) -> tuple[Place, tuple[str, ...]]:
    """Return where a selector's fault is in the file, and that line with a caret below it.

    Where the fault has no place of its own, the value's is returned, without lines.
    """
    if not error.line:
        return node.place, ()
    lines = _BREAK.split(text)
    place = _place(node, error, lines)
    if place is None:
        source = (error.expression.splitlines() or [""])[error.line - 1 : error.line] or [""]
        return node.place, _pointed(source[0], error.column)
    return place, _pointed(lines[place.line - 1], place.column)


def _place(node: Node, error: "SelectorError", lines: list[str]) -> Place | None:
    source = error.expression.split("\n")[error.line - 1 : error.line]
    if not source:
        return None
    if node.style == "|":
        line = node.place.line + error.line
        column = len(lines[line - 1]) - len(source[0]) if line <= len(lines) else -1
    else:
        line = node.place.line
        column = node.place.column - 1 + (1 if node.style else 0)
    if column < 0 or line > len(lines) or lines[line - 1][column : column + len(source[0])] != source[0]:
        return None
    return Place(line, column + error.column)


def _pointed(line: str, column: int) -> tuple[str, ...]:
    plain = "".join(character if character.isprintable() else " " for character in line)
    cut = max(column - 100, 0)
    return (plain[cut : cut + 160].rstrip(), " " * (column - 1 - cut) + "^")
