"""Golden cases: the objects that go in and those that are composed, a file for each case.

A file has the case's ``reason``, its ``input`` and its ``output``. If it names a ``base``, another case of
its kind, both are patches of those of the base (``document_patches.py``). A long program is a file of its
own: ``!program NAME`` stands for its text.
"""

import io
import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from support.document_patches import (
    REMOVED,
    WIDTH,
    Document,
    Like,
    Removed,
    Value,
    apply,
    copied,
    diff,
    is_short,
    lines,
)

PROGRAM_LINES = 10
"""A text of as many lines is a program, in a file of its own."""
_MOST_BASES = 2
"""A case is a patch of a base, and this one may be a patch of another."""
_NAMED = re.compile(r"\[([^\d\]][^\] ]*)")


@dataclass(frozen=True, slots=True)
class Case:
    """A case: why there is one, the case that it patches, its input, and the output expected of it."""

    reason: str
    base: str
    input: Document
    output: Document


@dataclass(frozen=True)
class Goldens:
    """The golden cases of a folder, by names such as ``model_cache/partial``."""

    root: Path
    _documents: dict[str, Document] = field(default_factory=dict)

    def names(self, kind: str = "*") -> list[str]:
        """Return the names of the cases of one kind, or of all."""
        paths = self.root.glob(f"composition/{kind}/*.yaml")
        return sorted(f"{path.parent.name}/{path.stem}" for path in paths)

    def reason(self, name: str) -> str:
        """Return why there is a case."""
        return str(self._document(name)["reason"])

    def input(self, name: str) -> Document:
        """Return the input of a case.

        Raises:
            ValueError: Its base doesn't exist, lacks what the case changes, or has too many bases below it.
        """
        return self._part("input", name, _MOST_BASES)

    def output(self, name: str) -> Document:
        """Return the output that is expected of a case.

        Raises:
            ValueError: As of its input.
        """
        return self._part("output", name, _MOST_BASES)

    def with_outputs(self, outputs: dict[str, Document]) -> dict[str, Case]:
        """Return the cases, each with another output, whose fields are sorted."""
        return {
            name: Case(
                self.reason(name), self._document(name).get("base", ""), self.input(name), _sorted(output)
            )
            for name, output in outputs.items()
        }

    def write(self, cases: dict[str, Case]) -> None:
        """Write these cases, and remove the programs that none of them has."""
        files = self.files(cases)
        for path in self.present().keys() - files.keys():
            (self.root / path).unlink()
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8", newline="")
        self._documents.clear()

    def present(self) -> dict[str, str]:
        """Return the text of each file of a case or a program, by path."""
        folders = (self.root / "composition", self.root / "programs")
        paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes().decode() for path in paths}

    def files(self, cases: dict[str, Case]) -> dict[str, str]:
        """Return the text of each file that these cases need, by path.

        A case without a base gets the one with the smallest patch, unless it is the base of others.
        """
        programs = {_digest(path): path.name for path in sorted(self.root.glob("programs/*"))}
        used: dict[str, str] = {}
        cases = dict(cases)
        files = {}
        for name, case in sorted(cases.items()):
            base = case.base or _smallest_base(name, cases)
            cases[name] = replace(case, base=base)
            document = {"reason": case.reason, "input": case.input, "output": case.output}
            if base:
                document = {"reason": case.reason, "base": base, **_patches(cases[_beside(name, base)], case)}
            files[f"composition/{name}.yaml"] = _text(_without_programs(document, "", programs, used))
        return files | {f"programs/{name}": text for name, text in used.items()}

    def _part(self, part: str, name: str, most_bases: int) -> Document:
        document = self._document(name)
        base = document.get("base", "")
        if not base:
            whole: Document = copied(document.get(part, {}))
            return whole
        if not most_bases:
            raise ValueError(
                f"{name} must be a whole case, because it is the base of a base: it names {base}"
            )
        try:
            return apply(self._part(part, _beside(name, base), most_bases - 1), document.get(part, {}))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def _document(self, name: str) -> Document:
        if name not in self._documents:
            path = self.root / "composition" / f"{name}.yaml"
            if not path.is_file():
                raise ValueError(f"no golden case has the name {name}")
            loader = _Loader(path.read_text(encoding="utf-8"))
            self._documents[name] = self._with_programs(loader.get_single_data())
        return self._documents[name]

    def _with_programs(self, value: Value) -> Value:
        if isinstance(value, dict):
            return {name: self._with_programs(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [*map(self._with_programs, value)]
        if isinstance(value, _Program):
            return (self.root / "programs" / value.name).read_bytes().decode()
        return value


GOLDENS = Goldens(Path(__file__).parents[1] / "golden")


def _sorted(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _sorted(inner) for name, inner in sorted(value.items())}
    return [*map(_sorted, value)] if isinstance(value, list) else value


def _beside(name: str, other: str) -> str:
    return f"{name.partition('/')[0]}/{other}"


def _smallest_base(name: str, cases: dict[str, Case]) -> str:
    """Return the base of the smallest patch, or nothing for a case that is a base or shorter than a patch."""
    kind, _, own = name.partition("/")
    others = {other.partition("/")[2]: case for other, case in cases.items() if other.startswith(f"{kind}/")}
    case = others.pop(own)
    if own in {other.base for other in others.values()}:
        return ""
    lengths = {lines(case.input) + lines(case.output): ""}
    for base, other in sorted(others.items()):
        if not other.base or not others[other.base].base:
            patches = _patches(other, case)
            lengths.setdefault(
                sum(lines(value) for part in patches.values() for value in part.values()), base
            )
    return lengths[min(lengths)]


def _patches(base: Case, case: Case) -> Document:
    return {"input": diff(base.input, case.input), "output": diff(base.output, case.output)}


@dataclass(frozen=True, slots=True)
class _Program:
    name: str


def _without_programs(value: Value, name: str, programs: dict[str, str], used: dict[str, str]) -> Value:
    """Replace programs by the names of their files, and add these files to the used ones."""
    if isinstance(value, dict):
        own = value["name"] if isinstance(value.get("name"), str) else name
        return {
            key: _without_programs(inner, _named(key) or own, programs, used) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_without_programs(inner, name, programs, used) for inner in value]
    if not isinstance(value, str) or value.count("\n") < PROGRAM_LINES:
        return value
    digest = sha256(value.encode()).hexdigest()[:8]
    file = programs.setdefault(digest, f"{name}-{digest}.txt")
    used[file] = value
    return _Program(file)


def _named(key: str) -> str:
    """Return the name of a program by its field or path: of a file, or of the last item of a list."""
    items = _NAMED.findall(key)
    return items[-1] if items else key if "." in key else ""


def _digest(path: Path) -> str:
    return path.stem.rpartition("-")[2]


class _Loader(yaml.CSafeLoader):
    """Reads the tags of cases."""


_Loader.add_constructor("!removed", lambda _loader, _node: REMOVED)
_Loader.add_constructor("!like", lambda _loader, node: Like(node.value))
_Loader.add_constructor("!program", lambda _loader, node: _Program(node.value))


class _Dumper(yaml.CSafeDumper):
    """Writes the tags of cases, texts of several lines as blocks, and short maps and lists in one line."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = is_short(mapping)
        return node

    def represent_sequence(
        self, tag: str, sequence: Any, flow_style: bool | None = None
    ) -> yaml.SequenceNode:
        node = super().represent_sequence(tag, sequence, flow_style)
        node.flow_style = is_short(sequence)
        return node


_Dumper.add_representer(Removed, lambda dumper, _: dumper.represent_scalar("!removed", ""))
_Dumper.add_representer(Like, lambda dumper, like: dumper.represent_scalar("!like", like.name))
_Dumper.add_representer(_Program, lambda dumper, program: dumper.represent_scalar("!program", program.name))
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, "|" if "\n" in text else None
    ),
)


def _text(document: Document) -> str:
    """Return the text of a case, with each path in one line: YAML has another form for long ones."""
    document = dict(document)
    paths: list[str] = []
    for part in ("input", "output") if "base" in document else ():
        numbered = enumerate(document[part].values(), len(paths))
        paths += document[part]
        document[part] = {f"<{number}>": value for number, value in numbered}
    node = _Dumper(io.StringIO(), sort_keys=False).represent_mapping("tag:yaml.org,2002:map", document)
    node.flow_style = False
    for _, value in node.value:
        value.flow_style = False
    text: str = yaml.serialize(node, Dumper=_Dumper, allow_unicode=True, width=WIDTH)
    text = text.replace("!removed ''\n", "!removed\n")
    return re.sub("^  <([0-9]+)>", lambda match: f"  {paths[int(match[1])]}", text, flags=re.MULTILINE)
