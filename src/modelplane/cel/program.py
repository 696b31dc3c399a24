"""Program of a selector: compiled, checked, estimated, rewritten, and evaluated by the library.

The library has no map with a default, and keeps neither quantities nor versions, nor the values that were
read. So the compiler's tree is rewritten:

    device.attributes[D].N    @attribute(D, N), which records the value, or fails with the names there are
    device.attributes[D]      device.attributes[?D].orValue({}), because an unknown domain is empty
    quantity("1Gi")           its packed value
    attribute == "x"          @plain(attribute) == "x", an error if the attribute is a version
    attribute == attribute    @same(attribute, attribute), likewise

These functions, and those of `functions`, are called on the thread that evaluates, and find the device there.
The module is separate so that the library is loaded only when the first selector is compiled.

An explanation is one sentence with the position of the wrong word, and its replacement if there is one.
"""

import functools
import itertools
import re
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional

from modelplane.api.values import quantity
from modelplane.api.values.quantity import QuantityError
from modelplane.api.values.semver import SemverError
from modelplane.cel import checks, environment, source
from modelplane.cel.bindings import Bindings
from modelplane.cel.checked_tree import Kind, Node, Tree, make_call, make_constant
from modelplane.cel.checks import Unsupported
from modelplane.cel.environment import ATTRIBUTES, CAPACITY, DRIVER, FIELDS, LIBRARIES, PLAIN, declare
from modelplane.cel.errors import EvaluationError, SelectorError, find_nearest
from modelplane.cel.estimate import Estimator
from modelplane.cel.functions import OVERLOADS, QUANTITY, SEMVER, Overload, call, pack, parse_version

_ISSUE: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (?:Syntax error: )?(.*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_TOKEN: Final = re.compile(r"token recognition error at: '(.*)'", re.DOTALL)
_UNEXPECTED: Final = re.compile(r"(?:mismatched|extraneous) input '(.*?)'(?: expecting .*)?$")
_SHOWN: Final = {QUANTITY: "quantity", SEMVER: "version", "dyn": "an attribute"}
# What is written in other languages -> what CEL has.
_WORDS: Final = {
    "and": "&&", "or": "||", "not": "!", "is": "==", "if": "... ? ... : ...", "&": "&&", "|": "||", "=": "==",
}  # fmt: skip


def explain(expression: str, output: str) -> SelectorError:
    """Return the error for the compiler's output."""
    issue = _ISSUE.search(output)
    if "recursion" in output:
        return SelectorError(expression, "it is nested too deeply")
    if issue is None or int(issue[1]) < 1:
        problem = issue[3] if issue else " ".join(output.partition(": ")[2].split())
        return SelectorError(expression, problem.partition(" [")[0])
    line, column, problem = int(issue[1]), int(issue[2]), issue[3].partition(" [INVALID")[0]
    text = expression.split("\n")[line - 1]
    before, called = text[: column - 1], text[column - 1 : column] == "("
    written = ""  # what the compiler's place is behind, and ours is before
    if undeclared := _UNDECLARED.search(problem):
        name = undeclared[1]
        problem = _explain_name(name, called=called)
        if not name.startswith("device."):
            written = name if called else name.rpartition(".")[0]
    elif overload := _OVERLOAD.search(problem):
        written = overload[1]
        problem = _explain_overload(written, overload[2].split(", "))
    elif before.rstrip().endswith("not"):
        written, problem = before[before.rindex("not") :], '"not" is not an operator, write !'
    else:
        problem = _explain_syntax(problem)
    start = max(column, 1) - (len(written) if before.endswith(written) else 0)
    return SelectorError(expression, problem, line, start)


def _explain_syntax(problem: str) -> str:
    token, unexpected = _TOKEN.search(problem), _UNEXPECTED.search(problem)
    if token and token[1][:1] in ("'", '"'):
        return "a text is not closed"
    word = token[1].strip()[:1] if token else unexpected[1] if unexpected else ""
    if word in _WORDS:
        return f'"{word}" is not an operator, write {_WORDS[word]}'
    if word:
        known = {"<EOF>": "it breaks off", ",": 'unexpected ",": a list is written in [ ]'}
        return known.get(word) or (f"unexpected {word}" if word[0] in "\"'" else f'unexpected "{word}"')
    if problem.startswith("has() argument"):
        return 'has takes a name behind a dot; of a domain, ask "domain" in device.attributes'
    return problem.partition(" expecting {")[0].replace("'<EOF>'", "the end")


def _explain_overload(function: str, kinds: list[str]) -> str:
    symbol = function.strip("_@").replace("_", " ") or function
    shown = " and ".join(_SHOWN.get(kind, kind) for kind in kinds)
    if function in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind, names in ((QUANTITY, "quantities"), (SEMVER, "versions")):
            if kind in kinds:
                return f"{names} have no order of their own, write a.compareTo(b) {symbol} 0"
    problem = f"{symbol} cannot be applied to {shown or 'nothing'}"
    if function in ("compareTo", "isGreaterThan", "isLessThan") and kinds[1:] == ["string"]:
        return f"{problem}, write {'quantity' if kinds[0] == QUANTITY else 'semver'}(...) around the text"
    return problem


def _explain_name(name: str, *, called: bool) -> str:
    if name.startswith("device."):
        return checks.explain_field(name.removeprefix("device."))
    if called and name in source.MACROS:
        return f"{name} is not called so, write list.{name}(x, ...) with a variable and what is done with it"
    if called:
        return source.explain(name)
    if near := find_nearest(name, (*FIELDS, *checks.NAMES)):
        return f'unknown name "{name}", did you mean device.{near.removeprefix("device.")}?'
    return f'unknown name "{name}", a selector reads {checks.LISTED}; a text is written in quotes'


_REFUSALS: Final = (RuntimeError, ValueError, LookupError)
"""Exceptions of the library."""
_READS: Final = {ATTRIBUTES: "@attribute", CAPACITY: "@amount"}
_STEPS: Final = ("_[_]", "_[?_]", "_?._")
_LITERALS: Final[dict[str, Callable[[str], Any]]] = {"quantity": quantity.parse, "semver": parse_version}


def compile_selector(expression: str) -> tuple[int, Callable[[Bindings], Any]]:
    """Return the highest cost of a selector, and its program, which returns errors. Raises SelectorError."""
    text = source.prepare(expression)
    try:
        result = environment.compiler().compile(text)
        kind = result.return_type().name()
    except _REFUSALS as error:
        raise explain(expression, str(error)) from error
    if kind not in ("BOOL", "DYN"):
        hint = ": compare it, as in `... >= 0`" if kind == "INT" else ""
        raise SelectorError(expression, f"it gives {kind.lower()}, but a selector gives true or false{hint}")
    tree = Tree(result.serialize())
    try:
        checks.check(tree.root)
        estimate = Estimator(tree.root)
        if problem := estimate.find_excess():
            raise SelectorError(expression, problem)
        rewritten = _rewrite(tree.root)
    except Unsupported as error:
        raise SelectorError.at(expression, str(error), tree.find_offset(error.identity)) from error
    program = _evaluator().deserialize(tree.serialize(rewritten))
    return estimate.cost, functools.partial(_evaluate, program, estimate.cost)


def _rewrite(node: Node) -> Node:
    if not node.parts:
        return node
    if (read := _rewrite_read(node)) is not None:
        return read
    node = node.replace_parts(tuple(map(_rewrite, node.parts)))
    return _rewrite_call(node) if node.kind is Kind.CALL else node


def _rewrite_call(node: Node) -> Node:
    first, last = node.parts[0], node.parts[-1]
    match node.name:
        case "quantity" | "semver" if first is last and isinstance(first.value, str):
            # A text that is neither is an error on each device.
            with suppress(QuantityError, SemverError):
                return make_constant(node, bytes(pack(_LITERALS[node.name](first.value))))
            return node
        case "_==_" if last.type == "dyn" and first.type in ("dyn", SEMVER):
            return make_call(node, "@same", first, last)
        case "@in" if last.kind is Kind.LIST and not last.parts:
            return make_constant(node, value=False)  # Kubernetes does not read the value
    if node.name == "matches":
        last = _rewrite_pattern(last)
    if first.type == "dyn" and _is_for_plain_values(node.name, last):
        first = make_call(first, "@plain", first)
    return node.replace_parts((first, *node.parts[1:-1], last) if len(node.parts) > 1 else (first,))


def _is_for_plain_values(function: str, last: Node) -> bool:
    """Return True for a call that is an error in Kubernetes if the attribute is a version, but not here."""
    match function:
        case "_==_":
            return last.type != SEMVER
        case "@in":
            # Kubernetes makes a set of literals, which has no place for a version; a version is no literal.
            is_set = all(part.kind is Kind.CONSTANT and type(part.value) is not bytes for part in last.parts)
            return last.kind is Kind.LIST and is_set
    return function == "size" or (function in ("_<_", "_<=_", "_>_", "_>=_") and last.type == "dyn")


def _rewrite_pattern(node: Node) -> Node:
    """Check a regular expression, when the selector is compiled if possible. Raises Unsupported."""
    if not isinstance(pattern := node.value, str):
        return make_call(node, "@pattern", node)
    try:
        _check_pattern(pattern)
    except EvaluationError as error:
        raise Unsupported(str(error), node.identity) from error
    return node


def _rewrite_read(node: Node) -> Node | None:
    """Return the new form of an expression that reads a device; None for another one."""
    operand = node.parts[0]
    if operand.kind is Kind.NAME and operand.name in _READS:
        if node.kind is Kind.SELECT and node.flag:
            return make_constant(node, value=True)  # a domain is never missing
        if node.kind is Kind.CALL and node.name not in _STEPS:
            return None
        key = make_call(node, "_[?_]", operand, _make_key(node))
        domain = make_call(node, "orValue", key, Node(Kind.MAP, node.identity), is_member=True)
        return make_call(node, "optional.of", domain) if node.name in _STEPS[1:] else domain
    if _is_step(node) and operand.parts and _is_step(operand) and operand.parts[0].name in _READS:
        return make_call(node, _READS[operand.parts[0].name], _make_key(operand), _make_key(node))
    return None


def _is_step(node: Node) -> bool:
    return node.name == _STEPS[0] or (node.kind is Kind.SELECT and not node.flag)


def _make_key(node: Node) -> Node:
    return make_constant(node, node.name) if node.kind is Kind.SELECT else _rewrite(node.parts[1])


_current: ContextVar[Bindings] = ContextVar("device")
_ERROR: Final = re.compile(r"UNKNOWN: #(\d+)")
_MOST_SPENT: Final = 200  # units, of about 100 bytes each


class _Failure(Exception):
    """The number of an error of the bindings: the library keeps nothing but a text."""


def _evaluate(program: Any, cost: int, bindings: Bindings) -> Any:
    bindings.errors.clear()
    if bindings.activation is None:
        domains = {ATTRIBUTES: bindings.attributes.values, CAPACITY: bindings.capacity.values}
        bindings.activation = _evaluator().Activation({DRIVER: bindings.driver, **domains})
    bindings.spent += cost
    _current.set(bindings)
    try:
        result = program.eval(bindings.activation)
        value = result.plain_value()
        is_error = value is not True and value is not False and result.type().name() == "ERROR"
    except _REFUSALS as error:
        value, is_error = str(error), True
    if bindings.spent > _MOST_SPENT:
        bindings.activation, bindings.spent = None, 0
    for problem in bindings.errors:
        if not isinstance(problem, EvaluationError):
            raise problem  # the library caught what is no fault of a selector, such as an interrupt
    if not is_error:
        return value
    number = _ERROR.search(value)
    return bindings.errors[int(number[1])] if number else EvaluationError(_explain(value))


def _guard(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose errors stay with the device."""

    def call_guarded(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:  # noqa: BLE001  (it is raised again, or is the answer)
            errors = _current.get().errors
            errors.append(error)
            raise _Failure(f"#{len(errors) - 1}") from None

    return call_guarded


@functools.cache
def _evaluator() -> Any:
    """Return the environment that evaluates rewritten trees."""
    types = {**PLAIN, "bytes": cel.Type.BYTES}
    # A value of another type would reach a function as a null pointer.
    kinds = tuple(types)
    rows = [
        # A function of quantities or versions is one of bytes, which looks at its arguments itself.
        *(
            row._replace(
                parameters=tuple(name if name in kinds else "bytes" for name in row.parameters),
                result=row.result if row.result in kinds else "bytes",
                call=functools.partial(call, row.function),
            )
            for row in OVERLOADS
        ),
        Overload("@attribute", ("string", "string"), "dyn", _read_attribute, member=False),
        Overload("@amount", ("string", "string"), "bytes", _read_amount, member=False),
        Overload("@pattern", ("string",), "string", _check_pattern, member=False),
        *(Overload("@plain", (kind,), "dyn", _check_plain, member=False) for kind in kinds),
        *(
            Overload("@same", pair, "bool", _are_same, member=False)
            for pair in itertools.product(kinds, kinds)
        ),
    ]
    guarded = {(row.function, row.parameters): row._replace(call=_guard(row.call)) for row in rows}
    return cel.NewEnv(
        config=LIBRARIES,
        variables=dict.fromkeys((DRIVER, ATTRIBUTES, CAPACITY), cel.Type.DYN),
        functions=declare(guarded.values(), {**types, "dyn": cel.Type.DYN}),
        extensions=[ext_optional.ExtOptional()],
    )


def _read_attribute(domain: str, name: str) -> Any:
    return _current.get().attributes.read(domain, name)


def _read_amount(domain: str, name: str) -> Any:
    return _current.get().capacity.read(domain, name)


def _check_plain(value: Any) -> Any:
    if type(value) is bytearray:
        raise EvaluationError("a version is compared with a version only: write semver(...) around the text")
    return value


def _are_same(left: Any, right: Any) -> bool:
    if type(right) is not bytearray:
        _check_plain(left)
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


_ANY_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")  # RE2 has it, Go's dialect has not


@functools.cache
def _matcher() -> Any:
    return _evaluator().compile(f'"".matches({DRIVER})')


def _check_pattern(pattern: str) -> str:
    """Return a regular expression. Raises EvaluationError if it is not one."""
    result = _matcher().eval(data={DRIVER: pattern})
    reason = "\\C is not known" if _ANY_BYTE.search(pattern) else ""
    if result.type().name() == "ERROR":
        reason = _explain(result.value()).removeprefix("invalid regular expression: ")
    if reason:
        raise EvaluationError(f'"{pattern}" is not a regular expression: {reason}')
    return pattern


_NO_OVERLOAD: Final = re.compile(r"No matching overloads found : (?:\(.*?\)\.)?(\S+?)\((.*)\)")


def _explain(text: str) -> str:
    """Return the reason in an error of the library: without its code, on one line."""
    code, colon, message = text.partition(": ")
    text = " ".join((message if colon and code.replace("_", "").isupper() else text).split())
    if overload := _NO_OVERLOAD.search(text):
        kinds = overload[2].replace("bytes", "quantity or version").replace(", ", " and ")
        return f"{overload[1].strip('_@')} cannot be applied to {kinds or 'nothing'}"
    return text.partition(" [")[0] or "the library refuses it"
