//! Answer of a backend: what it says about tokens, or an estimate where it says nothing.

use memchr::memmem;

use crate::events::{Events, Piece};
use crate::usage::{self, Usage};

/// A longer JSON answer is searched for token counts at its begin and end only.
const MOST_BYTES: usize = 1 << 20;

/// Length of these.
const EDGE_BYTES: usize = 16 << 10;

const BYTES_PER_TOKEN: u64 = 4;

/// JSON document, whole if it is short.
#[derive(Debug, Default)]
struct Document {
    begin: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl Document {
    fn push(&mut self, mut piece: &[u8]) {
        if self.end.is_none() && self.begin.len() + piece.len() <= MOST_BYTES {
            self.begin.extend_from_slice(piece);
            return;
        }
        let begin = &mut self.begin;
        let end = self.end.get_or_insert_with(|| {
            let end = begin[begin.len().saturating_sub(EDGE_BYTES)..].to_vec();
            begin.truncate(EDGE_BYTES);
            begin.shrink_to_fit();
            end
        });
        piece = &piece[piece.len().saturating_sub(EDGE_BYTES)..];
        end.drain(..(end.len() + piece.len()).saturating_sub(EDGE_BYTES).min(end.len()));
        end.extend_from_slice(piece);
    }

    fn usage(&self) -> Option<Usage> {
        let Some(end) = &self.end else {
            let whole = || usage::find(&self.begin).map(|found| found.usage);
            return usage::find_only(&self.begin).or_else(whole);
        };
        // Within a string the quotes would have backslashes.
        let name = b"\"usage\":";
        let at = |text: &[u8], place: Option<usize>| usage::value(&text[place? + name.len()..]);
        at(end, memmem::rfind(end, name)).or_else(|| at(&self.begin, memmem::find(&self.begin, name)))
    }
}

#[derive(Debug)]
enum Body {
    Json(Document),
    Events(Events),
}

/// Tokens of an answer, and whether they are an estimate.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted {
    /// The tokens.
    pub usage: Usage,
    /// True if the backend did not tell them all.
    pub estimated: bool,
}

/// Answer that is being read.
#[derive(Debug)]
pub struct Answer {
    body: Body,
    complete: bool,
}

impl Answer {
    /// Return a reader for a content type; None if it cannot be read.
    pub fn of(content_type: &str, hide: bool) -> Option<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let body = if kind.eq_ignore_ascii_case("application/json") {
            Body::Json(Document::default())
        } else if kind.eq_ignore_ascii_case("text/event-stream") {
            Body::Events(Events::new(hide))
        } else {
            return None;
        };
        Some(Answer { body, complete: false })
    }

    /// Return whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        matches!(self.body, Body::Events(_))
    }

    /// Read a piece; `end` if it is the last. Return what becomes of it.
    pub fn push(&mut self, pieces: &[&[u8]], end: bool) -> Piece {
        self.complete |= end;
        match &mut self.body {
            Body::Json(document) => {
                pieces.iter().for_each(|piece| document.push(piece));
                Piece::Same
            }
            Body::Events(events) => events.push(pieces, end),
        }
    }

    /// Return the tokens of the answer to a request of some bytes.
    pub fn count(&self, request_bytes: u64) -> Option<Counted> {
        let guess = request_bytes.div_ceil(BYTES_PER_TOKEN);
        match &self.body {
            Body::Json(document) if self.complete => {
                document.usage().map(|usage| Counted { usage, estimated: false })
            }
            Body::Json(_) => (guess > 0)
                .then_some(Counted { usage: Usage { prompt: guess, completion: 0 }, estimated: true }),
            Body::Events(events) => Some(match events.usage {
                Some(usage) if self.complete => Counted { usage, estimated: false },
                Some(usage) => {
                    let seen = Usage { prompt: 0, completion: events.count };
                    Counted { usage: usage.max(seen), estimated: true }
                }
                None => Counted { usage: Usage { prompt: guess, completion: events.count }, estimated: true },
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(kind: &str, body: &str, complete: bool) -> Option<(u64, u64, bool)> {
        let mut answer = Answer::of(kind, false).unwrap();
        for piece in body.as_bytes().chunks(7) {
            answer.push(&[piece], false);
        }
        if complete {
            answer.push(&[], true);
        }
        answer.count(10).map(|counted| (counted.usage.prompt, counted.usage.completion, counted.estimated))
    }

    const USAGE: &str = r#""usage":{"prompt_tokens":5,"completion_tokens":6}"#;

    #[test]
    fn a_json_answer_tells_its_tokens() {
        let kind = "application/json; charset=utf-8";
        assert_eq!(counted(kind, &format!("{{{USAGE}}}"), true), Some((5, 6, false)));
        assert_eq!(counted(kind, "{}", true), None);
        assert_eq!(counted(kind, "{", false), Some((3, 0, true)));
    }

    #[test]
    fn a_long_json_answer_tells_its_tokens_at_either_end() {
        let data = format!("\"data\":[\"{}\"]", r#"\"usage\":{"#.repeat(MOST_BYTES / 4));
        for body in [format!("{{{data},{USAGE}}}"), format!("{{{USAGE},{data}}}")] {
            assert_eq!(counted("application/json", &body, true), Some((5, 6, false)));
        }
        assert_eq!(counted("application/json", &format!("{{{data}}}"), true), None);
    }

    #[test]
    fn a_stream_without_counts_is_estimated() {
        let kind = "text/event-stream";
        let two = "data: {}\n\ndata: {}\n\n";
        assert_eq!(counted(kind, two, true), Some((3, 2, true)));
        assert_eq!(counted(kind, two, false), Some((3, 2, true)));
        let told = format!("data: {{{USAGE}}}\n\n");
        assert_eq!(counted(kind, &told, true), Some((5, 6, false)));
        // Anthropic's first event tells the prompt, and the client leaves after two more.
        let start = r#"data: {"message":{"usage":{"input_tokens":9,"output_tokens":1}}}"#;
        assert_eq!(counted(kind, &format!("{start}\n\n{two}"), false), Some((9, 3, true)));
    }

    #[test]
    fn other_answers_are_not_read() {
        assert!(Answer::of("text/plain", false).is_none() && Answer::of("", true).is_none());
        assert!(Answer::of("Text/Event-Stream", false).unwrap().is_stream());
    }
}
