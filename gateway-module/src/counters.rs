//! Counters of the filter `front`. Labels are bounded: services that have answered, and codes of the table of errors.

use crate::abi::{Counter, Setup, Stream, take_panics};
use crate::answer::Counted;
use crate::errors::Code;
use crate::watch::take_failures;

/// Counters by their meaning.
#[derive(Clone, Copy)]
pub struct Counters {
    tokens: Counter,
    estimated: Counter,
    refused: Counter,
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
