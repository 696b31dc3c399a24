//! Filter of one stream, and the answers of its hooks to Envoy.

use crate::abi::{Setup, Stream};
use crate::errors::Refusal;

/// Answer to the headers of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum OnHeaders {
    /// Go on.
    Continue = 0,
    /// Hold the headers until the body has been read, or because the filter has answered.
    Stop = 1,
}

/// Answer to a piece of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum OnBody {
    /// Go on.
    Continue = 0,
    /// Hold what has arrived, and call again.
    Buffer = 1,
    /// Drop the piece, because the filter has answered.
    Drop = 3,
}

/// Answer to a wake-up.
#[derive(Debug)]
pub enum OnWake {
    /// Stay as it is.
    Stay,
    /// Let the request go on.
    Continue,
    /// Refuse the request.
    Refuse(Refusal),
}

/// Hooks of one stream. Those that a filter leaves out do nothing.
pub trait Filter {
    /// Handle the headers of the request; `end` if it has no body.
    fn request_headers(&mut self, stream: &mut Stream, end: bool) -> OnHeaders;

    /// Handle a piece of the request's body; `end` if it is the last.
    fn request_body(&mut self, _stream: &mut Stream, _end: bool) -> OnBody {
        OnBody::Continue
    }

    /// Handle the end of a body that has trailers; false if the filter has answered.
    fn request_trailers(&mut self, _stream: &mut Stream) -> bool {
        true
    }

    /// Handle a wake-up by a scheduler of the stream.
    fn wake(&mut self, _stream: &mut Stream) -> OnWake {
        OnWake::Stay
    }

    /// Handle the headers of the answer; `end` if it has no body.
    fn response_headers(&mut self, _stream: &mut Stream, _end: bool) {}

    /// Handle a piece of the answer's body; `end` if it is the last.
    fn response_body(&mut self, _stream: &mut Stream, _end: bool) {}

    /// Handle the end of an answer that has trailers.
    fn response_trailers(&mut self, _stream: &mut Stream) {}

    /// Handle the end of the stream, before it is logged.
    fn complete(&mut self, _stream: &mut Stream) {}

    /// Give back what Envoy counts, because a hook has panicked: no other one is called.
    fn failed(&mut self, _stream: &mut Stream) {}
}

/// Configuration that makes a filter for each stream.
pub trait Factory {
    /// Return the filter of a new stream.
    fn filter(&self) -> Box<dyn Filter>;

    /// Handle a call that the module has asked for, on Envoy's main thread.
    fn called(&self, _setup: &mut Setup) {}
}
