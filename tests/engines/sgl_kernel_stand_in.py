"""A stand-in for ``sgl_kernel``, SGLang's package of CUDA kernels: every name is there, to no avail.

It is copied into SGLang's environment as ``sgl_kernel.py``.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__version__ = "0.4.10"
__path__: list[str] = []


class Kernel:
    """Something that SGLang imports and, on a processor, does not use."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> "Kernel":
        return __getattr__(name)

    def __call__(self, *_arguments: object, **_named: object) -> object:
        """Say that it needs a GPU."""
        raise NotImplementedError(f"the kernel {self.__name__} needs a GPU")


def __getattr__(name: str) -> Kernel:
    if name.startswith("__"):
        raise AttributeError(name)
    return Kernel(name)


class _Modules(MetaPathFinder, Loader):
    """Finds every module of the package."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.startswith("sgl_kernel.") else None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = __getattr__


sys.meta_path.append(_Modules())
