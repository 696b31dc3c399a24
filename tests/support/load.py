"""OpenAI clients that ask a fleet without a pause, and what came of it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import openai
from openai.types.chat import ChatCompletionUserMessageParam

from support.patience import PATIENCE_S

QUESTION: list[ChatCompletionUserMessageParam] = [
    {"role": "user", "content": "What is the capital of France?"}
]


@dataclass(slots=True)
class Load:
    """Clients that ask without a pause; half of them for streams."""

    address: str
    expected: str = "Paris"
    """What every answer has in it."""
    model: str = "gemma"
    tokens: int = 12
    """Most tokens of an answer."""
    pause_s: float = 0.2
    """Time that a client waits after an answer: without one, the engines would take every core."""
    answers: int = 0
    failures: list[tuple[float, str]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def _ask(self, *, stream: bool) -> None:
        with openai.OpenAI(
            base_url=f"{self.address}/v1", api_key="none", max_retries=0, timeout=60.0
        ) as client:
            while not self._over.is_set():
                asked_at = time.monotonic()
                try:
                    ended, content = self._answer(client, stream=stream)
                    assert ended in {"stop", "length"}, "the answer is cut off"
                    assert self.expected in content
                    self.answers += 1
                except Exception as error:  # noqa: BLE001 - whatever went wrong, it was no answer
                    self.failures.append((asked_at, f"{type(error).__name__}: {error}"))
                self._over.wait(self.pause_s)

    def _answer(self, client: openai.OpenAI, *, stream: bool) -> tuple[str, str]:
        """Return why an answer has ended, and the answer."""
        if not stream:
            [choice] = client.chat.completions.create(
                model=self.model, messages=QUESTION, max_tokens=self.tokens
            ).choices
            return choice.finish_reason, choice.message.content or ""
        ended, content = "", ""
        for piece in client.chat.completions.create(
            model=self.model, messages=QUESTION, max_tokens=self.tokens, stream=True
        ):
            for part in piece.choices:
                ended, content = part.finish_reason or ended, content + (part.delta.content or "")
        return ended, content

    @contextmanager
    def flowing(self) -> Iterator["Load"]:
        clients = [
            threading.Thread(target=self._ask, kwargs={"stream": place % 2 == 0}, daemon=True)
            for place in range(4)
        ]
        for each in clients:
            each.start()
        try:
            yield self
        finally:
            self._over.set()
            for each in clients:
                each.join(90)

    def until_answered(self, more: int) -> None:
        """Wait until some more requests have been answered."""
        goal, deadline = self.answers + more, time.monotonic() + PATIENCE_S
        while self.answers < goal:
            assert time.monotonic() < deadline, self.failures
            time.sleep(0.05)
