"""What a selector may name: the device's fields, and the functions that Kubernetes adds to CEL.

One rule: this is a table of declarations; the meaning of each function is in `functions`.

Sources: k8s.io/dynamic-resource-allocation v0.35 `cel/compile.go` (the device), k8s.io/apiserver v0.35
`pkg/cel/library` (quantity and semver). The device's fields are declared as three qualified names because the
compiler knows object types only through protobuf; `device` by itself is therefore not a value.
"""

import functools
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

ATTRIBUTES: Final = "device.attributes"
CAPACITY: Final = "device.capacity"
DRIVER: Final = "device.driver"
FIELDS: Final = (ATTRIBUTES, CAPACITY, DRIVER)

_QUANTITY: Final = "kubernetes.Quantity"
_SEMVER: Final = "kubernetes.Semver"

# Function -> overloads: (parameters, result, whether the first parameter stands before the dot).
FUNCTIONS: Final[dict[str, tuple[tuple[tuple[str, ...], str, bool], ...]]] = {
    "quantity": ((("string",), _QUANTITY, False),),
    "isQuantity": ((("string",), "bool", False),),
    "sign": (((_QUANTITY,), "int", False),),
    "isInteger": (((_QUANTITY,), "bool", True),),
    "asInteger": (((_QUANTITY,), "int", True),),
    "asApproximateFloat": (((_QUANTITY,), "double", True),),
    "add": (((_QUANTITY, _QUANTITY), _QUANTITY, True), ((_QUANTITY, "int"), _QUANTITY, True)),
    "sub": (((_QUANTITY, _QUANTITY), _QUANTITY, True), ((_QUANTITY, "int"), _QUANTITY, True)),
    "semver": ((("string",), _SEMVER, False), (("string", "bool"), _SEMVER, False)),
    "isSemver": ((("string",), "bool", False), (("string", "bool"), "bool", False)),
    "major": (((_SEMVER,), "int", True),),
    "minor": (((_SEMVER,), "int", True),),
    "patch": (((_SEMVER,), "int", True),),
    "compareTo": (((_QUANTITY, _QUANTITY), "int", True), ((_SEMVER, _SEMVER), "int", True)),
    "isGreaterThan": (((_QUANTITY, _QUANTITY), "bool", True), ((_SEMVER, _SEMVER), "bool", True)),
    "isLessThan": (((_QUANTITY, _QUANTITY), "bool", True), ((_SEMVER, _SEMVER), "bool", True)),
}


@functools.cache
def compiler() -> Any:
    """Return the compiler that checks selectors. It cannot evaluate: the functions have no implementation."""
    kinds = {
        "bool": cel.Type.BOOL,
        "double": cel.Type.DOUBLE,
        "int": cel.Type.INT,
        "string": cel.Type.STRING,
        _QUANTITY: cel.Type.AbstractType(_QUANTITY),
        _SEMVER: cel.Type.AbstractType(_SEMVER),
    }

    def domains(value: Any) -> Any:
        return cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, value))

    return cel.NewEnv(
        variables={
            DRIVER: cel.Type.STRING,
            ATTRIBUTES: domains(cel.Type.DYN),
            CAPACITY: domains(kinds[_QUANTITY]),
        },
        functions=[
            cel.FunctionDecl(
                name,
                [
                    cel.Overload(
                        f"{name}({','.join(parameters)})",
                        return_type=kinds[result],
                        parameters=[kinds[parameter] for parameter in parameters],
                        is_member=member,
                    )
                    for parameters, result, member in overloads
                ],
            )
            for name, overloads in FUNCTIONS.items()
        ],
        extensions=[ext_strings.ExtStrings(2), ext_bindings.ExtBindings(), ext_optional.ExtOptional()],
    )
