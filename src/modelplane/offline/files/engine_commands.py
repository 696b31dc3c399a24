"""Command lines of engines in manifests, parsed once: the engine, its version and its flags.

An engine is known by its program, or by an image whose entry point is the program. Its version is known by
the tag of its official image; any other image may contain a version of its own.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from modelplane.api.fields.pods.containers import Container
from modelplane.catalogue.flag_files import load_flag_table
from modelplane.catalogue.flag_table import SWITCHES, Release, find_nearest
from modelplane.compose.replica.engine_command_lines import Written, begins_with, list_written_words
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


class Flags(msgspec.Struct, frozen=True):
    """The flags of one command, by the names that the engine's parser reads."""

    given: Mapping[str, Given]

    def find(self, *names: str) -> Given | None:
        """Return a flag by any of its names."""
        return next((self.given[name] for name in names if name in self.given), None)

    def get_number(self, *names: str) -> int | None:
        """Return the value of a flag, 1 if it is absent; None if it is not a plain number."""
        flag = self.find(*names)
        if flag is None:
            return 1
        value = flag.value or ""
        return int(value) if value.isascii() and value.isdigit() and len(value) < 7 else None


Words = tuple[tuple[str, Path], ...]
"""Arguments, each with its place in the container."""


class EngineCommand(msgspec.Struct, frozen=True):
    """One start of an engine."""

    engine: KnownEngine
    official: bool
    """True if the image is the engine's own, so that its version has no other flags."""
    version: str | None
    """The version that the tag names."""
    releases: tuple[Release, ...]
    """The releases whose flags the version has: itself, or those before and after it."""
    given: tuple[tuple[Given, ...], ...]
    """The flags as the parser of each release reads them."""
    flags: Flags
    """Those of the first release, by each of their names."""


def parse_commands(container: Container) -> tuple[EngineCommand, ...]:
    """Return each start of a known engine."""
    return _parsed(container.image, tuple(list_written_words(container)))


@functools.lru_cache(maxsize=64)
def _parsed(image: str, written: tuple[Written, ...]) -> tuple[EngineCommand, ...]:
    """Parse a command line. The rules about one object and those about several ask for the same one."""
    words = tuple(_joined(written))
    for engine in ENGINES:
        official = engine.image.fullmatch(image)
        starts = [
            place + len(program)
            for program in engine.programs
            for place in range(len(words))
            if begins_with([word for word, _ in words[place : place + len(program)]], program)
        ]
        if (
            not starts
            and official
            and engine.is_entry_point
            and not (written and written[0].field == "command")
        ):
            starts = [0]
        if official or starts:
            version = official["version"] if official else None
            releases = find_nearest(load_flag_table(engine.table), version)
            return tuple(
                _command(engine, official is not None, version, releases, tuple(_to_its_end(words[start:])))
                for start in sorted(starts)
            )
    return ()


def _command(
    engine: KnownEngine, official: bool, version: str | None, releases: tuple[Release, ...], words: Words
) -> EngineCommand:
    given = tuple(tuple(_given(engine, words, release)) for release in releases)
    named: dict[str, Given] = {}
    for flag_given in given[0]:
        flag = releases[0].find_flag(flag_given.name)
        named |= dict.fromkeys(flag.names if flag else (flag_given.name,), flag_given)
    return EngineCommand(engine, official, version, releases, given, Flags(named))


def _given(engine: KnownEngine, words: Words, release: Release) -> Iterator[Given]:
    """Yield the flags, read with the parser of a release."""
    place = 0
    while place < len(words):
        word, path = words[place]
        place += 1
        if not re.match(r"--?[A-Za-z]", word):
            continue
        written, equals, attached = word.partition("=")
        name = written.replace("_", "-") if engine.dashes and word.startswith("--") else written
        if engine.table == "vllm" and re.match(r"-O|--[^.]*\.", name):
            continue  # a level of optimization, or one key of a flag whose value is JSON
        flag = release.find_flag(name)
        if equals or flag is None or flag.kind in SWITCHES:
            yield Given(written, name, attached if equals else None, path)
            continue
        values = 0
        while place + values < len(words) and re.match(r"-[^\d.]", words[place + values][0]) is None:
            values += 1
            if not flag.values or (flag.values == "2" and values > 1):
                break
        yield Given(written, name, words[place][0] if values else None, path)
        place += values


def _to_its_end(words: Words) -> Iterator[tuple[str, Path]]:
    """Yield the words up to what ends a command in a shell."""
    for word, path in words:
        if word and not word.strip("();<>|&\n"):
            return
        yield word, path


def _joined(written: tuple[Written, ...]) -> Iterator[tuple[str, Path]]:
    """Yield the words with their places; the pieces of a variable (``$``, ``(``, name, ``)``) as one word."""
    for item in written:
        words = iter(item.words)
        for word in words:
            joined = word
            if word.endswith("$") and len(item.words) > 1:
                joined += "".join(part for _, part in zip(range(3), words, strict=False))
            yield joined, (item.field, item.place)
