//! Order in which a request asks the backends of its service, by load and affinity.
//!
//! Tiers follow each other by priority. Backends without room for another request come after all others, except for
//! those of the last tier, which stay in it. Within a tier, the policy orders the backends.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use crate::abi::{Headers, Stream};
use crate::mean::now;
use crate::names::ORDER;
use crate::outstanding::{self, Attempt, Needs, Outstanding, Reservation};
use crate::prefix;
use crate::regions::Regions;
use crate::structs;

/// Backends of one tier that a request asks before those of the next, as in the routes.
const MOST_PER_TIER: usize = 3;

/// Maximum of attempts at a backend with affinity, relative to its part of all of them.
const BOUND: f64 = 1.25;

/// Policy by which a tier's backends are ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Policy {
    /// At random, in proportion to the weights.
    #[default]
    Weighted,
    /// By attempts in progress and what engines report, relative to the weights.
    LeastRequests,
    /// By a header, else by the key.
    Session,
    /// By the beginning of the prompt.
    Prefix,
    /// By the time to the first byte, relative to the weights.
    TimeToFirstByte,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BackendOptions {
    name: String,
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    priority: u8,
    max_outstanding_requests: Option<u64>,
    max_queued_requests: Option<f32>,
    region: Option<String>,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    #[serde(default)]
    policy: Policy,
    session_header: Option<String>,
    backends: Vec<BackendOptions>,
}

#[derive(Debug)]
struct Backend {
    name: String,
    hash: u64,
    weight: f64,
    most: Option<u64>,
    most_queued: Option<f32>,
    region: Option<String>,
    outstanding: Arc<Outstanding>,
}

impl Backend {
    /// Return whether it has no room for another request.
    fn is_full(&self, count: u64, now: u64) -> bool {
        self.most.is_some_and(|most| count >= most)
            || self.most_queued.is_some_and(|most| {
                self.outstanding.observed.queued(now).is_some_and(|queued| queued >= most)
            })
    }
}

/// Choice among the backends of one service.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Options")]
pub struct Balancing {
    policy: Policy,
    /// What must be known of each attempt.
    needs: Needs,
    session_header: Option<String>,
    /// By priority.
    backends: Vec<Backend>,
    tiers: Vec<Range<usize>>,
}

impl TryFrom<Options> for Balancing {
    type Error = String;

    fn try_from(mut options: Options) -> Result<Self, String> {
        options.backends.sort_by(|one, other| (one.priority, &one.name).cmp(&(other.priority, &other.name)));
        if options.backends.windows(2).any(|pair| pair[0].name == pair[1].name) {
            return Err("a backend occurs twice".into());
        }
        if options.backends.iter().any(|backend| backend.weight == 0) {
            return Err("a weight is at least 1".into());
        }
        let has_queues = options.backends.iter().any(|backend| backend.max_queued_requests.is_some());
        let needs = Needs {
            reports: options.policy == Policy::LeastRequests || has_queues,
            times: options.policy == Policy::TimeToFirstByte,
        };
        let mut tiers = vec![];
        let mut start = 0;
        for tier in options.backends.chunk_by(|one, other| one.priority == other.priority) {
            tiers.push(start..start + tier.len());
            start += tier.len();
        }
        let backends = options.backends.into_iter().map(|backend| Backend {
            hash: prefix::hash(backend.name.as_bytes()),
            weight: backend.weight.into(),
            most: backend.max_outstanding_requests,
            most_queued: backend.max_queued_requests,
            region: backend.region,
            outstanding: outstanding::of(&backend.name),
            name: backend.name,
        });
        Ok(Balancing {
            policy: options.policy,
            needs,
            session_header: options.session_header,
            backends: backends.collect(),
            tiers,
        })
    }
}

/// Place of a backend in its tier; the least is asked first.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Place {
    is_full: bool,
    is_above_bound: bool,
    score: f64,
    /// Decides between equals.
    tie: f64,
    index: usize,
    /// Attempts in progress.
    count: u64,
}

/// Order of the backends for one request.
struct Order {
    /// In the order in which they are asked.
    places: Vec<Place>,
    /// True if no backend of the first tier has room, so that another one comes first.
    overflows: bool,
}

/// Repetitions of the choice while other workers take the place that it found.
const MOST_CHOICES: usize = 8;

/// What a request goes on with.
pub struct Applied {
    /// True if the request leaves a tier that has no room.
    pub overflows: bool,
    /// Its first attempt.
    pub reservation: Option<Reservation>,
}

impl Balancing {
    /// Return whether the order depends on the beginning of the prompt.
    pub fn needs_prompt(&self) -> bool {
        self.policy == Policy::Prefix
    }

    /// Return the order for a request, which asks only backends in its regions. Those of the same `affinity` ask the
    /// same backend first while it has room.
    fn order(&self, affinity: Option<u64>, regions: Option<&Regions>, now: u64) -> Order {
        let mut places = Vec::with_capacity(MOST_PER_TIER * self.tiers.len());
        let mut after = vec![];
        let mut overflows = false;
        for (number, tier) in self.tiers.iter().enumerate() {
            let mut of_tier = self.places(tier.clone(), affinity, regions, now);
            if number + 1 < self.tiers.len() {
                let room = of_tier.partition_point(|place| !place.is_full);
                overflows |= number == 0 && room == 0 && !of_tier.is_empty();
                after.extend(of_tier.drain(room..));
            }
            places.extend(of_tier);
        }
        places.extend(after);
        Order { places, overflows }
    }

    /// Return the order for a request with its first attempt, which no other worker gets the place of.
    fn begin(&self, affinity: Option<u64>, regions: Option<&Regions>, now: u64) -> (Order, Option<Attempt>) {
        for _ in 0..MOST_CHOICES {
            let order = self.order(affinity, regions, now);
            let Some(first) = order.places.first().filter(|place| !place.is_full) else { break };
            let backend = &self.backends[first.index];
            // A choice by load holds while the backend has no more attempts than it looked at.
            let by_load = if self.policy == Policy::Weighted { u64::MAX } else { first.count + 1 };
            let most = backend.most.unwrap_or(u64::MAX).min(by_load);
            let begun = backend.outstanding.clone().begin_below(most);
            if begun.is_some() {
                return (order, begun);
            }
        }
        let order = self.order(affinity, regions, now);
        let begun = order.places.first().map(|first| self.backends[first.index].outstanding.clone().begin());
        (order, begun)
    }

    /// Return the first places of a tier; those without room are the last.
    fn places(
        &self,
        tier: Range<usize>,
        affinity: Option<u64>,
        regions: Option<&Regions>,
        now: u64,
    ) -> Vec<Place> {
        let offset = tier.start;
        let backends = &self.backends[tier];
        let counts: Vec<u64> = backends.iter().map(|backend| backend.outstanding.now()).collect();
        let total = counts.iter().sum::<u64>() as f64;
        let weights: f64 = backends.iter().map(|backend| backend.weight).sum();
        let times = if self.policy == Policy::TimeToFirstByte { times(backends, now) } else { vec![] };
        let mut places: Vec<Place> = Vec::with_capacity(MOST_PER_TIER + 1);
        for (index, (backend, count)) in backends.iter().zip(counts).enumerate() {
            if regions.is_some_and(|regions| !regions.contain(backend.region.as_deref())) {
                continue;
            }
            let mut place = Place {
                is_full: backend.is_full(count, now),
                is_above_bound: false,
                score: 0.0,
                tie: 0.0,
                index: offset + index,
                count,
            };
            match (self.policy, affinity) {
                (Policy::Weighted, _) => place.score = race(random(), backend.weight),
                (Policy::TimeToFirstByte, _) => {
                    place.score = times[index] * (count as f64 + 1.0) / backend.weight;
                    place.tie = random() as f64;
                }
                (Policy::Session | Policy::Prefix, Some(affinity)) => {
                    let bound = (BOUND * (total + 1.0) * backend.weight / weights).ceil();
                    place.is_above_bound = count as f64 + 1.0 > bound;
                    place.score = race(mixed(affinity ^ backend.hash), backend.weight);
                }
                _ => {
                    place.score = backend.outstanding.observed.load(count as f64 + 1.0, backend.weight, now);
                    place.tie = random() as f64;
                }
            }
            let at = places.partition_point(|other| *other < place);
            if at < MOST_PER_TIER {
                places.insert(at, place);
                places.truncate(MOST_PER_TIER);
            }
        }
        places
    }

    /// Return what the requests of one session or prompt have in common; None if there is nothing.
    fn affinity(&self, stream: &Stream, key: Option<&str>, body: Option<&[u8]>) -> Option<u64> {
        match self.policy {
            Policy::Weighted | Policy::LeastRequests | Policy::TimeToFirstByte => None,
            Policy::Prefix => body.and_then(prefix::hash_of),
            Policy::Session => {
                let named = self.session_header.as_ref();
                let value = named.and_then(|name| stream.header(Headers::Request, name));
                value.filter(|value| !value.is_empty()).or(key.map(str::as_bytes)).map(prefix::hash_of_start)
            }
        }
    }

    fn names(&self, order: &Order) -> Vec<&str> {
        order.places.iter().map(|place| self.backends[place.index].name.as_str()).collect()
    }

    /// Begin the first attempt of a request, and hand its order over to the route; None without a backend in its
    /// regions.
    pub fn apply(
        &self,
        stream: &mut Stream,
        key: Option<&str>,
        body: Option<&[u8]>,
        regions: Option<&Regions>,
    ) -> Option<Applied> {
        let (order, begun) = self.begin(self.affinity(stream, key, body), regions, now());
        if order.places.is_empty() && regions.is_some() {
            return None;
        }
        stream.set_metadata(ORDER, &encoded(&self.names(&order)));
        // The route has read the metadata already.
        stream.clear_route_cache();
        let reservation = begun.map(|attempt| outstanding::reserve(stream, attempt, self.needs));
        Some(Applied { overflows: order.overflows, reservation })
    }

    /// Return the names of the backends in the order for a request, and whether it leaves a tier without room.
    #[cfg(test)]
    pub fn shown(&self, affinity: Option<u64>) -> (Vec<&str>, bool) {
        self.shown_at(affinity, now())
    }

    /// Return as `shown` the order at some time.
    #[cfg(test)]
    pub fn shown_at(&self, affinity: Option<u64>, now: u64) -> (Vec<&str>, bool) {
        let order = self.order(affinity, None, now);
        (self.names(&order), order.overflows)
    }
}

/// Return the time to the first byte of each backend in a tier.
///
/// Without a measurement it is the mean of the others. A backend that has not been asked for some time, and that has
/// no attempt in progress, is asked first: one request tells how fast it is.
fn times(backends: &[Backend], now: u64) -> Vec<f64> {
    let known: Vec<Option<f32>> =
        backends.iter().map(|backend| backend.outstanding.observed.first_byte(now)).collect();
    let (sum, count) =
        known.iter().flatten().fold((0.0, 0.0), |(sum, count), time| (sum + time, count + 1.0));
    let mean = if count > 0.0 { sum / count } else { 1.0 };
    let time = |(backend, known): (&Backend, Option<f32>)| {
        let outstanding = &backend.outstanding;
        let is_asked = outstanding.now() > 0 || !outstanding.observed.is_untried(now);
        f64::from(known.unwrap_or(if is_asked { mean } else { 0.0 }))
    };
    backends.iter().zip(known).map(time).collect()
}

/// Return a score with which the least of several is that of a backend in proportion to its weight.
fn race(number: u64, weight: f64) -> f64 {
    // Exponentially distributed: the first of several events with these rates.
    -(((number >> 11) as f64 + 1.0) / (1_u64 << 53) as f64).ln() / weight
}

/// Spread a number evenly over all numbers (the last steps of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Return a random number (SplitMix64), of a generator of each worker.
fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
    }
    STATE.with(|state| {
        state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mixed(state.get())
    })
}

/// Return `{"priority_groups": [{"name": NAME}, ...]}`, encoded.
fn encoded(names: &[&str]) -> Vec<u8> {
    let groups = names.iter().map(|name| structs::object(&[structs::member("name", &structs::text(name))]));
    structs::member("priority_groups", &structs::list(groups))
}
