"""Commands that start an engine, found in the command line of a container.

An engine is known by its program, or by an image whose entry point is the program. Its version is known by
the tag of its official image; any other image may contain a version of its own.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from modelplane.api.fields.pods.containers import Container
from modelplane.catalogue.flag_table import SWITCHES, Release
from modelplane.compose.replica.engine_flags import begins_with, written_words
from modelplane.offline.files.diagnostics import Path


class KnownEngine(msgspec.Struct, frozen=True):
    """An engine with a table of flags."""

    table: str
    name: str
    image: re.Pattern[str]
    """Its official image in any registry, with the version of the tag."""
    programs: tuple[tuple[str, ...], ...]
    is_entry_point: bool
    """True if the image starts the engine without a command."""
    dashes: bool
    """True if ``--a_flag`` is ``--a-flag``."""
    repeatable: bool
    """True if a flag that is given twice may count twice."""
    port: int
    """Port that it listens on by default."""
    loopback: bool = False
    """True if it listens on loopback only by default."""


def _image(name: str, tag: str) -> re.Pattern[str]:
    return re.compile(rf"(?:[^@]*/)?{name}(?::(?:{tag})?[^@]*)?(?:@.*)?")


ENGINES: Final = (
    KnownEngine(
        "vllm",
        "vLLM",
        _image(r"vllm/vllm-openai(?:-[a-z0-9-]+)?", r"v?(?P<version>\d+(?:\.\d+)+(?:\.post\d+)?)(?![\w.])"),
        (("vllm", "serve"), ("-m", "vllm.entrypoints.openai.api_server")),
        is_entry_point=True,
        dashes=True,
        repeatable=False,
        port=8000,
    ),
    KnownEngine(
        "sglang",
        "SGLang",
        _image("lmsysorg/sglang", r"v?(?P<version>\d+(?:\.\d+)+(?:\.post\d+)?)(?![\w.])"),
        (("-m", "sglang.launch_server"), ("sglang", "serve")),
        is_entry_point=False,
        dashes=False,
        repeatable=False,
        port=30000,
        loopback=True,
    ),
    KnownEngine(
        "llama.cpp",
        "llama.cpp",
        _image(r"ggml-org/llama\.cpp", r"server[a-z0-9-]*?-b(?P<version>\d+)(?![\w.])"),
        (("llama-server",),),
        is_entry_point=True,
        dashes=True,
        repeatable=True,
        port=8080,
    ),
)


class Given(msgspec.Struct, frozen=True):
    """One flag as its author gave it."""

    written: str
    name: str
    """The name as the engine's parser reads it."""
    value: str | None
    """None if the flag has no value."""
    path: Path
    """The word of the container, such as ``args[2]``."""


class EngineCommand(msgspec.Struct, frozen=True):
    """One start of an engine."""

    engine: KnownEngine
    official: bool
    """True if the image is the engine's own, so that its version has no other flags."""
    version: str | None
    """The version that the tag names."""
    words: tuple[tuple[str, Path], ...]
    """The arguments, each with its place in the container."""

    def given(self, release: Release) -> Iterator[Given]:
        """Yield the flags, read with the parser of a release."""
        place = 0
        while place < len(self.words):
            word, path = self.words[place]
            place += 1
            if not re.match(r"--?[A-Za-z]", word):
                continue
            written, equals, attached = word.partition("=")
            name = written.replace("_", "-") if self.engine.dashes and word.startswith("--") else written
            if self.engine.table == "vllm" and re.match(r"-O|--[^.]*\.", name):
                continue  # a level of optimization, or one key of a flag whose value is JSON
            flag = release.named(name)
            if equals or flag is None or flag.kind in SWITCHES:
                yield Given(written, name, attached if equals else None, path)
                continue
            values = 0
            while place + values < len(self.words) and self._is_value(self.words[place + values][0]):
                values += 1
                if not flag.values or (flag.values == "2" and values > 1):
                    break
            yield Given(written, name, self.words[place][0] if values else None, path)
            place += values

    @staticmethod
    def _is_value(word: str) -> bool:
        return re.match(r"-[^\d.]", word) is None


def engine_commands(container: Container) -> Iterator[EngineCommand]:
    """Yield each start of a known engine."""
    words = list(_joined(container))
    for engine in ENGINES:
        found = engine.image.fullmatch(container.image)
        version = found["version"] if found else None
        starts = [
            place + len(program)
            for program in engine.programs
            for place in range(len(words))
            if begins_with([word for word, _ in words[place : place + len(program)]], program)
        ]
        if not starts and found and engine.is_entry_point and not container.command:
            starts = [0]
        for start in sorted(starts):
            yield EngineCommand(engine, found is not None, version, tuple(_to_its_end(words[start:])))
        if found or starts:
            return


def _to_its_end(words: list[tuple[str, Path]]) -> Iterator[tuple[str, Path]]:
    """Yield the words up to what ends a command in a shell."""
    for word, path in words:
        if word and not word.strip("();<>|&\n"):
            return
        yield word, path


def _joined(container: Container) -> Iterator[tuple[str, Path]]:
    """Yield the words with their places. A variable that Kubernetes expands is one word with its flag."""
    for written in written_words(container):
        words = iter(written.words)
        for word in words:
            joined = word
            if word.endswith("$") and len(written.words) > 1:
                joined += "".join(part for _, part in zip(range(3), words, strict=False))
            yield joined, (written.field, written.place)
