"""The breaker that Crossplane puts between watch events and a composite's reconciles.

A bucket of tokens per composite. Controller-runtime asks about an update twice, once with the object as it
was and once as it is, so an update costs two tokens; whatever is being deleted costs none. What changes in
the composite itself passes the same breaker.
"""

from collections import Counter
from dataclasses import dataclass, field

from support.crossplane.api import Change, Event
from support.crossplane.objects import Key, Object, is_deleted, key_of


@dataclass(frozen=True, slots=True)
class Limits:
    """The flags of Crossplane, with the defaults that they have there."""

    burst: float = 100
    per_second: float = 1
    cooldown: float = 300
    probe_every: float = 30


@dataclass
class Breaker:
    """The breaker of one composite."""

    limits: Limits
    tokens: float
    filled_at: float = 0.0
    opened_at: float | None = None
    allowed_at: float = 0.0
    openings: int = 0
    dropped: int = 0
    events: int = 0
    """Watch events of the composite and its children, however much they cost."""
    updates: int = 0
    """Those among them that are updates of a child."""
    charged: int = 0
    """Tokens that all of them took."""
    worth: int = 0
    """Tokens that all of them would have taken from a bucket that is never empty."""
    least: float = 100.0
    """The fewest tokens that were ever left."""
    sources: Counter[str] = field(default_factory=Counter)

    @property
    def is_open(self) -> bool:
        """Whether events are dropped."""
        return self.opened_at is not None

    @property
    def triggered_by(self) -> str:
        """The child that most tokens were spent on."""
        return self.sources.most_common(1)[0][0] if self.sources else ""

    def open(self, now: float) -> None:
        """Drop events from now on."""
        self.opened_at = self.allowed_at = now
        self.openings += 1

    @property
    def per_update(self) -> float:
        """The tokens that were spent for each update of a child, whatever they were spent on."""
        return self.charged / self.updates if self.updates else 0.0

    def lets_through(self, event: Event, now: float, *, of_child: bool = True) -> bool:
        """Charge an event; say whether it reaches the composite."""
        self.events += 1
        self.updates += of_child and event.change is Change.MODIFIED
        seen = [event.old.object] if event.old is not None and event.change is Change.MODIFIED else []
        through = [self._one(item, now) for item in (*seen, event.new.object)]
        return any(through)

    def _one(self, item: Object, now: float) -> bool:
        if is_deleted(item):
            return True
        self.worth += 1
        was_open = self.is_open
        probing = now > self.allowed_at + self.limits.probe_every
        self._record(key_of(item), now)
        if not was_open:
            return True
        if probing:
            self.allowed_at = now
            return True
        self.dropped += 1
        return False

    def _record(self, source: Key, now: float) -> None:
        refilled = self.tokens + (now - self.filled_at) * self.limits.per_second
        self.tokens, self.filled_at = min(self.limits.burst, refilled), now
        self.sources[str(source)] += 1
        if self.opened_at is not None:
            if now - self.opened_at < self.limits.cooldown:
                return
            self.opened_at = None
        if self.tokens >= 1:
            self.tokens -= 1
            self.charged += 1
            self.least = min(self.least, self.tokens)
            return
        self.open(now)
