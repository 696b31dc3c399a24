# ruff: noqa: INP001  a module beside what it helps to write, not a package
"""Manifests on pages, written from the files of the repository that they are copies of.

    <!-- include: examples/07-api-keys/inference-gateway.yaml -->
    ```yaml
    apiVersion: modelplane.ai/v1alpha1
    ...
    ```

`PATH#Kind` or `PATH#Kind/name` includes one document of a file. Comments before the first field are left out.
"""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
_INCLUDE: Final = re.compile(
    r"^(?P<directive>(?P<indent> *)<!-- include: (?P<path>[^\s#]+)"
    r"(?:#(?P<kind>\w+)(?:/(?P<name>\S+))?)? -->\n)"
    r"(?P<block> *```yaml\n.*?^ *```$)?",
    re.MULTILINE | re.DOTALL,
)
_SEPARATOR: Final = re.compile(r"^---.*\n", re.MULTILINE)
_HEAD: Final = re.compile(r"\A(?:(?:#.*)?\n)+")


def fill_pages(generated: Mapping[Path, str]) -> dict[Path, str]:
    """Return each page that includes manifests, with their present content.

    A page or a manifest that is generated itself is taken as it will be written.
    """
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    texts = {page: generated.get(page) or page.read_text(encoding="utf-8") for page in sorted(pages)}
    texts |= {page: text for page, text in generated.items() if page.suffix == ".md"}
    return {page: fill(text, generated) for page, text in texts.items() if _INCLUDE.search(text)}


def fill(page: str, generated: Mapping[Path, str]) -> str:
    """Return a page with the content of its file below each directive.

    Raises ValueError if the repository doesn't have the file, or the file not exactly one such document.
    """

    def write_block(found: "re.Match[str]") -> str:
        text = f"```yaml\n{_read(found, generated)}```{'' if found['block'] else chr(10)}"
        return f"{found['directive']}{textwrap.indent(text, found['indent'])}"

    return _INCLUDE.sub(write_block, page)


def _read(found: "re.Match[str]", generated: Mapping[Path, str]) -> str:
    file = ROOT / found["path"]
    if file not in generated and not file.is_file():
        raise ValueError(f"cannot include {found['path']}: the repository has no such file")
    text = generated.get(file) or file.read_text(encoding="utf-8")
    if found["kind"]:
        documents = [each for each in _SEPARATOR.split(text) if _is_named(each, found["kind"], found["name"])]
        if len(documents) != 1:
            raise ValueError(
                f"cannot include {found['kind']} of {found['path']}: {len(documents)} documents fit"
            )
        [text] = documents
    return _HEAD.sub("", text).rstrip() + "\n"


def _is_named(document: str, kind: str, name: str | None) -> bool:
    read = yaml.safe_load(document) or {}
    return bool(read.get("kind") == kind and name in (None, read["metadata"]["name"]))
