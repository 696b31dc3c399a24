//! Attempts in progress at each backend, counted once for all workers of the process.
//!
//! Only backends that the file of services orders are counted. The filter of requests begins the first attempt, so
//! that no other worker takes the same place, and the filter of attempts takes it over.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::abi::{Source, Stream};
use crate::names::{ATTEMPT, BACKEND};
use crate::observed::Observed;

/// Number of attempts in progress at one backend, and what is observed of it.
#[derive(Debug, Default)]
pub struct Outstanding {
    count: AtomicU64,
    /// Load that its answers tell.
    pub observed: Observed,
}

impl Outstanding {
    /// Return the number at this moment.
    pub fn now(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Count an attempt until the result is dropped.
    pub fn begin(self: Arc<Self>) -> Attempt {
        self.count.fetch_add(1, Ordering::Relaxed);
        Attempt(self)
    }

    /// Count an attempt if there are fewer than a maximum.
    pub fn begin_below(self: Arc<Self>, most: u64) -> Option<Attempt> {
        let more = |count: u64| (count < most).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Attempt(self))
    }
}

/// Attempt in progress: it ends when it is dropped, as with its filter.
#[derive(Debug)]
pub struct Attempt(Arc<Outstanding>);

impl Attempt {
    /// Return what is observed of the backend.
    pub fn observed(&self) -> &Observed {
        &self.0.observed
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

type Backends = RwLock<HashMap<String, Arc<Outstanding>>>;

/// True once any backend is counted: most gateways count none.
static ANY: AtomicBool = AtomicBool::new(false);

fn backends() -> &'static Backends {
    static BACKENDS: OnceLock<Backends> = OnceLock::new();
    BACKENDS.get_or_init(Backends::default)
}

/// Return the number of a backend, which is counted from now on.
pub fn of(name: &str) -> Arc<Outstanding> {
    ANY.store(true, Ordering::Relaxed);
    let mut known = backends().write().unwrap_or_else(PoisonError::into_inner);
    known.entry(name.to_string()).or_default().clone()
}

/// Forget the backends that no file orders and at which no attempt is in progress.
pub fn prune() {
    let mut known = backends().write().unwrap_or_else(PoisonError::into_inner);
    known.retain(|_, outstanding| Arc::strong_count(outstanding) > 1);
}

/// What a service's policy needs to know of each attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Reports of engines.
    pub reports: bool,
    /// Times to the first byte.
    pub times: bool,
}

/// First attempts of the requests that have an order; None once its filter has it.
type Reserved = Mutex<HashMap<u64, Option<Attempt>>>;

fn reserved() -> &'static Reserved {
    static RESERVED: OnceLock<Reserved> = OnceLock::new();
    RESERVED.get_or_init(Reserved::default)
}

/// First attempt of a request, which its own filter takes over. If none does, it ends with this.
#[derive(Debug)]
pub struct Reservation(u64);

impl Drop for Reservation {
    fn drop(&mut self) {
        let attempt = reserved().lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        drop(attempt);
    }
}

/// Keep an attempt for its own filter.
pub fn reserve(stream: &mut Stream, attempt: Attempt, needs: Needs) -> Reservation {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let token = NEXT.fetch_add(1, Ordering::Relaxed);
    reserved().lock().unwrap_or_else(PoisonError::into_inner).insert(token, Some(attempt));
    let request = Request { token, needs };
    stream.set_state(ATTEMPT, &request.encoded());
    Reservation(token)
}

/// Request with an order, as its attempts know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    token: u64,
    /// What its service's policy needs.
    pub needs: Needs,
}

impl Request {
    fn encoded(self) -> [u8; 9] {
        let mut encoded = [0; 9];
        encoded[..8].copy_from_slice(&self.token.to_le_bytes());
        encoded[8] = u8::from(self.needs.reports) | u8::from(self.needs.times) << 1;
        encoded
    }

    fn of(stream: &Stream) -> Option<Self> {
        let (token, rest) = stream.state(ATTEMPT)?.split_first_chunk()?;
        let bits = rest.first()?;
        let needs = Needs { reports: bits & 1 != 0, times: bits & 2 != 0 };
        Some(Request { token: u64::from_le_bytes(*token), needs })
    }

    fn take(self) -> Option<Attempt> {
        reserved().lock().unwrap_or_else(PoisonError::into_inner).get_mut(&self.token)?.take()
    }

    /// Return whether the client still waits.
    pub fn is_open(self) -> bool {
        reserved().lock().unwrap_or_else(PoisonError::into_inner).contains_key(&self.token)
    }
}

/// Count an attempt at the stream's cluster, and return it with its request if that has an order; None if its backend
/// is not counted.
pub fn begin(stream: &Stream) -> Option<(Attempt, Option<Request>)> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let request = Request::of(stream);
    let first = request.and_then(Request::take);
    let name = std::str::from_utf8(stream.metadata(Source::Cluster, BACKEND, "name")).ok()?;
    let known = backends().read().unwrap_or_else(PoisonError::into_inner);
    let outstanding = known.get(name).cloned();
    drop(known);
    let attempt = match (outstanding, first) {
        (Some(outstanding), Some(first)) if Arc::ptr_eq(&outstanding, &first.0) => first,
        (outstanding, _) => outstanding?.begin(),
    };
    Some((attempt, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_counts_until_it_is_dropped() {
        let outstanding = of("outstanding/a");
        let attempts = [outstanding.clone().begin(), of("outstanding/a").begin()];
        assert_eq!(outstanding.now(), 2);
        drop(attempts);
        assert_eq!(outstanding.now(), 0);
    }

    #[test]
    fn no_more_begin_below_a_maximum_than_it_allows() {
        let outstanding = of("outstanding/most");
        let attempts: Vec<_> = std::thread::scope(|scope| {
            let begin = || (0..100).filter_map(|_| outstanding.clone().begin_below(50)).collect::<Vec<_>>();
            let threads = [scope.spawn(begin), scope.spawn(begin)];
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!((attempts.len(), outstanding.now()), (50, 50));
    }

    #[test]
    fn a_backend_with_an_attempt_is_kept() {
        let attempt = of("outstanding/kept").begin();
        prune();
        assert_eq!(of("outstanding/kept").now(), 1);
        drop(attempt);
        prune();
        assert!(!backends().read().unwrap().contains_key("outstanding/kept"));
    }
}
