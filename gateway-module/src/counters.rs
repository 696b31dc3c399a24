//! Counters of the filter `front`. Labels are bounded: services that have answered, and codes of the table of errors.

use crate::abi::{Counter, Gauge, Setup, Stream, take_panics};
use crate::answer::Counted;
use crate::errors::Code;
use crate::watch::take_failures;

/// Counters by their meaning.
#[derive(Clone, Copy)]
pub struct Counters {
    tokens: Counter,
    estimated: Counter,
    refused: Counter,
    held_requests: Gauge,
    holds: Counter,
    overflowed: Counter,
    reload_failures: Counter,
    panics: Counter,
}

impl Counters {
    /// Define them.
    pub fn new(setup: &mut Setup) -> Result<Self, String> {
        Ok(Counters {
            tokens: setup.counter("tokens", &["service", "kind"])?,
            estimated: setup.counter("estimated", &["service"])?,
            refused: setup.counter("refused", &["code"])?,
            held_requests: setup.gauge("held_requests", &["service"])?,
            holds: setup.counter("holds", &["service", "result"])?,
            overflowed: setup.counter("overflowed", &["service"])?,
            reload_failures: setup.counter("reload_failures", &[])?,
            panics: setup.counter("panics", &[])?,
        })
    }

    /// Count the tokens of an answer.
    pub fn answered(&self, stream: &mut Stream, service: &str, counted: &Counted) {
        for (kind, tokens) in [("prompt", counted.usage.prompt), ("completion", counted.usage.completion)] {
            if tokens > 0 {
                stream.increment(self.tokens, &[service, kind], tokens);
            }
        }
        if counted.estimated {
            stream.increment(self.estimated, &[service], 1);
        }
    }

    /// Count a refusal.
    pub fn refused(&self, stream: &mut Stream, code: &Code) {
        stream.increment(self.refused, &[code.name], 1);
    }

    /// Count a request that begins to wait.
    pub fn held(&self, stream: &mut Stream, service: &str) {
        stream.add(self.held_requests, &[service], 1);
    }

    /// Count a request that waits no more.
    pub fn hold_ended(&self, stream: &mut Stream, service: &str, result: &str) {
        stream.subtract(self.held_requests, &[service], 1);
        stream.increment(self.holds, &[service, result], 1);
    }

    /// Count a request that goes to another tier because the first one has no room.
    pub fn overflowed(&self, stream: &mut Stream, service: &str) {
        stream.increment(self.overflowed, &[service], 1);
    }

    /// Count what happened outside of requests.
    pub fn catch_up(&self, stream: &mut Stream) {
        for (counter, count) in [(self.reload_failures, take_failures()), (self.panics, take_panics())] {
            if count > 0 {
                stream.increment(counter, &[], count);
            }
        }
    }
}
