//! Time to the first byte of a stream's body, which is the first token, for the metrics of each backend.

use std::time::{Duration, Instant};

use crate::abi::{Body, Headers, Source, Stream};
use crate::counters;
use crate::names::BACKEND;

/// Bounds of the buckets in milliseconds; the last bucket has none.
pub const BOUNDS_MS: [u64; 18] = [
    20, 50, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 15_000, 30_000, 60_000,
];

/// Times of one backend.
#[derive(Debug, Default)]
pub struct Times {
    /// Number of times in each bucket, without those of the buckets before.
    pub buckets: [u64; BOUNDS_MS.len() + 1],
    /// Sum in milliseconds.
    pub sum_ms: u64,
}

impl Times {
    /// Add a time.
    pub fn add(&mut self, time: Duration) {
        let milliseconds = time.as_millis() as u64;
        self.buckets[BOUNDS_MS.partition_point(|bound| *bound < milliseconds)] += 1;
        self.sum_ms += milliseconds;
    }
}

/// Return the bound of a bucket in seconds, as Prometheus writes it.
pub fn bound(bucket: usize) -> String {
    BOUNDS_MS.get(bucket).map_or("+Inf".into(), |bound| format!("{}", *bound as f64 / 1e3))
}

/// Attempt whose first byte is awaited, once its answer is known to be a stream.
#[derive(Debug)]
pub struct FirstByte {
    /// End of the request, else its beginning.
    since: Instant,
    /// Backend of a stream without a byte.
    backend: Option<String>,
}

impl FirstByte {
    /// Begin an attempt.
    pub fn begin() -> Self {
        FirstByte { since: Instant::now(), backend: None }
    }

    /// Note that the request is complete: a client that sends slowly does not make a backend slow.
    pub fn sent(&mut self) {
        self.since = Instant::now();
    }

    /// Read the headers of the answer: only streams are measured, because the first byte of others is the last token.
    pub fn response_headers(&mut self, stream: &Stream) {
        let is_success = matches!(stream.header(Headers::Response, ":status"), Some([b'2', ..]));
        let type_ = stream.text(Headers::Response, "content-type").unwrap_or_default();
        if !is_success || !type_.starts_with("text/event-stream") {
            return;
        }
        let name = std::str::from_utf8(stream.metadata(Source::Cluster, BACKEND, "name")).unwrap_or_default();
        self.backend = (!name.is_empty()).then(|| name.to_string());
    }

    /// Look for the first byte of the body.
    pub fn response_body(&mut self, stream: &Stream) {
        if self.backend.is_some() && stream.body(Body::ReceivedResponse).iter().any(|piece| !piece.is_empty())
        {
            self.count();
        }
    }

    fn count(&mut self) {
        if let Some(backend) = self.backend.take() {
            counters::first_byte(&backend, self.since.elapsed());
        }
    }
}

/// A client that leaves before the first byte has waited at least this long.
impl Drop for FirstByte {
    fn drop(&mut self) {
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_has_it() {
        let mut times = Times::default();
        for milliseconds in [0, 20, 21, 60_000, 60_001] {
            times.add(Duration::from_millis(milliseconds));
        }
        let mut expected = [0; BOUNDS_MS.len() + 1];
        (expected[0], expected[1], expected[17], expected[18]) = (2, 1, 1, 1);
        assert_eq!((times.buckets, times.sum_ms), (expected, 120_042));
        assert_eq!([0, 9, 18].map(bound), ["0.02", "1.5", "+Inf"]);
    }
}
