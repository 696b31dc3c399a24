"""Selectors made at random: well-formed, and mostly, but not always, well-typed.

One rule: a selector depends on the random numbers only, so that a seed repeats it.
"""

import random
from collections.abc import Callable

_DOMAINS = ("gpu.nvidia.com", "dra.net", "nope")
_NAMES = ("architecture", "index", "ecc", "cudaComputeCapability", "uuid", "mtu", "nope")
_CAPACITIES = ("memory", "cores", "bandwidth")
_STRINGS = (
    '"a"',
    '"Hopper"',
    '"gpu.nvidia.com"',
    '""',
    '"1"',
    '"é😀"',
    '"1Gi"',
    '"a.b-c"',
    '"10.0.0.1"',
    "'x,y'",
)
_INTS = ("0", "1", "2", "-1", "3", "9000", "9223372036854775807", "-9223372036854775808")
_DOUBLES = ("0.0", "1.5", "3.0", "-2.5", "1e18", "9007199254740993.0")
_UINTS = ("0u", "1u", "3u", "18446744073709551615u")
_QUANTITIES = ('"1Gi"', '"40Gi"', '"500m"', '"1"', '"1.5"', '"-1"', '"1K"', '"9Ei"', '"0.1n"', '"1e3"')
_VERSIONS = ('"9.0.0"', '"1.2.3-rc.1"', '"1.2"', '"v1.2.3"', '"1.2.3+a"', '"01.2.3"')
_PATTERNS = ('"[a-z]+"', '"^H"', '"(a|o)*"', '"."', '"x"', '"[0-9]*"', '"\\\\."')
_ORDER = ("<", "<=", ">", ">=", "==", "!=")
_DURATIONS = ('"1s"', '"90m"', '"1.5h"', '"-1ms"', '"0"')
_TIMESTAMPS = ('"2020-01-01T00:00:00Z"', '"2024-02-29T23:59:59.5+01:00"', '"0001-01-01T00:00:00Z"')


class Grammar:
    """Makes selectors from random numbers."""

    def __init__(self, numbers: random.Random, *, listed: bool = False) -> None:
        """Make selectors of all of CEL, or only of what Modelplane lists."""
        self.numbers = numbers
        self.variables: list[tuple[str, str]] = []
        self.makers = _LISTED_MAKERS if listed else _MAKERS

    def selector(self, depth: int = 4) -> str:
        """Return a selector."""
        self.variables.clear()
        return self.make("bool", depth)

    def make(self, kind: str, depth: int) -> str:
        """Return an expression of a type, or now and then of another one."""
        if self.numbers.random() < 0.03:
            kind = self.numbers.choice(sorted(self.makers))
        known = [name for name, its in self.variables if its == kind]
        if known and self.numbers.random() < 0.4:
            return self.numbers.choice(known)
        small, large = self.makers[kind]
        return self.numbers.choice(small if depth <= 0 or self.numbers.random() < 0.15 else large)(
            self, depth - 1
        )

    def one(self, *texts: str) -> str:
        """Return one of some texts."""
        return self.numbers.choice(texts)

    def inside(self, variable: str, kind: str, result: str, depth: int) -> str:
        """Return an expression in which a variable is known."""
        self.variables.append((variable, kind))
        try:
            return self.make(result, depth)
        finally:
            self.variables.pop()


_Make = Callable[[Grammar, int], str]


def _of(*texts: str) -> _Make:
    return lambda grammar, _: grammar.numbers.choice(texts)


def _filled(template: str, *kinds: str) -> _Make:
    return lambda grammar, depth: template.format(*(grammar.make(kind, depth) for kind in kinds))


def _compared(kind: str) -> _Make:
    return lambda grammar, depth: (
        f"{grammar.make(kind, depth)} {grammar.one(*_ORDER)} {grammar.make(kind, depth)}"
    )


def _attribute(grammar: Grammar, _: int) -> str:
    return f'device.attributes["{grammar.one(*_DOMAINS)}"].{grammar.one(*_NAMES)}'


def _capacity(grammar: Grammar, _: int) -> str:
    return f'device.capacity["{grammar.one(*_DOMAINS)}"].{grammar.one(*_CAPACITIES)}'


def _looped(macro: str, result: str, kind: str) -> _Make:
    def make(grammar: Grammar, depth: int) -> str:
        variable = grammar.one("x", "y", "z")
        items = grammar.make(f"list<{kind}>", depth)
        return f"{items}.{macro}({variable}, {grammar.inside(variable, kind, result, depth)})"

    return make


def _bound(result: str) -> _Make:
    def make(grammar: Grammar, depth: int) -> str:
        variable, kind = grammar.one("x", "y", "z"), grammar.one("int", "string", "any", "list<int>")
        value = grammar.make(kind, depth)
        return f"cel.bind({variable}, {value}, {grammar.inside(variable, kind, result, depth)})"

    return make


def _listed(kind: str) -> _Make:
    return lambda grammar, depth: (
        f"[{', '.join(grammar.make(kind, depth) for _ in range(1 + grammar.numbers.randrange(3)))}]"
    )


_BOOL: tuple[_Make, ...] = (
    _filled("({} && {})", "bool", "bool"),
    _filled("({} || {})", "bool", "bool"),
    _filled("!{}", "bool"),
    _filled("({} ? {} : {})", "bool", "bool", "bool"),
    *(map(_compared, ("int", "double", "string", "any", "bool", "duration", "timestamp", "uint"))),
    lambda grammar, depth: (
        f"{grammar.make('int', depth)} {grammar.one(*_ORDER)} "
        f"{grammar.make(grammar.one('double', 'any', 'uint'), depth)}"
    ),
    lambda grammar, depth: (
        f"{grammar.make('any', depth)} == {grammar.make(grammar.one('int', 'string', 'semver'), depth)}"
    ),
    _filled("{}.isGreaterThan({})", "quantity", "quantity"),
    _filled("{}.compareTo({}) >= 0", "quantity", "quantity"),
    _filled("{}.isLessThan({})", "semver", "semver"),
    _filled("{} == {}", "quantity", "quantity"),
    _filled("{}.isInteger()", "quantity"),
    lambda grammar, depth: f"has({_attribute(grammar, depth)})",
    lambda grammar, _: f'"{grammar.one(*_DOMAINS)}" in device.{grammar.one("attributes", "capacity")}',
    _filled("{} in {}", "int", "list<int>"),
    _filled("{} in {}", "any", "list<string>"),
    _filled("{}.contains({})", "string", "string"),
    _filled("{}.startsWith({})", "string", "string"),
    lambda grammar, depth: f"{grammar.make('string', depth)}.matches({grammar.one(*_PATTERNS)})",
    _looped("all", "bool", "int"),
    _looped("exists", "bool", "int"),
    _looped("exists_one", "bool", "string"),
    _bound("bool"),
    _filled("{} == {}", "list<int>", "list<int>"),
    _filled("{} == {}", "list<string>", "list<string>"),
    _filled("{}.isSorted()", "list<int>"),
    _filled("sets.contains({}, {})", "list<int>", "list<int>"),
    _filled("sets.intersects({}, {})", "list<int>", "list<int>"),
    _filled("isQuantity({})", "string"),
    _filled("isSemver({})", "string"),
    _filled("bool({})", "string"),
)

_MAKERS: dict[str, tuple[tuple[_Make, ...], tuple[_Make, ...]]] = {
    "bool": ((_of("true", "false"), _compared("any")), _BOOL),
    "int": (
        (_of(*_INTS),),
        (
            *(_filled(f"({{}} {operator} {{}})", "int", "int") for operator in "+-*/%"),
            _filled("size({})", "string"),
            _filled("{}.size()", "list<int>"),
            _filled("int({})", "string"),
            _filled("int({})", "double"),
            _filled("{}.indexOf({})", "string", "string"),
            _filled("{}.indexOf({})", "list<int>", "int"),
            _filled("{}.sum()", "list<int>"),
            _filled("{}.max()", "list<int>"),
            _filled("{}[{}]", "list<int>", "int"),
            _filled("{}.major()", "semver"),
            _filled("{}.asInteger()", "quantity"),
            _filled("-{}", "int"),
            _filled("({} ? {} : {})", "bool", "int", "int"),
            _filled("{}.?foo.orValue({})", "any", "int"),
            _filled("{}.getHours()", "timestamp"),
            _filled("{}.getMinutes()", "duration"),
        ),
    ),
    "uint": ((_of(*_UINTS),), (_filled("({} + {})", "uint", "uint"), _filled("uint({})", "int"))),
    "double": (
        (_of(*_DOUBLES),),
        (
            *(_filled(f"({{}} {operator} {{}})", "double", "double") for operator in "+-*/"),
            _filled("double({})", "int"),
            _filled("double({})", "string"),
            _filled("{}.asApproximateFloat()", "quantity"),
        ),
    ),
    "string": (
        (_of(*_STRINGS), _of("device.driver")),
        (
            _filled("({} + {})", "string", "string"),
            _filled("{}.lowerAscii()", "string"),
            _filled("{}.trim()", "string"),
            _filled("{}.replace({}, {})", "string", "string", "string"),
            _filled("{}.substring({})", "string", "int"),
            _filled("{}.charAt({})", "string", "int"),
            _filled("string({})", "int"),
            _filled("string({})", "double"),
            _filled("string({})", "any"),
            _filled("string({})", "duration"),
            _filled("string({})", "timestamp"),
            _filled("{}[{}]", "list<string>", "int"),
            lambda grammar, depth: f"{grammar.make('string', depth)}.find({grammar.one(*_PATTERNS)})",
        ),
    ),
    "any": ((_attribute,), (_attribute, _attribute, _filled("dyn({})", "int"), _filled("dyn({})", "string"))),
    "quantity": (
        (_capacity,),
        (
            _capacity,
            lambda grammar, _: f"quantity({grammar.one(*_QUANTITIES)})",
            _filled("{}.add({})", "quantity", "quantity"),
            _filled("{}.sub({})", "quantity", "int"),
        ),
    ),
    "semver": (
        (_of('semver("9.0.0")'),),
        (
            lambda grammar, _: f"semver({grammar.one(*_VERSIONS)})",
            lambda grammar, _: f"semver({grammar.one(*_VERSIONS)}, {grammar.one('true', 'false')})",
            _attribute,
        ),
    ),
    "duration": (
        (lambda grammar, _: f"duration({grammar.one(*_DURATIONS)})",),
        (
            lambda grammar, _: f"duration({grammar.one(*_DURATIONS)})",
            _filled("({} + {})", "duration", "duration"),
            _filled("({} - {})", "timestamp", "timestamp"),
        ),
    ),
    "timestamp": (
        (lambda grammar, _: f"timestamp({grammar.one(*_TIMESTAMPS)})",),
        (
            lambda grammar, _: f"timestamp({grammar.one(*_TIMESTAMPS)})",
            _filled("({} + {})", "timestamp", "duration"),
            _filled("timestamp({})", "int"),
        ),
    ),
    "list<int>": (
        (_of("[2]", "[1]", "[3, 1, 2]"),),
        (
            _listed("int"),
            _filled("({} + {})", "list<int>", "list<int>"),
            _looped("map", "int", "int"),
            _looped("filter", "bool", "int"),
            _filled("{}.sort()", "list<int>"),
            _filled("{}.reverse()", "list<int>"),
            _filled("{}.distinct()", "list<int>"),
            _filled("{}.slice(0, 1)", "list<int>"),
            _of("lists.range(4)"),
        ),
    ),
    "list<string>": (
        (_of('["a"]', '["Hopper", "Ampere"]'),),
        (
            _listed("string"),
            _filled("{}.split({})", "string", "string"),
            _looped("map", "string", "string"),
            lambda grammar, depth: f"{grammar.make('string', depth)}.findAll({grammar.one(*_PATTERNS)})",
        ),
    ),
}


def _domain(grammar: Grammar, _: int) -> str:
    return f'device.{grammar.one("attributes", "attributes", "capacity")}["{grammar.one(*_DOMAINS)}"]'


def _read(grammar: Grammar, _: int) -> str:
    domain, name = grammar.one(*_DOMAINS), grammar.one(*_NAMES)
    return grammar.one(
        f'device.attributes["{domain}"].{name}',
        f"device.attributes['{domain}']['{name}']",
        f"device.attributes[device.driver].{name}",
        f'device.attributes[?"{domain}"].?{name}.value()',
    )


def _optional(grammar: Grammar, _: int) -> str:
    domain, name = grammar.one(*_DOMAINS), grammar.one(*_NAMES)
    return grammar.one(
        f'device.attributes["{domain}"].?{name}',
        f'device.attributes["{domain}"][?"{name}"]',
        f'device.attributes[?"{domain}"].?{name}',
        f"device.attributes.?nope.?{name}",
        f'device.attributes["{domain}"].{name}.?nope',
    )


def _ordered(*kinds: str) -> _Make:
    return lambda grammar, depth: (
        f"{grammar.make(grammar.one(*kinds), depth)} {grammar.one(*_ORDER)} "
        f"{grammar.make(grammar.one(*kinds), depth)}"
    )


_LISTED_BOOL: tuple[_Make, ...] = (
    _filled("({} && {})", "bool", "bool"),
    _filled("({} || {})", "bool", "bool"),
    _filled("!{}", "bool"),
    _filled("!({})", "bool"),
    _filled("({} ? {} : {})", "bool", "bool", "bool"),
    *(map(_ordered, ("int", "double", "string", "any", "bool", "uint"))),
    _ordered("int", "double", "uint"),
    _ordered("any", "int", "string", "semver", "bool"),
    _ordered("any", "semver"),
    *(
        _filled(f"{{}}.{method}({{}})", kind, kind)
        for method in ("isGreaterThan", "isLessThan")
        for kind in ("quantity", "semver")
    ),
    _filled("{}.compareTo({}) >= 0", "quantity", "quantity"),
    _filled("{}.compareTo({}) < 0", "semver", "semver"),
    _filled("{}.isLessThan({})", "any", "semver"),
    _filled("{}.isInteger()", "quantity"),
    lambda grammar, depth: f"has({_attribute(grammar, depth)})",
    lambda grammar, depth: f"has({_attribute(grammar, depth)}.nope)",
    lambda grammar, _: f"has(device.{grammar.one('attributes', 'driver', 'capacity', 'attributes.nope')})",
    lambda grammar, _: f'"{grammar.one(*_DOMAINS)}" in device.{grammar.one("attributes", "capacity")}',
    lambda grammar, depth: f'"{grammar.one(*_NAMES)}" in {_domain(grammar, depth)}',
    _filled("{} in {}", "int", "list<int>"),
    _filled("{} in {}", "string", "list<string>"),
    _filled("{} in {}", "any", "list<string>"),
    _filled("{} in {}", "any", "list<int>"),
    _filled("{} in {}", "any", "list<any>"),
    _filled("{} in [{}]", "any", "semver"),
    _filled("{} in []", "any"),
    *(
        _filled(f"{{}}.{method}({{}})", "string", "string")
        for method in ("contains", "startsWith", "endsWith")
    ),
    _filled("{}.startsWith({})", "any", "string"),
    lambda grammar, depth: f"{grammar.make('string', depth)}.matches({grammar.one(*_PATTERNS)})",
    lambda grammar, depth: f"{grammar.make('any', depth)}.matches({grammar.one(*_PATTERNS)})",
    _filled("{}.matches({})", "string", "string"),
    *(_looped(macro, "bool", kind) for macro in ("all", "exists") for kind in ("int", "string", "any")),
    _filled("{} == {}", "list<int>", "list<int>"),
    _filled("{} == {}", "list<any>", "list<string>"),
    _filled("isQuantity({})", "string"),
    _filled("isSemver({})", "string"),
    _filled("{}.hasValue()", "optional"),
    _filled("{}.orValue({})", "optional", "bool"),
    lambda grammar, depth: f"{_domain(grammar, depth)} == {_domain(grammar, depth)}",
)

_LISTED_MAKERS: dict[str, tuple[tuple[_Make, ...], tuple[_Make, ...]]] = {
    "bool": ((_of("true", "false"), _compared("any")), _LISTED_BOOL),
    "int": (
        (_of(*_INTS),),
        (
            _filled("size({})", "string"),
            _filled("size({})", "any"),
            _filled("{}.size()", "any"),
            _filled("{}.size()", "list<int>"),
            lambda grammar, depth: f"size({_domain(grammar, depth)})",
            _filled("{}[{}]", "list<int>", "int"),
            *(_filled(f"{{}}.{part}()", "semver") for part in ("major", "minor", "patch")),
            _filled("{}.asInteger()", "quantity"),
            _filled("sign({})", "quantity"),
            _filled("({} ? {} : {})", "bool", "int", "int"),
            _filled("{}.orValue({})", "optional", "int"),
        ),
    ),
    "uint": ((_of(*_UINTS),), (_of(*_UINTS),)),
    "double": ((_of(*_DOUBLES),), (_of(*_DOUBLES), _filled("{}.asApproximateFloat()", "quantity"))),
    "string": (
        (_of(*_STRINGS), _of("device.driver")),
        (
            _of(*_STRINGS),
            _of("device.driver"),
            _filled("{}.lowerAscii()", "string"),
            _filled("{}.upperAscii()", "any"),
            _filled("{}[{}]", "list<string>", "int"),
            _filled("({} ? {} : {})", "bool", "string", "any"),
            _filled("{}.orValue({})", "optional", "string"),
        ),
    ),
    "any": (
        (_attribute,),
        (
            _attribute,
            _read,
            _filled("({} ? {} : {})", "bool", "any", "any"),
            _filled("{}.value()", "optional"),
        ),
    ),
    "optional": ((_optional,), (_optional, _filled("{}.or({})", "optional", "optional"))),
    "quantity": (
        (_capacity,),
        (
            _capacity,
            lambda grammar, _: f"quantity({grammar.one(*_QUANTITIES)})",
            _filled("quantity({})", "any"),
            _filled("{}.add({})", "quantity", "quantity"),
            _filled("{}.sub({})", "quantity", "quantity"),
            _filled("{}.add({})", "quantity", "int"),
            _filled("{}.sub({})", "quantity", "int"),
        ),
    ),
    "semver": (
        (_of('semver("9.0.0")'),),
        (
            lambda grammar, _: f"semver({grammar.one(*_VERSIONS)})",
            lambda grammar, _: f"semver({grammar.one(*_VERSIONS)}, {grammar.one('true', 'false')})",
            _attribute,
            _filled("({} ? {} : {})", "bool", "semver", "any"),
        ),
    ),
    "list<int>": ((_of("[2]", "[1]", "[3, 1, 2]", "[]"),), (_listed("int"), _of("[2, 3]"))),
    "list<string>": ((_of('["a"]', '["Hopper", "Ampere"]'),), (_listed("string"), _of('["Hopper", "3"]'))),
    "list<any>": ((_listed("any"),), (_listed("any"),)),
}
