//! What a backend's answers say about its load: reports of its engine, and the time to its first byte.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::load_report::LoadReport;
use crate::mean::Mean;

/// Window of reports: the newest of one engine counts most, and those of several behind one address are averaged.
const REPORTS_MS: u64 = 2_000;

/// Window of times to the first byte.
const TIMES_MS: u64 = 10_000;

/// Time after which a backend without a measurement is tried again.
const RETRY_MS: u64 = 30_000;

/// Shortest time to the first byte, in milliseconds; shorter ones count as this.
const SHORTEST_MS: f64 = 1.0;

/// Longest time to the first byte, in milliseconds, which longer ones and failures count as.
const LONGEST_MS: f64 = 60_000.0;

/// Most of an engine that counts as used: it always has a tenth of its capacity.
const MOST_USED: f32 = 0.9;

/// Observations of one backend.
#[derive(Debug, Default)]
pub struct Observed {
    queued: Mean<REPORTS_MS>,
    used: Mean<REPORTS_MS>,
    /// Logarithms of milliseconds. Long and short prompts differ by factors, so their mean is a geometric one.
    first_byte: Mean<TIMES_MS>,
    /// Time of the last attempt that is measured, plus one.
    tried: AtomicU64,
}

impl Observed {
    /// Count a report.
    pub fn reported(&self, report: LoadReport, now: u64) {
        if let Some(queued) = report.queued {
            self.queued.add(queued, now);
        }
        if let Some(used) = report.used {
            self.used.add(used, now);
        }
    }

    /// Return the requests in the engine's queue; None if it has not reported.
    pub fn queued(&self, now: u64) -> Option<f32> {
        self.queued.at(now)
    }

    /// Return the load per free capacity of a backend with a weight and with requests in progress.
    ///
    /// That is `(requests + queued) / (weight * (1 - used))`. Without reports, it is requests by weight.
    pub fn load(&self, requests: f64, weight: f64, now: u64) -> f64 {
        let queued = self.queued.at(now).unwrap_or_default();
        let used = self.used.at(now).unwrap_or_default().min(MOST_USED);
        (requests + f64::from(queued)) / (weight * f64::from(1.0 - used))
    }

    /// Note that an attempt is measured.
    pub fn tried(&self, now: u64) {
        self.tried.store(now + 1, Ordering::Relaxed);
    }

    /// Return whether the backend may have become faster unnoticed: it has not been asked for some time.
    pub fn is_untried(&self, now: u64) -> bool {
        let tried = self.tried.load(Ordering::Relaxed);
        tried == 0 || now >= tried + RETRY_MS
    }

    /// Count the time to the first byte of an answer.
    pub fn answered(&self, after: Duration, now: u64) {
        let milliseconds = (after.as_secs_f64() * 1e3).clamp(SHORTEST_MS, LONGEST_MS);
        self.first_byte.add(milliseconds.ln() as f32, now);
    }

    /// Count a failure, which is as bad as the longest time.
    pub fn failed(&self, now: u64) {
        self.first_byte.add(LONGEST_MS.ln() as f32, now);
    }

    /// Count the time for which a client waited in vain, if it was longer than usual.
    pub fn left(&self, after: Duration, now: u64) {
        if self.first_byte(now).is_some_and(|usual| after.as_secs_f64() * 1e3 > f64::from(usual)) {
            self.answered(after, now);
        }
    }

    /// Return the mean time to the first byte in milliseconds; None if it is unknown.
    pub fn first_byte(&self, now: u64) -> Option<f32> {
        self.first_byte.at(now).map(f32::exp)
    }
}
