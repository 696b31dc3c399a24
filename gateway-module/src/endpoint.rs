//! Counts of each attempt for the metrics of its endpoint: the status of the answer, the time to the first
//! byte of a stream, which is its first token, and the time to the end.
//!
//! Envoy counts statuses and times too, if asked. It looks up ten names for each answer, which takes 9,000 instructions.

use std::time::{Duration, Instant};

use crate::abi::{Body, Headers, Source, Stream};
use crate::counters;
use crate::head::AnswerHead;
use crate::names::BACKEND;

/// Bounds of the buckets in milliseconds; the last bucket has none.
pub const BOUNDS_MS: [u64; 18] = [
    20, 50, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 15_000, 30_000, 60_000,
];

/// First digits of statuses.
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts of one endpoint.
#[derive(Debug, Default)]
pub struct Endpoint {
    /// Number of answers of each class.
    pub answers: [u64; CLASSES.len()],
    /// Number of complete answers.
    pub complete: u64,
    /// Sum of the times to the end of complete answers, in milliseconds.
    pub complete_ms: u64,
    /// Number of times to the first byte in each bucket, without those of the buckets before.
    pub buckets: [u64; BOUNDS_MS.len() + 1],
    /// Sum of the times to the first byte in milliseconds.
    pub first_byte_ms: u64,
}

impl Endpoint {
    /// Count an answer by its status.
    fn answered(&mut self, status: &[u8]) {
        let class = status.first().map_or(usize::MAX, |digit| usize::from(digit.wrapping_sub(b'1')));
        if let Some(count) = self.answers.get_mut(class) {
            *count += 1;
        }
    }

    /// Count a complete answer.
    fn completed(&mut self, time: Duration) {
        self.complete += 1;
        self.complete_ms += time.as_millis() as u64;
    }

    /// Count a time to the first byte.
    fn began(&mut self, time: Duration) {
        let milliseconds = time.as_millis() as u64;
        self.buckets[BOUNDS_MS.partition_point(|bound| *bound < milliseconds)] += 1;
        self.first_byte_ms += milliseconds;
    }
}

/// Return the bound of a bucket in seconds, as Prometheus writes it.
pub fn bound(bucket: usize) -> String {
    BOUNDS_MS.get(bucket).map_or("+Inf".into(), |bound| format!("{}", *bound as f64 / 1e3))
}

/// Attempt at an endpoint.
#[derive(Debug)]
pub struct Counted {
    /// End of the request, else its beginning.
    since: Instant,
    /// Name of the endpoint; empty as long as it is not known.
    endpoint: String,
    has_answered: bool,
    /// True for a stream without a byte. Only streams are measured: the first byte of others is the last token.
    is_awaited: bool,
}

impl Counted {
    /// Begin an attempt, at an endpoint if it is known.
    pub fn begin(endpoint: &str) -> Self {
        let endpoint = endpoint.to_string();
        Counted { since: Instant::now(), endpoint, has_answered: false, is_awaited: false }
    }

    /// Note that the request is complete: a client that sends slowly does not make a backend slow.
    pub fn sent(&mut self) {
        self.since = Instant::now();
    }

    /// Read the headers of the answer; `end` if it has no body.
    pub fn response_headers(&mut self, stream: &Stream, end: bool) {
        let name = std::str::from_utf8(stream.metadata(Source::Cluster, BACKEND, "name")).unwrap_or_default();
        if name.is_empty() {
            return;
        }
        self.endpoint = name.to_string();
        self.answered(&stream.headers(Headers::Response, AnswerHead::read), end);
    }

    /// Count the answer of the endpoint; `end` if it has no body.
    pub fn answered(&mut self, head: &AnswerHead, end: bool) {
        counters::of_endpoint(&self.endpoint, |endpoint| endpoint.answered(head.status));
        self.has_answered = true;
        self.is_awaited =
            head.status.starts_with(b"2") && head.content_type.starts_with(b"text/event-stream");
        if end {
            self.complete();
        }
    }

    /// Look for the first byte of the body; `end` if it is complete.
    pub fn response_body(&mut self, stream: &Stream, end: bool) {
        if self.is_awaited && stream.body_bytes(Body::ReceivedResponse) > 0 {
            self.begun();
        }
        if end {
            self.complete();
        }
    }

    /// Count the answer as complete.
    pub fn complete(&mut self) {
        if self.has_answered {
            let time = self.since.elapsed();
            counters::of_endpoint(&self.endpoint, |endpoint| endpoint.completed(time));
        }
    }

    fn begun(&mut self) {
        if std::mem::take(&mut self.is_awaited) {
            let time = self.since.elapsed();
            counters::of_endpoint(&self.endpoint, |endpoint| endpoint.began(time));
        }
    }
}

/// A client that leaves before the first byte has waited at least this long.
impl Drop for Counted {
    fn drop(&mut self) {
        self.begun();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_has_it() {
        let mut counts = Endpoint::default();
        for milliseconds in [0, 20, 21, 60_000, 60_001] {
            counts.began(Duration::from_millis(milliseconds));
        }
        let mut expected = [0; BOUNDS_MS.len() + 1];
        (expected[0], expected[1], expected[17], expected[18]) = (2, 1, 1, 1);
        assert_eq!((counts.buckets, counts.first_byte_ms), (expected, 120_042));
        assert_eq!([0, 9, 18].map(bound), ["0.02", "1.5", "+Inf"]);
    }

    #[test]
    fn an_answer_counts_by_the_first_digit_of_its_status() {
        let mut counts = Endpoint::default();
        for status in ["101", "200", "204", "404", "503", "", "x", "600"] {
            counts.answered(status.as_bytes());
        }
        assert_eq!(counts.answers, [1, 2, 0, 1, 1]);
    }
}
