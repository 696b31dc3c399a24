# ruff: noqa: INP001, PLR0911  a script beside what it writes, whose cases each return
"""Command-line parsers of engines, read from their Python sources without running them.

vLLM and SGLang declare flags in two forms: calls of ``add_argument``, and annotated fields of classes whose
flags a helper of theirs derives. Both are read here as syntax trees: importing an engine takes gigabytes of
dependencies, and a device that its platform detection finds.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of a parser."""

    names: tuple[str, ...]
    kind: str = "text"
    """``switch`` has no value, ``bool`` is a switch with a ``--no-`` form; else the type of the value."""
    choices: tuple[str, ...] = ()
    values: str = ""
    """``nargs`` of argparse, if the flag takes not exactly one value."""
    deprecated: bool = False


class Unreadable(Exception):
    """A declaration in a form that this reader does not know."""


class Sources:
    """The classes and constants of some Python files, by name."""

    def __init__(self, files: list[Path]) -> None:
        self.trees = [ast.parse(path.read_text()) for path in files]
        self.classes: dict[str, ast.ClassDef] = {}
        self.constants: dict[str, ast.expr] = {}
        for tree in self.trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
                elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for target in targets:
                        if isinstance(target, ast.Name):
                            self.constants.setdefault(target.id, node.value)

    def calls(self, method: str) -> Iterator[ast.Call]:
        """Yield the calls of a method."""
        for tree in self.trees:
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == method
                ):
                    yield node

    def fields(self, name: str) -> dict[str, ast.expr]:
        """Return the annotations of a class and of its bases."""
        node = self.classes.get(name)
        if node is None:
            return {}
        found: dict[str, ast.expr] = {}
        for base in node.bases:
            found |= self.fields(ast.unparse(base))
        for each in node.body:
            if not (isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)):
                continue
            if not ast.unparse(each.annotation).startswith("ClassVar"):
                found[each.target.id] = each.annotation
        return found

    def choices(self, node: ast.expr | None, depth: int = 8) -> tuple[str, ...]:
        """Return the values of a constant collection; empty if it is computed."""
        match node:
            case ast.List() | ast.Tuple() | ast.Set():
                found: list[str] = []
                for each in node.elts:
                    if isinstance(each, ast.Constant):
                        found.append(str(each.value))
                    elif isinstance(each, ast.Starred) and (inner := self.choices(each.value, depth - 1)):
                        found += inner
                    else:
                        return ()
                return tuple(found)
            case ast.Dict():
                return self.choices(ast.List([key for key in node.keys if key is not None]))
            case ast.BinOp(op=ast.Add()):
                left, right = self.choices(node.left, depth - 1), self.choices(node.right, depth - 1)
                return (*left, *right) if left and right else ()
            case ast.Call(func=ast.Name(id="list" | "sorted" | "set" | "tuple"), args=[inner]):
                return self.choices(inner, depth - 1)
            case ast.Call(func=ast.Attribute(attr="keys", value=inner)):
                return self.choices(inner, depth - 1)
            case ast.Name(id=name) | ast.Attribute(attr=name) if depth and name in self.constants:
                return self.choices(self.constants[name], depth - 1)
            case ast.Call(func=ast.Name(id=name)) if depth:
                return self.choices(self._returned(name), depth - 1)
        return ()

    def _returned(self, name: str) -> ast.expr | None:
        for tree in self.trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    returns = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
                    return returns[-1] if returns else None
        return None

    def types(self, node: ast.expr, depth: int = 8) -> list[ast.expr]:
        """Return the members of a union, with its aliases resolved and annotations removed."""
        match node:
            case ast.BinOp(op=ast.BitOr()):
                return [*self.types(node.left, depth), *self.types(node.right, depth)]
            case ast.Constant(value=str(quoted)):
                return self.types(ast.parse(quoted, mode="eval").body, depth)
            case ast.Subscript(value=ast.Name(id="Optional")):
                return [*self.types(node.slice, depth), ast.Constant(None)]
            case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=members)):
                return [inner for each in members for inner in self.types(each, depth)]
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
                return self.types(first, depth)
            case ast.Subscript(value=ast.Name(id="SkipValidation")):
                return self.types(node.slice, depth)
            case ast.Name(id=name) if depth and name in self.constants and name not in self.classes:
                return self.types(self.constants[name], depth - 1)
        return [node]

    def of_type(self, names: tuple[str, ...], annotation: ast.expr) -> Flag:
        """Return the flag that an annotated field becomes, as vLLM and SGLang derive it."""
        types = self.types(annotation)
        texts = [ast.unparse(each) for each in types]
        optional = ("None",) if "None" in texts else ()
        heads = [each.partition("[")[0].rpartition(".")[2] for each in texts]
        if any(head in self.classes and head.endswith("Config") for head in heads):
            return Flag(names)
        if set(texts) == {"bool", "str", "None"}:
            return Flag(names, values="?")
        if "bool" in texts:
            return Flag(names, "bool")
        if "Literal" in heads:
            inner = getattr(types[heads.index("Literal")], "slice", ast.List([]))
            options = self.choices(inner if isinstance(inner, ast.Tuple) else ast.List([inner]))
            return Flag(names) if "str" in texts else Flag(names, choices=(*options, *optional))
        for head in ("tuple", "list", "set", "List", "Tuple"):
            if head in heads:
                collection = types[heads.index(head)]
                return Flag(names, self._element(collection), values="+")
        if "int" in texts:
            return Flag(names, "int")
        return Flag(names, "float" if "float" in texts else "text")

    @staticmethod
    def _element(collection: ast.expr) -> str:
        element = ast.unparse(collection.slice) if isinstance(collection, ast.Subscript) else ""
        return element if element in ("int", "float") else "text"


_TYPES = {"int": "int", "float": "float", "optional_int": "int", "optional_float": "float"}


def declared(sources: Sources, call: ast.Call, base: Flag) -> Flag:
    """Return the flag of a call of ``add_argument``, on top of what its field gives."""
    given = {each.arg: each.value for each in call.keywords if each.arg}
    flag = base
    if (type_ := given.get("type")) is not None:
        inner = type_.args[0] if isinstance(type_, ast.Call) and type_.args else type_
        kind = "size" if "human_readable" in ast.unparse(type_) else _TYPES.get(ast.unparse(inner), "text")
        flag = Flag(flag.names, kind, (), flag.values)
    if "choices" in given:
        flag = Flag(flag.names, "text", sources.choices(given["choices"]), flag.values)
    if "nargs" in given:
        values = given["nargs"].value if isinstance(given["nargs"], ast.Constant) else "*"
        flag = Flag(flag.names, flag.kind, flag.choices, "" if values is None else str(values))
    action = ast.unparse(given["action"]).strip("'\"").rpartition(".")[2] if "action" in given else ""
    deprecated = action.startswith("Deprecated") or "deprecated" in given
    if action in ("store_true", "store_false", "store_const") or (
        action.startswith("Deprecated") and not {"choices", "type", "nargs"} & given.keys()
    ):
        return Flag(flag.names, "switch", deprecated=deprecated)
    if action == "BooleanOptionalAction":
        return Flag(flag.names, "bool", deprecated=deprecated)
    return Flag(flag.names, flag.kind, flag.choices, flag.values, deprecated)


def names_of(call: ast.Call) -> tuple[str, ...]:
    """Return the constant names of a call of ``add_argument``; empty for a positional or computed one."""
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    return tuple(text for text in texts if isinstance(text, str) and text.startswith("-"))
