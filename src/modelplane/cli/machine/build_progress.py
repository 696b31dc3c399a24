"""Progress of a build from source: a bar, or a line now and then."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn

from modelplane.local.build import Progress

ANNOUNCEMENT = (
    "Building the control plane (Kubernetes and etcd) from source. This happens once, and takes about "
    "5 minutes on two cores"
)
WITHOUT_MODULE = (
    "The gateway runs without its module: API keys, the URL for all models, provider credentials, and "
    "token counts are unavailable"
)
MODULE_ANNOUNCEMENT = (
    "Building the gateway module from source. This happens once, and takes about a minute on two cores"
)
_LINE_EVERY_S = 10.0


class BuildProgress:
    """Shows the progress of a build; silent until one starts."""

    def __init__(self, console: Console, announcement: str = ANNOUNCEMENT) -> None:
        self._console = console
        self._announcement = announcement
        self._started = time.monotonic()
        self.announced = False
        self._last_line = 0.0
        self._bar = Bar(
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.announced:
            self._bar.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._started

    def __call__(self, progress: Progress) -> None:
        """Show the progress of the build."""
        if not self.announced:
            self.announced = True
            self._console.print(self._announcement)
            if self._console.is_terminal:
                self._bar.start()
        total = progress.total or None
        self._bar.update(self._task, description=progress.phase, completed=progress.done, total=total)
        if not self._console.is_terminal and self.elapsed_s - self._last_line >= _LINE_EVERY_S:
            self._last_line = self.elapsed_s
            self._console.print(f"  {_sentence(progress)}, {self.elapsed_s:.0f} s")


def _sentence(progress: Progress) -> str:
    if progress.total:
        return f"{progress.phase}: {progress.done} of {progress.total} packages"
    return f"{progress.phase}: {progress.done}" if progress.done else progress.phase
