"""Functions that return an empty text for "fine", as far as the syntax tree tells.

Such a function is annotated ``-> str``, returns ``""`` on some path, and a caller asks whether the result is
true. Calls are resolved by imports; those of methods by their names, which is enough to find them.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[str, str]
"""Module and name of a function, or an empty module and the name of a method."""


@dataclass
class _Module:
    name: str
    tree: ast.Module
    imported: dict[str, Place] = field(default_factory=dict)
    """Module and name that a name was imported from."""
    functions: dict[str, Function] = field(default_factory=dict)


def find_empty_texts(trees: Mapping[str, ast.Module]) -> dict[str, str]:
    """Return the functions of modules that return an empty text for "fine", with a caller's module of each.

    ``trees`` are by the path of the module.
    """
    modules = [_read(path, tree) for path, tree in trees.items()]
    texts = [
        (place, module, list(_returned(node)))
        for module in modules
        for place, node in _functions(module)
        if _is_text(node)
    ]
    empty = {place for place, _, returned in texts if any(map(_is_empty, returned))}
    before = 0
    while before < len(empty):
        before = len(empty)
        empty |= {
            place
            for place, module, returned in texts
            if any(_calls(module, value) & empty for value in returned)
        }
    asked: dict[Place, str] = {}
    for module in modules:
        for place in _asked(module) & empty:
            asked.setdefault(place, module.name)
    return {
        f"{module.name}.{place[1]}": asked[place]
        for place, module, _ in sorted(texts, key=_order)
        if place in asked
    }


def _order(text: tuple[Place, "_Module", object]) -> tuple[str, str]:
    (_, name), module, _ = text
    return module.name, name


def _dotted(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _read(path: str, tree: ast.Module) -> _Module:
    module = _Module(_dotted(path), tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                module.imported[alias.asname or alias.name] = node.module, alias.name
    for node in tree.body:
        if isinstance(node, Function):
            module.functions[node.name] = node
    return module


def _functions(module: _Module) -> Iterator[tuple[Place, Function]]:
    for name, node in module.functions.items():
        yield (module.name, name), node
    classes = [node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    for method in [member for class_ in classes for member in class_.body]:
        if isinstance(method, Function) and not _is_property(method):
            yield ("", method.name), method


def _is_property(method: Function) -> bool:
    names = (decorator.id for decorator in method.decorator_list if isinstance(decorator, ast.Name))
    return any(name.endswith("property") for name in names)


def _is_text(node: Function) -> bool:
    return isinstance(node.returns, ast.Name) and node.returns.id == "str"


def _returned(node: Function) -> Iterator[ast.expr]:
    """Yield what a function itself returns, without those within it."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        child = pending.pop()
        if isinstance(child, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Return) and child.value is not None:
            yield child.value
        pending.extend(ast.iter_child_nodes(child))


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.IfExp):
        return _is_empty(value.body) or _is_empty(value.orelse)
    if isinstance(value, ast.BoolOp):
        return any(map(_is_empty, value.values))
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "next":
        return len(value.args) == 2 and _is_empty(value.args[1])
    return isinstance(value, ast.Constant) and value.value == ""


def _calls(module: _Module, value: ast.expr) -> set[Place]:
    """Return the functions whose result an expression may be."""
    if isinstance(value, ast.Await | ast.NamedExpr):
        return _calls(module, value.value)
    if isinstance(value, ast.IfExp):
        return _calls(module, value.body) | _calls(module, value.orelse)
    if isinstance(value, ast.BoolOp):
        return set().union(*(_calls(module, part) for part in value.values))
    if not isinstance(value, ast.Call):
        return set()
    called = value.func
    if isinstance(called, ast.Name):
        if called.id in module.functions:
            return {(module.name, called.id)}
        return {module.imported[called.id]} if called.id in module.imported else set()
    if isinstance(called, ast.Attribute):
        if isinstance(called.value, ast.Name) and called.value.id in module.imported:
            return {(".".join(module.imported[called.value.id]), called.attr)}
        return {("", called.attr)}
    return set()


def _asked(module: _Module) -> set[Place]:
    """Return the functions whose results a module asks for truth."""
    asked: set[Place] = set()
    for function in [node for node in ast.walk(module.tree) if isinstance(node, Function)]:
        nodes = list(ast.walk(function))
        results: dict[str, set[Place]] = {}
        for name, value in _assigned(nodes):
            results.setdefault(name, set()).update(_calls(module, value))
        for test in _tests(nodes):
            asked |= _calls(module, test)
            if isinstance(test, ast.Name):
                asked |= results.get(test.id, set())
    return asked


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.NamedExpr):
            yield node.target.id, node.value


def _tests(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the expressions that are asked for truth."""
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield from _parts(node.test)
        elif isinstance(node, ast.comprehension):
            for condition in node.ifs:
                yield from _parts(condition)
        elif isinstance(node, ast.BoolOp):
            for value in node.values[:-1]:
                yield from _parts(value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from _parts(node.operand)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool":
            for value in node.args:
                yield from _parts(value)


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _parts(value)
    elif isinstance(test, ast.UnaryOp):
        yield from _parts(test.operand)
    else:
        yield test
