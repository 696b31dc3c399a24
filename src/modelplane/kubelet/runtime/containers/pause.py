"""A program that waits, for a container that only holds the network of a pod.

It must run in any image, some of which contain nothing but one program, so it needs no library, no shell and
no other file. It is a few instructions of a machine, in the smallest ELF file that Linux accepts: a container
runtime mounts it into the image that the pod has already.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TARGET = "/modelplane-pause"
"""Path of the program in the container."""

_ADDRESS = 0x400000
_HEADER = struct.Struct("<4s5B7xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ELF_64_LITTLE_ENDIAN = (2, 1, 1, 0, 0)
_EXECUTABLE = 2
_LOADED = 1
_READ_AND_EXECUTE = 5
_PAGE = 0x1000


@dataclass(frozen=True, slots=True)
class Instructions:
    """The program of one machine."""

    machine: int
    """Its number in ELF (``e_machine``)."""
    code: bytes


PROGRAMS: Mapping[str, Instructions] = {
    "x86_64": Instructions(
        62,
        bytes.fromhex(
            "b822000000"  # mov eax, 34: pause(2)
            "0f05"  # syscall
            "ebf7"  # jmp to the beginning
        ),
    ),
    # There is no pause(2): ppoll(2) of nothing, without a timeout.
    "aarch64": Instructions(
        183,
        bytes.fromhex(
            "000080d2"  # mov x0, 0
            "010080d2"  # mov x1, 0
            "020080d2"  # mov x2, 0
            "030080d2"  # mov x3, 0
            "040080d2"  # mov x4, 0
            "280980d2"  # mov x8, 73: ppoll(2)
            "010000d4"  # svc 0
            "f9ffff17"  # b to the beginning
        ),
    ),
}
"""By the machine's name, as ``uname -m`` says it."""


def build_program(instructions: Instructions) -> bytes:
    """Return the file (elf(5)): a header, one segment, and the instructions."""
    begin = _HEADER.size + _SEGMENT.size
    size = begin + len(instructions.code)
    header = _HEADER.pack(
        b"\x7fELF",
        *_ELF_64_LITTLE_ENDIAN,
        _EXECUTABLE,
        instructions.machine,
        1,
        _ADDRESS + begin,
        _HEADER.size,
        0,
        0,
        _HEADER.size,
        _SEGMENT.size,
        1,
        0,
        0,
        0,
    )
    segment = _SEGMENT.pack(_LOADED, _READ_AND_EXECUTE, 0, _ADDRESS, _ADDRESS, size, size, _PAGE)
    return header + segment + instructions.code


def install(path: Path, machine: str) -> None:
    """Write the program of a machine, once; ``KeyError`` for a machine without one."""
    content = build_program(PROGRAMS[machine])
    if path.is_file() and path.read_bytes() == content:
        return
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(content)
    unfinished.chmod(0o755)
    unfinished.replace(path)
