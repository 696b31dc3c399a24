//! Requests that wait for the first endpoint of their service.
//!
//! A request whose route has no backend takes a second route, which leads to the service's cluster for held
//! requests. Envoy has that cluster from the moment at which the service has a backend, and the request goes on
//! when it is there. One thread wakes requests four times a second to look.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::abi::{Scheduler, Source, Stream, log_error};
use crate::counters::Counters;
use crate::errors::{HOLD_TIMEOUT, Refusal, TOO_MANY_HELD};
use crate::filter::OnWake;
use crate::names::{HELD, HOLD, REWRITE};
use crate::services::Services;
use crate::watch::Watched;

const EVERY: Duration = Duration::from_millis(250);

/// Most requests of a service that are all woken each time. Of more, one is, until it goes on: a look takes as long
/// as Envoy needs to choose a route among all.
const FEW: usize = 8;

/// Time for which all requests of a service are woken once one has gone on.
const RELEASE: Duration = Duration::from_secs(5);

/// Maximum of the bytes of bodies that one service holds.
const MAX_BYTES: u64 = 256 << 20;

/// Limits of the held requests of a service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hold {
    timeout_seconds: u64,
    max_requests: u64,
}

/// Requests and bytes that a service holds, over all workers.
#[derive(Default)]
struct Load {
    requests: u64,
    bytes: u64,
    /// Time at which a request went on.
    released: Option<Instant>,
}

/// Waker of one request.
struct Waker {
    service: String,
    deadline: Instant,
    /// None once the stream has ended.
    scheduler: Mutex<Option<Scheduler>>,
}

impl Waker {
    fn wake(&self) {
        // Locked while it is used, so that its stream does not end meanwhile.
        if let Some(scheduler) = lock(&self.scheduler).as_ref() {
            scheduler.wake();
        }
    }
}

static LOADS: OnceLock<Mutex<HashMap<String, Load>>> = OnceLock::new();
static WAKERS: Mutex<Vec<Weak<Waker>>> = Mutex::new(vec![]);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn loads() -> MutexGuard<'static, HashMap<String, Load>> {
    lock(LOADS.get_or_init(Mutex::default))
}

/// Return the limits of a service whose requests are to wait: it has some, and the route holds requests.
pub fn limits(services: &Option<Arc<Watched<Services>>>, service: &str, stream: &Stream) -> Option<Hold> {
    let own = |all: &Services| all.get(service).and_then(|own| own.hold.clone());
    let hold = services.as_ref()?.with(own)?;
    // Also lets Envoy choose the route, if its choice has been cleared: metadata alone does not.
    if stream.has_hosts() {
        return None;
    }
    (!stream.metadata(Source::Route, REWRITE, HOLD).is_empty()).then_some(hold)
}

/// Wait of a stream, if it waits or has waited.
#[derive(Default)]
pub struct Holding {
    wait: Option<Wait>,
    milliseconds: Option<u64>,
}

impl Holding {
    /// Begin to wait, with the bytes of the body that have arrived.
    pub fn begin(
        &mut self,
        stream: &mut Stream,
        counters: &Counters,
        service: &str,
        hold: &Hold,
        bytes: u64,
    ) -> Result<(), Refusal> {
        let mut wait = Wait::begin(stream, service, hold)?;
        wait.grow(bytes)?;
        self.wait = Some(wait);
        counters.held(stream, service);
        Ok(())
    }

    /// Return whether the request waits.
    pub fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Add bytes of the body.
    pub fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.wait.as_mut().map_or(Ok(()), |wait| wait.grow(bytes))
    }

    /// Look whether the service has an endpoint by now, and whether the time is up.
    pub fn look(&mut self, stream: &mut Stream, counters: &Counters) -> OnWake {
        let Some(wait) = &self.wait else { return OnWake::Stay };
        // Envoy keeps the cluster that it found with the route.
        stream.clear_route_cache();
        if stream.has_hosts() {
            if let Some(load) = loads().get_mut(&wait.waker.service) {
                load.released = Some(Instant::now());
            }
            self.end(stream, counters, "released");
            return OnWake::Continue;
        }
        if Instant::now() < wait.waker.deadline {
            return OnWake::Stay;
        }
        let refusal = wait.timed_out();
        self.end(stream, counters, "timed_out");
        OnWake::Refuse(refusal)
    }

    /// End with the stream.
    pub fn leave(&mut self, stream: &mut Stream, counters: &Counters) {
        self.end(stream, counters, "left");
    }

    fn end(&mut self, stream: &mut Stream, counters: &Counters, result: &str) {
        if let Some(wait) = self.wait.take() {
            self.milliseconds = Some(wait.since.elapsed().as_millis() as u64);
            counters.hold_ended(stream, &wait.waker.service, result);
        }
    }

    /// Return how long the request has waited; None if it has not.
    pub fn milliseconds(&self) -> Option<u64> {
        self.milliseconds
    }
}

/// One place among the held requests of a service.
struct Wait {
    since: Instant,
    timeout: Duration,
    bytes: u64,
    waker: Arc<Waker>,
}

impl Wait {
    /// Take a place, and choose the route that leads to the cluster for held requests.
    fn begin(stream: &mut Stream, service: &str, hold: &Hold) -> Result<Self, Refusal> {
        let (since, timeout) = (Instant::now(), Duration::from_secs(hold.timeout_seconds));
        let (service, deadline) = (service.to_string(), since + timeout);
        let waker = Arc::new(Waker { service, deadline, scheduler: Mutex::default() });
        let wait = Wait { since, timeout, bytes: 0, waker };
        wait.take(hold.max_requests)?;
        stream.set_state(HELD, b"1");
        *lock(&wait.waker.scheduler) = Some(stream.scheduler());
        lock(&WAKERS).push(Arc::downgrade(&wait.waker));
        if start() { Ok(wait) } else { Err(wait.timed_out()) }
    }

    fn take(&self, max_requests: u64) -> Result<(), Refusal> {
        let mut loads = loads();
        let load = loads.entry(self.waker.service.clone()).or_default();
        // Dropped with its place, so that it has one even if it is refused.
        load.requests += 1;
        if load.requests <= max_requests {
            return Ok(());
        }
        Err(too_many(&format!("{max_requests} requests wait for it")))
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        let mut loads = loads();
        let load = loads.entry(self.waker.service.clone()).or_default();
        load.bytes += bytes;
        self.bytes += bytes;
        if load.bytes <= MAX_BYTES {
            return Ok(());
        }
        Err(too_many(&format!("the bodies of requests that wait for it take {} MiB", MAX_BYTES >> 20)))
    }

    fn timed_out(&self) -> Refusal {
        let (service, seconds) = (&self.waker.service, self.timeout.as_secs());
        let message = format!("no replica of {service} became ready within {seconds} s: try again later");
        Refusal::later(&HOLD_TIMEOUT, message)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // From here on the thread does not wake it: the stream, and its worker, may end.
        *lock(&self.waker.scheduler) = None;
        let mut loads = loads();
        if let Some(load) = loads.get_mut(&self.waker.service) {
            load.requests = load.requests.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(self.bytes);
            if load.requests == 0 {
                loads.remove(&self.waker.service);
            }
        }
    }
}

fn too_many(why: &str) -> Refusal {
    Refusal::later(&TOO_MANY_HELD, format!("the service has no ready replica, and {why}: try again later"))
}

/// Start the thread, once; false if it cannot be started.
fn start() -> bool {
    static STARTED: OnceLock<bool> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let thread = std::thread::Builder::new().name("modelplane-hold".into());
        let spawned = thread.spawn(|| {
            for round in 0.. {
                std::thread::sleep(EVERY);
                // The next round wakes those that a panic left out.
                let _ = catch_unwind(|| wake_all(round));
            }
        });
        spawned.map_err(|error| log_error(&format!("cannot start a thread: {error}"))).is_ok()
    })
}

fn wake_all(round: usize) {
    let wakers: Vec<Arc<Waker>> = {
        let mut all = lock(&WAKERS);
        all.retain(|waker| waker.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    let mut by_service: HashMap<&str, Vec<&Waker>> = HashMap::new();
    for waker in &wakers {
        by_service.entry(&waker.service).or_default().push(waker);
    }
    for (service, waiting) in by_service {
        let released = loads().get(service).and_then(|load| load.released);
        let all = waiting.len() <= FEW || released.is_some_and(|at| at.elapsed() < RELEASE);
        let turn = round % waiting.len();
        for (number, waker) in waiting.into_iter().enumerate() {
            if all || number == turn || Instant::now() >= waker.deadline {
                waker.wake();
            }
        }
    }
}
