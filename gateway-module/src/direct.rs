//! Request on a route with one endpoint, which Envoy itself rewrites: no attempt differs from another.
//!
//! Such a request has no filter of attempts. So the filter of requests does what else that one would do: it compares
//! the endpoint with the regions of the key, counts its answers, and writes the name that it has for the model.

use crate::abi::{Source, Stream};
use crate::endpoint::Counted;
use crate::head::AnswerHead;
use crate::names::{DIRECT, REWRITE};

/// Envoy's details of an answer that a backend gave.
const OF_BACKEND: &[u8] = b"via_upstream";

/// Endpoint of a request.
#[derive(Debug)]
pub struct Direct {
    region: String,
    served: String,
    counted: Counted,
}

impl Direct {
    /// Return the endpoint of the stream's route; None if there is a filter of attempts.
    pub fn of(stream: &Stream) -> Option<Self> {
        let lines = std::str::from_utf8(stream.metadata(Source::Route, REWRITE, DIRECT)).unwrap_or_default();
        // The name of the endpoint, its region, and its name for the model.
        let (endpoint, lines) = first_line(lines);
        let (region, lines) = first_line(lines);
        let (served, _) = first_line(lines);
        (!endpoint.is_empty()).then(|| Direct {
            region: region.to_string(),
            served: served.to_string(),
            counted: Counted::begin(endpoint),
        })
    }

    /// Return the region of the endpoint; empty for none.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Return the name to write into a body by whose model the service was chosen; empty for the client's.
    pub fn served(&self) -> &str {
        &self.served
    }

    /// Note that the request is complete.
    pub fn sent(&mut self) {
        self.counted.sent();
    }

    /// Count an answer of the endpoint, but none of Envoy's own; `end` if it has no body.
    pub fn response_headers(&mut self, stream: &Stream, head: &AnswerHead, end: bool) {
        if stream.details() == OF_BACKEND {
            self.counted.answered(head, end);
        }
    }

    /// Look for the first byte of the body; `end` if it is complete.
    pub fn response_body(&mut self, stream: &Stream, end: bool) {
        self.counted.response_body(stream, end);
    }

    /// Note that the answer is complete.
    pub fn complete(&mut self) {
        self.counted.complete();
    }
}

/// Return the first line of a text, and the lines behind it. They are short, so no search begins.
fn first_line(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| byte == b'\n');
    end.map_or((text, ""), |end| (&text[..end], &text[end + 1..]))
}
