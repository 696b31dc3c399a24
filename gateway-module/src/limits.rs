//! Limits of a key and of its namespace, exact across the workers of one Envoy.
//!
//! Requests and tokens are buckets of a minute's limit that refill evenly; streams are counted. One lock per
//! namespace and one per key, always in this order, make "both or none" exact. Several gateways have equal parts of
//! each limit.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const MINUTE_S: f64 = 60.0;

/// Limits of a key or of a namespace's grant; an absent one does not limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a minute.
    pub requests_per_minute: Option<u64>,
    /// Prompt and completion tokens in a minute.
    pub tokens_per_minute: Option<u64>,
    /// Requests under way.
    pub streams: Option<u64>,
}

/// Limited quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requests in a minute.
    Requests,
    /// Tokens in a minute.
    Tokens,
    /// Requests under way.
    Streams,
}

impl Kind {
    /// Return the `type` of the error, which headers also use.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Requests => "requests",
            Kind::Tokens => "tokens",
            Kind::Streams => "streams",
        }
    }

    /// Return the quantity in words.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Requests => "requests per minute",
            Kind::Tokens => "tokens per minute",
            Kind::Streams => "concurrent streams",
        }
    }
}

/// Limit that refuses a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// "API key" or "namespace".
    pub owner: &'static str,
    /// The quantity.
    pub kind: Kind,
    /// The limit.
    pub limit: u64,
    /// Whole units that are left.
    pub remaining: u64,
    /// Seconds until another request may pass.
    pub reset_s: u64,
}

/// Bucket that is full at first and refills evenly; it may be below zero.
#[derive(Debug, Default)]
struct Bucket {
    used: f64,
    at: Option<Instant>,
}

impl Bucket {
    /// Refill up to now, at a number of units per minute, and return what is left of them.
    fn left(&mut self, per_minute: f64, now: Instant) -> f64 {
        if let Some(at) = self.at {
            let refilled = per_minute / MINUTE_S * now.saturating_duration_since(at).as_secs_f64();
            self.used = (self.used - refilled).max(0.0);
        }
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        per_minute - self.used
    }

    /// Return the seconds until `missing` units have refilled.
    fn seconds(missing: f64, per_minute: f64) -> u64 {
        if per_minute == 0.0 {
            MINUTE_S as u64
        } else {
            ((missing * MINUTE_S / per_minute).ceil() as u64).max(1)
        }
    }
}

/// Number of gateways that have equal parts of each limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateways(pub NonZeroU32);

impl Gateways {
    /// The only gateway, which has all of each limit.
    pub const ONE: Gateways = Gateways(NonZeroU32::MIN);

    fn part(self, limit: u64) -> f64 {
        limit as f64 / f64::from(self.0.get())
    }
}

#[derive(Debug, Default)]
struct Used {
    requests: Bucket,
    tokens: Bucket,
    streams: u64,
}

impl Used {
    fn check(
        &mut self,
        owner: &'static str,
        limits: &Limits,
        gateways: Gateways,
        now: Instant,
    ) -> Result<(), Exceeded> {
        let refuse = |kind, limit, left: f64, reset_s| {
            Err(Exceeded { owner, kind, limit, remaining: left.max(0.0) as u64, reset_s })
        };
        if let Some(limit) = limits.streams {
            // A part of less than one would refuse every request.
            let part = (gateways.part(limit) as u64).max(limit.min(1));
            if self.streams >= part {
                return refuse(Kind::Streams, limit, 0.0, 1);
            }
        }
        if let Some(limit) = limits.tokens_per_minute {
            let part = gateways.part(limit);
            let left = self.tokens.left(part, now);
            if left <= 0.0 {
                return refuse(Kind::Tokens, limit, left, Bucket::seconds(1.0 - left, part));
            }
        }
        if let Some(limit) = limits.requests_per_minute {
            let part = gateways.part(limit);
            // Whatever the part is, a full bucket holds one request.
            let least = part.min(1.0);
            let left = self.requests.left(part, now);
            if limit == 0 || left < least {
                return refuse(Kind::Requests, limit, left, Bucket::seconds(least - left, part));
            }
        }
        Ok(())
    }

    fn take(&mut self, limits: &Limits) {
        self.streams += 1;
        if limits.requests_per_minute.is_some() {
            self.requests.used += 1.0;
        }
    }
}

/// What an id has used.
#[derive(Debug, Default)]
pub struct State(Mutex<Used>);

impl State {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn charge(&self, limits: &Limits, gateways: Gateways, tokens: u64, now: Instant) {
        if let Some(limit) = limits.tokens_per_minute {
            let mut used = self.lock();
            used.tokens.left(gateways.part(limit), now);
            used.tokens.used += tokens as f64;
        }
    }
}

/// State and limits of a key or of a namespace.
#[derive(Debug, Clone)]
pub struct Account {
    /// What it has used.
    pub state: Arc<State>,
    /// What it may use.
    pub limits: Limits,
    /// True if the rate limit service counts its requests and tokens, where there is one.
    pub is_global: bool,
}

impl Account {
    /// Return what is left to count here, beside the rate limit service.
    pub fn beside_service(self) -> Self {
        if !self.is_global {
            return self;
        }
        Account { limits: Limits { streams: self.limits.streams, ..Limits::default() }, ..self }
    }
}

/// Request that both limits admitted; its end gives the stream back.
#[derive(Debug)]
pub struct Admission {
    key: Account,
    namespace: Account,
    gateways: Gateways,
}

impl Admission {
    /// Take one request and one stream from both accounts, or nothing from either.
    pub fn take(
        key: Account,
        namespace: Account,
        gateways: Gateways,
        now: Instant,
    ) -> Result<Self, Exceeded> {
        {
            let mut of_namespace = namespace.state.lock();
            let mut of_key = key.state.lock();
            of_key.check("API key", &key.limits, gateways, now)?;
            of_namespace.check("namespace", &namespace.limits, gateways, now)?;
            of_key.take(&key.limits);
            of_namespace.take(&namespace.limits);
        }
        Ok(Admission { key, namespace, gateways })
    }

    /// Take tokens that the answer has used.
    pub fn charge(&self, tokens: u64, now: Instant) {
        for account in [&self.namespace, &self.key] {
            account.state.charge(&account.limits, self.gateways, tokens, now);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        for account in [&self.namespace, &self.key] {
            account.state.lock().streams -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn account(limits: Limits) -> Account {
        Account { state: Arc::default(), limits, is_global: false }
    }

    fn limits(requests: Option<u64>, tokens: Option<u64>, streams: Option<u64>) -> Limits {
        Limits { requests_per_minute: requests, tokens_per_minute: tokens, streams }
    }

    fn take(key: &Account, namespace: &Account, now: Instant) -> Result<Admission, Exceeded> {
        Admission::take(key.clone(), namespace.clone(), Gateways::ONE, now)
    }

    #[test]
    fn a_bucket_holds_a_minute_and_refills_evenly() {
        let (key, namespace) = (account(limits(Some(6), None, None)), account(Limits::default()));
        let start = Instant::now();
        for _ in 0..6 {
            take(&key, &namespace, start).unwrap();
        }
        let exceeded = take(&key, &namespace, start).unwrap_err();
        assert_eq!((exceeded.kind, exceeded.remaining, exceeded.reset_s), (Kind::Requests, 0, 10));
        let later = start + Duration::from_secs(10);
        take(&key, &namespace, later).unwrap();
        assert!(take(&key, &namespace, later).is_err());
    }

    #[test]
    fn tokens_may_go_below_zero_and_the_next_request_waits() {
        let (key, namespace) = (account(limits(None, Some(60), None)), account(Limits::default()));
        let start = Instant::now();
        take(&key, &namespace, start).unwrap().charge(90, start);
        let exceeded = take(&key, &namespace, start).unwrap_err();
        assert_eq!((exceeded.kind, exceeded.remaining, exceeded.reset_s), (Kind::Tokens, 0, 31));
        assert!(take(&key, &namespace, start + Duration::from_secs(31)).is_ok());
    }

    #[test]
    fn the_sum_over_the_keys_of_a_namespace_is_bounded() {
        let namespace = account(limits(Some(3), None, None));
        let keys = [account(limits(Some(2), None, None)), account(limits(Some(2), None, None))];
        let start = Instant::now();
        let passed: Vec<bool> =
            (0..6).map(|number| take(&keys[number % 2], &namespace, start).is_ok()).collect();
        assert_eq!(passed, [true, true, true, false, false, false]);
        // The refusal by the namespace took nothing from the key.
        assert_eq!(keys[1].state.lock().requests.used, 1.0);
    }

    #[test]
    fn limits_are_exact_across_threads() {
        let (key, namespace) = (account(limits(Some(100), None, Some(1000))), account(Limits::default()));
        let start = Instant::now();
        let passed: usize = std::thread::scope(|scope| {
            let ask = || (0..50).filter(|_| take(&key, &namespace, start).is_ok()).count();
            let running: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 100);
        assert_eq!(key.state.lock().streams, 0);
    }

    #[test]
    fn a_stream_is_given_back_at_its_end() {
        let (key, namespace) = (account(limits(None, None, Some(1))), account(Limits::default()));
        let now = Instant::now();
        let running = take(&key, &namespace, now).unwrap();
        assert_eq!(take(&key, &namespace, now).unwrap_err().kind, Kind::Streams);
        drop(running);
        assert!(take(&key, &namespace, now).is_ok());
    }

    #[test]
    fn a_limit_of_zero_allows_none() {
        for limits in [limits(Some(0), None, None), limits(None, Some(0), None), limits(None, None, Some(0))]
        {
            assert!(take(&account(limits), &account(Limits::default()), Instant::now()).is_err());
        }
    }

    #[test]
    fn several_gateways_have_equal_parts_of_each_limit() {
        let three = Gateways(NonZeroU32::new(3).unwrap());
        let start = Instant::now();
        let passed = |limits: Limits, tokens: u64, requests: usize, at: &[u64]| {
            let (key, namespace) = (account(limits), account(Limits::default()));
            let taken: Vec<_> = at
                .iter()
                .flat_map(|second| (0..requests).map(move |_| start + Duration::from_secs(*second)))
                .filter_map(|now| {
                    let taken = Admission::take(key.clone(), namespace.clone(), three, now).ok()?;
                    taken.charge(tokens, now);
                    Some(taken)
                })
                .collect();
            taken.len()
        };
        assert_eq!(passed(limits(Some(9), None, None), 0, 20, &[0]), 3);
        assert_eq!(passed(limits(Some(9), None, None), 0, 20, &[0, 60]), 6);
        assert_eq!(passed(limits(None, Some(30), None), 5, 20, &[0, 60]), 4);
        assert_eq!(passed(limits(None, None, Some(8)), 0, 20, &[0]), 2);
        // A part of less than one request or stream still passes one, at the rate of the part.
        assert_eq!(passed(limits(Some(1), None, None), 0, 5, &[0, 60, 120, 180, 181]), 2);
        assert_eq!(passed(limits(None, None, Some(2)), 0, 5, &[0]), 1);
        assert_eq!(passed(limits(Some(0), None, None), 0, 5, &[0, 600]), 0);
        assert_eq!(passed(limits(None, None, Some(0)), 0, 5, &[0]), 0);
    }

    #[test]
    fn a_new_limit_counts_what_was_used_under_the_old_one() {
        let shared = account(Limits::default());
        let with = |requests| Account { limits: limits(Some(requests), None, None), ..shared.clone() };
        let (open, now) = (account(Limits::default()), Instant::now());
        for _ in 0..4 {
            take(&with(4), &open, now).unwrap();
        }
        assert!(take(&with(5), &open, now).is_ok());
        assert!(take(&with(5), &open, now).is_err());
    }
}
