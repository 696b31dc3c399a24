"""Environment of a selector: the device's fields, and the libraries that Kubernetes enables.

The declarations for the compiler are here; the semantics of each function are in `functions`.

Sources: k8s.io/dynamic-resource-allocation v0.35 `cel/compile.go` (the device and `cel.bind`),
k8s.io/apiserver v0.35 `pkg/cel/environment/base.go` (the libraries, at their compatibility version).

The device's fields are declared as three qualified names, because the compiler knows object types only
through protobuf. `device` itself is declared too, for `has(device.driver)`; `restrictions` refuses it
elsewhere.
"""

import functools
from collections.abc import Iterable
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional

from modelplane.cel import functions, source
from modelplane.cel.functions import operators
from modelplane.cel.functions.overload import Overload
from modelplane.cel.value_types.type_names import QUANTITY

DEVICE: Final = "device"
ATTRIBUTES: Final = "device.attributes"
CAPACITY: Final = "device.capacity"
DRIVER: Final = "device.driver"
FIELDS: Final = (ATTRIBUTES, CAPACITY, DRIVER)

# The compiler cannot be given an overload over an opaque type under a name that it has already.
_LIBRARIES: Final = """
stdlib:
  exclude_functions:
  - name: string
extensions:
- name: cel.lib.ext.bindings
- name: cel.lib.ext.comprev2
- name: cel.lib.ext.lists
  version: 2
- name: cel.lib.ext.sets
- name: cel.lib.ext.strings
  version: 2
"""

_PLAIN: Final = {
    "bool": cel.Type.BOOL,
    "dyn": cel.Type.DYN,
    "bytes": cel.Type.BYTES,
    "double": cel.Type.DOUBLE,
    "duration": cel.Type.DURATION,
    "int": cel.Type.INT,
    "string": cel.Type.STRING,
    "timestamp": cel.Type.TIMESTAMP,
    "uint": cel.Type.UINT,
}


@functools.cache
def compiler() -> Any:
    """Return the compiler that checks selectors. It cannot evaluate: the functions have no implementation."""
    crossed = [
        (name, cel.Overload(identity, cel.Type.BOOL, [_PLAIN[parameter] for parameter in parameters], False))
        for name, parameters, identity in operators.CROSS_TYPE
    ]
    merged = [(overload.function, _overload(overload)) for overload in functions.MERGED]
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_LIBRARIES),
        variables={
            DEVICE: cel.Type.DYN,
            DRIVER: cel.Type.STRING,
            ATTRIBUTES: _domains(cel.Type.DYN),
            CAPACITY: _domains(_type(QUANTITY)),
            **dict.fromkeys(source.PRESENT, cel.Type.BOOL),
        },
        functions=_declared((overload.function, _overload(overload)) for overload in functions.DECLARED),
        extensions=[
            ext_optional.ExtOptional(),
            cel.CelExtension("kubernetes", _declared([*crossed, *merged])),
        ],
    )


def _declared(overloads: Iterable[tuple[str, Any]]) -> list[Any]:
    by_name: dict[str, list[Any]] = {}
    for name, overload in overloads:
        by_name.setdefault(name, []).append(overload)
    return [cel.FunctionDecl(name, found) for name, found in by_name.items()]


def _overload(each: Overload) -> Any:
    parameters = [_type(parameter) for parameter in each.parameters]
    return cel.Overload(each.identity, _type(each.result), parameters, each.member)


def _domains(value: Any) -> Any:
    return cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, value))


def _type(text: str) -> Any:
    name, bracket, inner = text.partition("<")
    if text in _PLAIN:
        return _PLAIN[text]
    if not bracket:
        return cel.Type(text) if text.startswith("~") else cel.Type.AbstractType(text)
    if name == "map":
        key, _, value = inner[:-1].partition(",")
        return cel.Type.Map(_type(key), _type(value))
    element = _type(inner[:-1])
    return cel.Type.List(element) if name == "list" else cel.Type.AbstractType("optional_type", [element])
