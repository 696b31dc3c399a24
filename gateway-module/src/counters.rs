//! Counters of the module, in Envoy about a second late.
//!
//! Envoy looks labels up for each addition, which takes 4,000 instructions. So requests add to sums of the
//! module's own, and the main thread takes all sums to Envoy. They are those of the process: what a configuration has
//! not taken, the next one takes. Labels are bounded: services and endpoints that have answered, buckets of times, and
//! codes of the table of errors.

use std::collections::BTreeMap;
#[cfg(not(test))]
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, RwLock};
use std::time::Duration;

use crate::abi::{Caller, Counter, Gauge, Setup, Stream, take_panics};
use crate::answer::Counted;
use crate::endpoint::{CLASSES, Endpoint, bound};
use crate::errors::Code;
use crate::watch::take_failures;

const EVERY: Duration = Duration::from_secs(1);

/// Tokens of a service.
#[derive(Default)]
struct Tokens {
    prompt: AtomicU64,
    completion: AtomicU64,
    estimated: AtomicU64,
}

impl Tokens {
    fn add(&self, counted: &Counted) {
        self.prompt.fetch_add(counted.usage.prompt, Ordering::Relaxed);
        self.completion.fetch_add(counted.usage.completion, Ordering::Relaxed);
        self.estimated.fetch_add(counted.estimated.into(), Ordering::Relaxed);
    }
}

/// Sums that are not in Envoy yet. Requests share the lock; the main thread has it alone, so none is lost. A name that
/// had an answer within a second is compared with few others, which takes less than its hash.
#[derive(Default)]
struct Sums {
    services: BTreeMap<String, Tokens>,
    refused: BTreeMap<&'static str, AtomicU64>,
    endpoints: BTreeMap<String, Endpoint>,
}

#[cfg(not(test))]
fn with<R>(use_: impl FnOnce(&RwLock<Sums>) -> R) -> R {
    static SUMS: LazyLock<RwLock<Sums>> = LazyLock::new(RwLock::default);
    use_(&SUMS)
}

/// Each test has sums of its own.
#[cfg(test)]
fn with<R>(use_: impl FnOnce(&RwLock<Sums>) -> R) -> R {
    thread_local! { static SUMS: RwLock<Sums> = RwLock::default(); }
    SUMS.with(use_)
}

/// Ways to the main thread, one for each configuration.
static CALLERS: Mutex<Vec<(u64, Caller)>> = Mutex::new(vec![]);

/// Counters by their meaning.
#[derive(Clone, Copy)]
pub struct Counters {
    tokens: Counter,
    estimated: Counter,
    refused: Counter,
    answers: Counter,
    complete_answers: Counter,
    complete_answers_ms: Counter,
    first_byte: Counter,
    first_byte_ms: Counter,
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
            answers: setup.counter("answers", &["endpoint", "class"])?,
            complete_answers: setup.counter("complete_answers", &["endpoint"])?,
            complete_answers_ms: setup.counter("complete_answers_ms", &["endpoint"])?,
            first_byte: setup.counter("first_byte", &["endpoint", "le"])?,
            first_byte_ms: setup.counter("first_byte_ms", &["endpoint"])?,
            held_requests: setup.gauge("held_requests", &["service"])?,
            holds: setup.counter("holds", &["service", "result"])?,
            overflowed: setup.counter("overflowed", &["service"])?,
            reload_failures: setup.counter("reload_failures", &[])?,
            panics: setup.counter("panics", &[])?,
        })
    }

    /// Count the tokens of an answer.
    pub fn answered(&self, service: &str, counted: &Counted) {
        with(|sums| {
            if let Some(tokens) = sums.read().unwrap_or_else(PoisonError::into_inner).services.get(service) {
                return tokens.add(counted);
            }
            let mut sums = sums.write().unwrap_or_else(PoisonError::into_inner);
            sums.services.entry(service.to_string()).or_default().add(counted);
        });
    }

    /// Count a refusal.
    pub fn refused(&self, code: &Code) {
        with(|sums| {
            if let Some(count) = sums.read().unwrap_or_else(PoisonError::into_inner).refused.get(code.name) {
                count.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let mut sums = sums.write().unwrap_or_else(PoisonError::into_inner);
            sums.refused.entry(code.name).or_default().fetch_add(1, Ordering::Relaxed);
        });
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

    /// Take all sums to Envoy.
    pub fn flush(&self, setup: &mut Setup) {
        let sums = with(|sums| std::mem::take(&mut *sums.write().unwrap_or_else(PoisonError::into_inner)));
        let mut add = |counter: Counter, labels: &[&str], by: u64| {
            if by > 0 {
                setup.increment(counter, labels, by);
            }
        };
        for (service, Tokens { prompt, completion, estimated }) in sums.services {
            add(self.tokens, &[&service, "prompt"], prompt.into_inner());
            add(self.tokens, &[&service, "completion"], completion.into_inner());
            add(self.estimated, &[&service], estimated.into_inner());
        }
        for (code, count) in sums.refused {
            add(self.refused, &[code], count.into_inner());
        }
        for (endpoint, counts) in sums.endpoints {
            for (class, count) in CLASSES.into_iter().zip(counts.answers) {
                add(self.answers, &[&endpoint, class], count);
            }
            add(self.complete_answers, &[&endpoint], counts.complete);
            add(self.complete_answers_ms, &[&endpoint], counts.complete_ms);
            for (bucket, count) in counts.buckets.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                add(self.first_byte, &[&endpoint, &bound(bucket)], count);
            }
            add(self.first_byte_ms, &[&endpoint], counts.first_byte_ms);
        }
        add(self.reload_failures, &[], take_failures());
        add(self.panics, &[], take_panics());
    }
}

/// Add to what is counted of an endpoint.
pub fn of_endpoint(name: &str, add: impl FnOnce(&mut Endpoint)) {
    with(|sums| {
        let mut sums = sums.write().unwrap_or_else(PoisonError::into_inner);
        match sums.endpoints.get_mut(name) {
            Some(endpoint) => add(endpoint),
            None => add(sums.endpoints.entry(name.to_string()).or_default()),
        }
    });
}

/// Calls of a configuration on Envoy's main thread each second, until this is dropped.
pub struct Flushes(u64);

impl Flushes {
    /// Begin.
    pub fn of(setup: &mut Setup) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        start()?;
        let flushes = Flushes(NEXT.fetch_add(1, Ordering::Relaxed));
        callers().push((flushes.0, setup.caller()));
        Ok(flushes)
    }
}

impl Drop for Flushes {
    fn drop(&mut self) {
        callers().retain(|(name, _)| *name != self.0);
    }
}

fn callers() -> MutexGuard<'static, Vec<(u64, Caller)>> {
    CALLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Start the thread that asks the newest configuration to take the sums.
fn start() -> Result<(), String> {
    static ONCE: Once = Once::new();
    let mut started = Ok(());
    ONCE.call_once(|| {
        let thread = std::thread::Builder::new().name("modelplane-sums".into());
        let spawned = thread.spawn(|| {
            loop {
                std::thread::sleep(EVERY);
                if let Some((_, caller)) = callers().last() {
                    caller.call();
                }
            }
        });
        started = spawned.map(|_| ()).map_err(|error| format!("cannot start a thread: {error}"));
    });
    started
}
