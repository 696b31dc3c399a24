//! Mean of recent values, which older ones count in less and less, shared by all workers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Windows after the last value in which a mean is known.
const LIFETIME: u64 = 3;

/// Unit in which the age of a mean is kept beside it.
const TICK_MS: u64 = 100;

/// Return the time in milliseconds since some point of this process.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

#[derive(Debug, Default)]
struct Sum {
    values: f64,
    /// Number of values, each as much as it still counts.
    count: f64,
    at: u64,
}

/// Mean of values, each of which counts by `exp(-age / WINDOW_MS)`. It is unknown three windows after the last one.
#[derive(Debug, Default)]
pub struct Mean<const WINDOW_MS: u64> {
    sum: Mutex<Sum>,
    /// The mean in the lower half, and in the upper one the ticks until the last value, plus one.
    shown: AtomicU64,
}

impl<const WINDOW_MS: u64> Mean<WINDOW_MS> {
    /// Add a value.
    pub fn add(&self, value: f32, now: u64) {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_sub(sum.at);
        let kept = if age > LIFETIME * WINDOW_MS { 0.0 } else { (-(age as f64) / WINDOW_MS as f64).exp() };
        sum.values = sum.values * kept + f64::from(value);
        sum.count = sum.count * kept + 1.0;
        sum.at = sum.at.max(now);
        let mean = (sum.values / sum.count) as f32;
        let tick = sum.at / TICK_MS + 1;
        self.shown.store(tick << 32 | u64::from(mean.to_bits()), Ordering::Relaxed);
    }

    /// Return the mean; None if there is no recent value.
    pub fn at(&self, now: u64) -> Option<f32> {
        let shown = self.shown.load(Ordering::Relaxed);
        let tick = shown >> 32;
        let is_recent = tick > 0 && now / TICK_MS < tick + LIFETIME * WINDOW_MS / TICK_MS;
        is_recent.then(|| f32::from_bits(shown as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_newest_values_and_is_forgotten_without_any() {
        let mean = Mean::<1_000>::default();
        assert_eq!(mean.at(0), None);
        for now in [50, 50, 51] {
            mean.add(8.0, now);
        }
        assert_eq!(mean.at(60), Some(8.0));
        mean.add(0.0, 60);
        assert!((mean.at(60).unwrap() - 6.0).abs() < 0.1);
        // After two windows, what was before counts 4 times e^-2.
        mean.add(0.0, 2_060);
        assert!((mean.at(2_060).unwrap() - 24.0 * 0.135 / (4.0 * 0.135 + 1.0)).abs() < 0.2);
        assert!(mean.at(5_000).is_some());
        assert_eq!(mean.at(5_100), None);
        mean.add(1.0, 9_000);
        assert_eq!(mean.at(9_000), Some(1.0));
    }

    #[test]
    fn values_of_several_threads_are_all_counted() {
        let mean = Mean::<1_000>::default();
        std::thread::scope(|scope| {
            for value in [1.0, 3.0] {
                let mean = &mean;
                scope.spawn(move || (0..1_000).for_each(|_| mean.add(value, 7)));
            }
        });
        assert_eq!(mean.at(7), Some(2.0));
    }
}
