//! Attempt whose answer tells how loaded its backend is.

use std::time::Instant;

use crate::abi::{Body, Headers, Stream};
use crate::load_report::LoadReport;
use crate::mean::now;
use crate::names::LOAD;
use crate::observed::Observed;
use crate::outstanding::{self, Attempt, Needs, Request};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There are no headers yet.
    Waiting,
    /// There is no byte of the body yet.
    Answering,
    /// Nothing more is measured.
    Done,
}

/// Attempt in progress, with what its service's policy needs to know of it.
#[derive(Debug)]
pub struct Measured {
    attempt: Attempt,
    request: Option<Request>,
    /// End of the request, else its beginning.
    since: Instant,
    phase: Phase,
}

impl Measured {
    /// Begin an attempt at the stream's cluster; None if its backend is not counted.
    pub fn begin(stream: &Stream) -> Option<Self> {
        let (attempt, request) = outstanding::begin(stream)?;
        let measured = Measured { attempt, request, since: Instant::now(), phase: Phase::Waiting };
        if measured.needs().times {
            measured.observed().tried(now());
        }
        Some(measured)
    }

    fn needs(&self) -> Needs {
        self.request.map(|request| request.needs).unwrap_or_default()
    }

    fn observed(&self) -> &Observed {
        self.attempt.observed()
    }

    /// Return whether the engine is asked for a report.
    pub fn needs_report(&self) -> bool {
        self.needs().reports
    }

    /// Note that the request is complete: a client that sends slowly does not make a backend slow.
    pub fn sent(&mut self) {
        if self.needs().times {
            self.since = Instant::now();
        }
    }

    /// Note that the gateway itself answers in place of the backend.
    pub fn refused(&mut self) {
        self.phase = Phase::Done;
    }

    /// Read the headers of the answer.
    pub fn response_headers(&mut self, stream: &mut Stream) {
        self.take_report(stream, Headers::Response);
        if !self.needs().times || self.phase != Phase::Waiting {
            return;
        }
        let status = stream.header(Headers::Response, ":status").unwrap_or_default();
        self.phase = match status {
            [b'2', ..] => Phase::Answering,
            [b'5', ..] | b"429" => {
                self.observed().failed(now());
                Phase::Done
            }
            // Such answers are fast whatever the load is.
            _ => Phase::Done,
        };
    }

    /// Look for the first byte of the answer's body.
    pub fn response_body(&mut self, stream: &Stream) {
        if self.phase != Phase::Answering
            || stream.body(Body::ReceivedResponse).iter().all(|piece| piece.is_empty())
        {
            return;
        }
        self.phase = Phase::Done;
        self.observed().answered(self.since.elapsed(), now());
    }

    /// Read the engine's report and remove it: clients do not learn the load.
    pub fn take_report(&self, stream: &mut Stream, headers: Headers) {
        if !self.needs_report() {
            return;
        }
        let Some(value) = stream.header(headers, LOAD) else { return };
        if let Some(report) = LoadReport::read(value) {
            self.observed().reported(report, now());
        }
        stream.set_header(headers, LOAD, None);
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let Some(request) = self.request.filter(|request| request.needs.times) else { return };
        match self.phase {
            Phase::Done => {}
            Phase::Waiting if request.is_open() => self.observed().failed(now()),
            _ => self.observed().left(self.since.elapsed(), now()),
        }
    }
}
