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

/// Maximum of the bytes of bodies that the services of one namespace hold.
const MAX_BYTES: u64 = 256 << 20;

/// Maximum of the bytes of bodies that are held in all.
const MAX_BYTES_OF_ALL: u64 = 1 << 30;

/// Maximum of the requests that the services of one namespace hold.
const MAX_REQUESTS: u64 = 2000;

/// Limits of the held requests of a service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hold {
    timeout_seconds: u64,
    max_requests: u64,
}

/// Requests that a service holds, over all workers.
#[derive(Default)]
struct Load {
    requests: u64,
    /// Time at which a request went on.
    released: Option<Instant>,
}

/// Requests and bytes that the services of a namespace hold, over all workers.
#[derive(Default)]
struct Share {
    requests: u64,
    bytes: u64,
}

/// All that is held.
#[derive(Default)]
struct Loads {
    services: HashMap<String, Load>,
    namespaces: HashMap<String, Share>,
    bytes: u64,
}

impl Loads {
    /// Add a request, also one that is refused.
    fn enter(&mut self, service: &str, max_requests: u64) -> Result<(), Refusal> {
        let share = self.namespaces.entry(namespace(service).to_string()).or_default();
        share.requests += 1;
        let load = self.services.entry(service.to_string()).or_default();
        load.requests += 1;
        if load.requests > max_requests {
            return Err(too_many(&format!("{max_requests} requests wait for it")));
        }
        if share.requests > MAX_REQUESTS {
            return Err(too_many(&format!("{MAX_REQUESTS} requests wait for services of its namespace")));
        }
        Ok(())
    }

    /// Add bytes of a request, also those that are refused.
    fn grow(&mut self, service: &str, bytes: u64) -> Result<(), Refusal> {
        let share = self.namespaces.entry(namespace(service).to_string()).or_default();
        share.bytes += bytes;
        self.bytes += bytes;
        let refuse = |whose, most: u64| {
            let size = most >> 20;
            Err(too_many(&format!("the bodies of requests that wait for {whose} take {size} MiB")))
        };
        if share.bytes > MAX_BYTES {
            return refuse("services of its namespace", MAX_BYTES);
        }
        if self.bytes > MAX_BYTES_OF_ALL { refuse("any service", MAX_BYTES_OF_ALL) } else { Ok(()) }
    }

    /// Remove a request with its bytes.
    fn leave(&mut self, service: &str, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(share) = self.namespaces.get_mut(namespace(service)) {
            share.requests = share.requests.saturating_sub(1);
            share.bytes = share.bytes.saturating_sub(bytes);
            if share.requests == 0 {
                self.namespaces.remove(namespace(service));
            }
        }
        if let Some(load) = self.services.get_mut(service) {
            load.requests = load.requests.saturating_sub(1);
            if load.requests == 0 {
                self.services.remove(service);
            }
        }
    }
}

fn namespace(service: &str) -> &str {
    service.split('/').next().unwrap_or_default()
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

static LOADS: OnceLock<Mutex<Loads>> = OnceLock::new();
static WAKERS: Mutex<Vec<Weak<Waker>>> = Mutex::new(vec![]);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn loads() -> MutexGuard<'static, Loads> {
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
            if let Some(load) = loads().services.get_mut(&wait.waker.service) {
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
        // Dropped with its place, so that it has one even if it is refused.
        loads().enter(&wait.waker.service, hold.max_requests)?;
        stream.set_state(HELD, b"1");
        *lock(&wait.waker.scheduler) = Some(stream.scheduler());
        lock(&WAKERS).push(Arc::downgrade(&wait.waker));
        if start() { Ok(wait) } else { Err(wait.timed_out()) }
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Refusal> {
        if bytes == 0 {
            return Ok(());
        }
        self.bytes += bytes;
        loads().grow(&self.waker.service, bytes)
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
        loads().leave(&self.waker.service, self.bytes);
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
        let released = loads().services.get(service).and_then(|load| load.released);
        let all = waiting.len() <= FEW || released.is_some_and(|at| at.elapsed() < RELEASE);
        let turn = round % waiting.len();
        for (number, waker) in waiting.into_iter().enumerate() {
            if all || number == turn || Instant::now() >= waker.deadline {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespace_holds_more_than_its_share() {
        let mut loads = Loads::default();
        let services = ["ml/a", "ml/b"];
        let taken =
            (0..=MAX_REQUESTS).filter(|number| loads.enter(services[(number % 2) as usize], 5000).is_ok());
        assert_eq!(taken.count() as u64, MAX_REQUESTS);
        assert!(loads.enter("web/a", 1).is_ok() && loads.enter("web/a", 1).is_err());
        assert!(loads.grow("ml/a", MAX_BYTES).is_ok() && loads.grow("ml/b", 1).is_err());
        assert!(loads.grow("web/a", 1).is_ok());
    }

    #[test]
    fn all_namespaces_together_hold_so_much() {
        let mut loads = Loads::default();
        let namespaces = MAX_BYTES_OF_ALL / MAX_BYTES;
        assert!((0..namespaces).all(|number| loads.grow(&format!("{number}/a"), MAX_BYTES).is_ok()));
        assert!(loads.grow("one/more", 1).is_err());
    }

    #[test]
    fn what_has_left_leaves_nothing() {
        let mut loads = Loads::default();
        for service in ["ml/a", "ml/a", "ml/b"] {
            assert!(loads.enter(service, 9).is_ok() && loads.grow(service, 7).is_ok());
        }
        for service in ["ml/b", "ml/a", "ml/a"] {
            loads.leave(service, 7);
        }
        assert!(loads.services.is_empty() && loads.namespaces.is_empty() && loads.bytes == 0);
    }
}
