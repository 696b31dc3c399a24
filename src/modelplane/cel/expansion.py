"""Size of a selector once its macros are expanded.

`a.optMap(x, e)` and `a.optFlatMap(x, e)` write `a` twice, in the compiler as in Kubernetes, so a chain of
them doubles with each. The size is estimated from the text, before the compiler expands it.
"""

import re
from typing import Final

import msgspec

from modelplane.cel import source

LIMIT: Final = 2**14
"""Characters: more than the longest selector without such a macro (10 KiB), and compiled in under 0.3 s."""

_TOKENS: Final = re.compile(
    r"""
      (?P<doubles>\.\s*opt(?:Flat)?Map\s*)(?=\()
    | (?P<opens>[(\[{])
    | (?P<closes>[)\]}])
    | \.\s*\?                                       # optional selection: the chain goes on
    | (?P<separates>[-+*/%!<>=&|?:,]|\bin\b)
    """,
    re.VERBOSE | re.ASCII,
)


class _Level(msgspec.Struct):
    """An expression in brackets: the size before its last operand, and that operand."""

    before: int = 0
    operand: int = 0
    depth: int = 0
    """Doubling macros around the start of the operand."""
    deepest: int = 0

    def double(self) -> None:
        self.operand *= 2
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)

    def separate(self) -> None:
        self.before += self.operand
        self.operand = self.depth = 0

    def enclose(self, inner: "_Level") -> None:
        """Take a bracketed expression into the operand."""
        self.operand += inner.before + inner.operand
        self.depth = max(self.depth, inner.deepest)
        self.deepest = max(self.deepest, inner.deepest)


def excess(text: str) -> str:
    """Return why the expanded text is too large; empty if it is not."""
    size, depth = _expanded(source.without_texts(text))
    if size <= LIMIT:
        return ""
    return f"optMap nested {depth} deep expands the selector beyond {LIMIT:,} characters: nest fewer"


def _expanded(shown: str) -> tuple[int, int]:
    """Return the size of a text after expansion, and how deep its doubling macros are nested."""
    levels = [_Level()]
    end = 0
    for token in _TOKENS.finditer(shown):
        levels[-1].operand += token.start() - end
        end = token.end()
        if token["doubles"]:
            levels[-1].double()
        elif token["separates"]:
            levels[-1].separate()
        elif token["opens"]:
            levels.append(_Level())
        elif token["closes"] and len(levels) > 1:
            levels[-2].enclose(levels.pop())
        levels[-1].operand += len(token[0])
    levels[-1].operand += len(shown) - end
    while len(levels) > 1:
        levels[-2].enclose(levels.pop())
    return levels[0].before + levels[0].operand, levels[0].deepest
