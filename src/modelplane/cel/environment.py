"""Environment of a selector for the compiler: a device's fields, and the functions that Kubernetes adds.

It knows the types of a device's values, and cannot evaluate: `program` does.

Sources: k8s.io/dynamic-resource-allocation v0.35 `cel/compile.go` (the device), k8s.io/apiserver v0.35
`pkg/cel/environment/base.go` (the libraries, at their compatibility version).

The device's fields are three qualified names, because the compiler knows object types only through protobuf.
`device` itself is declared too, so that `checks` can say how it is read.
"""

import functools
import itertools
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional

from modelplane.cel.functions import OVERLOADS, QUANTITY, SEMVER, Overload

DEVICE: Final = "device"
FIELDS: Final = ("device.attributes", "device.capacity", "device.driver")
ATTRIBUTES, CAPACITY, DRIVER = FIELDS

LIBRARIES: Final = cel.NewEnvConfigFromYaml("extensions:\n- name: cel.lib.ext.strings\n  version: 2\n")
_OPAQUE: Final = {name: cel.Type.AbstractType(name) for name in (QUANTITY, SEMVER)}
PLAIN: Final = {name: getattr(cel.Type, name.upper()) for name in ("bool", "double", "int", "string", "uint")}


@functools.cache
def compiler() -> Any:
    """Return the environment that checks selectors. It cannot evaluate."""
    types = PLAIN | _OPAQUE
    # Kubernetes compares numbers of two types, which this compiler has to be told. It calls nothing.
    across = (
        Overload(order, pair, "bool", operator.lt, member=False)
        for order in ("_<_", "_<=_", "_>_", "_>=_")
        for pair in itertools.permutations(("int", "uint", "double"), 2)
    )
    return cel.NewEnv(
        config=LIBRARIES,
        variables={
            DEVICE: cel.Type.DYN,
            DRIVER: cel.Type.STRING,
            ATTRIBUTES: _domains(cel.Type.DYN),
            CAPACITY: _domains(_OPAQUE[QUANTITY]),
        },
        functions=declare(OVERLOADS, types),
        extensions=[ext_optional.ExtOptional(), cel.CelExtension("kubernetes", declare(across, types))],
    )


def declare(overloads: Iterable[Overload], types: Mapping[str, Any]) -> list[Any]:
    """Return the library's declarations of functions."""
    by_name: dict[str, list[Any]] = {}
    for row in overloads:
        identity, parameters = (
            "_".join((row.function, *row.parameters)),
            [types[name] for name in row.parameters],
        )
        overload = cel.Overload(identity, types[row.result], parameters, row.member, row.call)
        by_name.setdefault(row.function, []).append(overload)
    return [cel.FunctionDecl(name, members) for name, members in by_name.items()]


def _domains(value: Any) -> Any:
    return cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, value))
