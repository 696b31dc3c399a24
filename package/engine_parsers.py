# ruff: noqa: INP001  a script beside what it writes, not a package
"""The flags of vLLM, SGLang and llama.cpp, each read from an unpacked wheel."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from argparse_source import Flag, Sources, Unreadable, declared, names_of

_LEAST = 100
"""Fewer flags mean that a parser has another form by now."""


def vllm(wheel: Path) -> list[Flag]:
    """Return the flags of ``vllm serve``."""
    root = wheel / "vllm"
    entry = [root / "entrypoints" / folder / "cli_args.py" for folder in ("common", "openai")]
    parsers = [path for path in (root / "engine" / "arg_utils.py", *entry) if path.is_file()]
    config = [root / "config.py", *sorted((root / "config").rglob("*.py"))]
    parser = Sources(parsers)
    everything = Sources([*parsers, *(path for path in config if path.is_file())])
    sizes, changed = _sizes(parser), _changed(parser)
    found = []
    for call in parser.calls("add_argument"):
        names = names_of(call)
        if names:
            found.append(declared(everything, call, _derived(everything, call, names, sizes, changed)))
        elif "key.replace" in ast.unparse(call):
            for field, annotation in everything.fields("FrontendArgs").items():
                name = (f"--{field.replace('_', '-')}",)
                flag = everything.of_type(name, annotation)
                found.append(Flag(name) if field in changed else flag)
        elif not isinstance(call.args[0], ast.Constant):
            found += [Flag((name,), deprecated=True) for name in _looped(parser, call)]
    return _unique(found)


def _derived(
    sources: Sources, call: ast.Call, names: tuple[str, ...], sizes: set[str], changed: set[str]
) -> Flag:
    """Return the flag of a field, for a call with ``**parallel_kwargs["field"]``."""
    for each in call.keywords:
        if each.arg is not None:
            continue
        if isinstance(each.value, ast.Name):  # keywords that the parser changes
            return Flag(names)
        found = re.search(r"(\w+_kwargs)\['(\w+)'\]", ast.unparse(each.value))
        if found is None:
            raise Unreadable(ast.unparse(call))
        field = found[2]
        origin = sources.constants.get(found[1])
        if not (isinstance(origin, ast.Call) and origin.args):
            raise Unreadable(ast.unparse(call))
        annotation = sources.fields(ast.unparse(origin.args[0])).get(field)
        if annotation is None or field in changed:
            return Flag(names)
        flag = sources.of_type(names, annotation)
        return Flag(names, "size") if field in sizes and flag.kind == "int" else flag
    return Flag(names)


def _looped(sources: Sources, call: ast.Call) -> list[str]:
    """Return the names of a call in a loop over constants, as vLLM 0.11 declares removals."""
    for tree in sources.trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.For) and any(each is call for each in ast.walk(node)):
                texts = [str(each.value) for each in ast.walk(node.iter) if isinstance(each, ast.Constant)]
                return [text for text in texts if text.startswith("--")]
    raise Unreadable(ast.unparse(call))


def _sizes(sources: Sources) -> set[str]:
    """Return the fields whose numbers may have a suffix such as k."""
    found: set[str] = set()
    for tree in sources.trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and ast.unparse(node.left) == "name":
                wanted = node.comparators[0]
                if isinstance(wanted, ast.Constant):
                    found.add(str(wanted.value))
                else:
                    found |= set(sources.choices(wanted))
    return found


def _changed(sources: Sources) -> set[str]:
    """Return the fields whose derived keywords the parser changes, so that nothing is known of the value."""
    pattern = re.compile(r"\w+_kwargs\['(\w+)'\]\['(type|action|nargs|choices)'\]")
    found = set()
    for tree in sources.trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.Delete | ast.Expr):
                found |= {match[1] for match in pattern.finditer(ast.unparse(node))}
    return found


def sglang(wheel: Path) -> list[Flag]:
    """Return the flags of ``sglang.launch_server``."""
    root = wheel / "sglang" / "srt"
    groups = sorted((root / "arg_groups").rglob("*.py"))
    registries = [
        path
        for name in (
            "function_call/function_call_parser.py",
            "function_call/parser_names.py",
            "parser/reasoning_parser.py",
            "parser/reasoning_parser_names.py",
            "reasoning_parser.py",
        )
        if (path := root / name).is_file()
    ]
    parser = Sources([root / "server_args.py"])
    everything = Sources([root / "server_args.py", *groups, *registries])
    found = [
        declared(everything, call, Flag(names))
        for call in parser.calls("add_argument")
        if (names := names_of(call))
    ]
    for name in everything.classes:
        for field, annotation in everything.fields(name).items():
            if flag := _annotated(everything, field, annotation):
                found.append(flag)
    return _unique(found)


def _annotated(sources: Sources, field: str, annotation: ast.expr) -> Flag | None:
    """Return the flag of a field such as ``A[int, Arg(help="...", aliases=["--tp"])]``."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="A"), slice=ast.Tuple(elts=[type_, about, *_])):
            pass
        case _:
            return None
    own = f"--{field.replace('_', '-')}"
    if isinstance(about, ast.Constant | ast.JoinedStr | ast.BinOp):
        about = ast.Call(ast.Name("Arg"), [], [])
    if not (isinstance(about, ast.Call) and ast.unparse(about.func) == "Arg"):
        return None
    given = {each.arg: each.value for each in about.keywords}
    if "no_cli" in given:
        return None
    if isinstance(name := given.get("cli_name"), ast.Constant):
        own = str(name.value)
    flag = sources.of_type((own, *sources.choices(given.get("aliases"))), type_)
    if flag.kind == "bool":
        flag = Flag(flag.names, "switch")
    if "type_parser" in given:
        flag = Flag(flag.names)
    wanted = [each for each in about.keywords if each.arg in ("choices", "nargs", "action")]
    return declared(sources, ast.Call(about.func, [], wanted), flag)


_HELP = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import xllamacpp
parse = ctypes.CDLL(xllamacpp.xllamacpp.__file__)[
    "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E"]
words = (ctypes.c_char_p * 3)(b"llama-server", b"--help", None)
parameters = xllamacpp.CommonParams()
parse(2, words, ctypes.c_void_p(id(parameters) + 16), int(sys.argv[2]), None)
"""
"""Prints the help of one of llama.cpp's programs: its own parser, called in the library of xllamacpp.

The parameters follow the header of their Python object.
"""

_PROGRAMS = range(32)


def llama_cpp(wheel: Path) -> list[Flag]:
    """Return the flags of ``llama-server``, from its help."""
    for program in _PROGRAMS:
        command = [sys.executable, "-c", _HELP, str(wheel), str(program)]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if "LLAMA_ARG_PORT" in text:
            return _unique([flag for line in text.splitlines() if (flag := _helped(line))])
    raise Unreadable("no program of llama.cpp has the flag --port")


_NAME = r"--?[A-Za-z][\w.-]*"
_LINE = re.compile(rf"(?P<names>{_NAME}(?:,\s+{_NAME})*)(?P<value>(?: [^\s]+)*?)(?:\s{{2,}}.*)?$")


def _helped(line: str) -> Flag | None:
    """Return the flag of a line of help, such as ``-fa, --flash-attn [on|off|auto]   use it``."""
    found = _LINE.match(line)
    if found is None:
        return None
    names = tuple(re.split(r",\s+", found["names"]))
    value = found["value"].strip()
    if not value:
        return Flag(names, "switch")
    options = re.fullmatch(r"[\[{<]([\w-]+(?:[|,][\w-]+)+)[\]}>]", value)
    choices = tuple(re.split("[|,]", options[1])) if options else ()
    return Flag(names, choices=choices, values="2" if value == "START END" else "")


def _unique(found: list[Flag]) -> list[Flag]:
    """Return each flag once: SGLang declares some in two groups."""
    by_name = {name: flag for flag in found for name in flag.names}
    if len(by_name) < _LEAST:
        raise Unreadable(f"only {len(by_name)} flags were found: the parser has another form")
    return sorted(set(by_name.values()), key=lambda flag: flag.names)
