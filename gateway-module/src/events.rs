//! Stream of server-sent events: its token counts, and the event with nothing else, which may be hidden.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memrchr};

use crate::usage::{self, Usage};

/// A longer line or event passes unread.
const MOST_BYTES: usize = 1 << 20;

/// Begin of a line with data.
const DATA: &[u8] = b"data:";

/// What becomes of a piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// It stays as it is.
    Same,
    /// It goes on without these of its bytes.
    Without(Range<usize>),
    /// Something else takes its place.
    Other(Vec<u8>),
}

#[cfg(test)]
impl Piece {
    /// Return what goes on of a piece.
    pub fn of(self, piece: &[u8]) -> Vec<u8> {
        match self {
            Piece::Same => piece.to_vec(),
            Piece::Without(part) => [&piece[..part.start], &piece[part.end..]].concat(),
            Piece::Other(data) => data,
        }
    }
}

/// Reader of a stream of events, in pieces of any size.
#[derive(Debug, Default)]
pub struct Events {
    /// Token counts so far.
    pub usage: Option<Usage>,
    /// Events so far that carry data.
    pub count: u64,
    hide: bool,
    held: Vec<u8>,
    skip: bool,
}

impl Events {
    /// Return a reader that takes the event with nothing but token counts out of the stream, if asked.
    pub fn new(hide: bool) -> Self {
        Events { hide, ..Events::default() }
    }

    /// Read a piece; `end` if it is the last. Return what becomes of it.
    pub fn push(&mut self, pieces: &[&[u8]], end: bool) -> Piece {
        if self.hide {
            // The end of almost every stream comes without bytes.
            let is_empty = self.held.is_empty() && pieces.is_empty();
            return if is_empty { Piece::Same } else { self.filter(pieces, end) };
        }
        for piece in pieces {
            self.observe(piece);
        }
        if end {
            let line = std::mem::take(&mut self.held);
            self.read(&line, true);
        }
        Piece::Same
    }

    /// Read lines; only a line that goes on in the next piece is copied.
    fn observe(&mut self, piece: &[u8]) {
        let mut name = Name::of(piece);
        let mut start = 0;
        while let Some(length) = memchr(b'\n', &piece[start..]) {
            let end = start + length;
            if std::mem::take(&mut self.skip) {
                // The rest of a line that was too long.
            } else if self.held.is_empty() {
                let may_tell = name.is_before(end, start);
                self.read(&piece[start..end], may_tell);
            } else {
                let mut line = std::mem::take(&mut self.held);
                line.extend_from_slice(&piece[start..end]);
                self.read(&line, true);
                line.clear();
                self.held = line;
            }
            start = end + 1;
        }
        let rest = &piece[start..];
        if self.skip || self.held.len() + rest.len() > MOST_BYTES {
            self.skip = true;
            self.held.clear();
        } else {
            self.held.extend_from_slice(rest);
        }
    }

    /// Hold each event until it is complete, and leave those out that have nothing but token counts.
    fn filter(&mut self, pieces: &[&[u8]], end: bool) -> Piece {
        let mut held = std::mem::take(&mut self.held);
        let seen = held.len();
        let data = match pieces {
            [piece] if held.is_empty() => Cow::Borrowed(*piece),
            _ => {
                pieces.iter().for_each(|piece| held.extend_from_slice(piece));
                Cow::Owned(held)
            }
        };
        let mut sent: Vec<Range<usize>> = vec![];
        let mut send = |part: Range<usize>| match sent.last_mut() {
            Some(before) if before.end == part.start => before.end = part.end,
            _ => sent.push(part),
        };
        let mut start = 0;
        loop {
            let next = usage::NAME.find(&data[start..]).map(|found| start + found);
            let begin = last_begin(&data, start, next.unwrap_or(data.len()));
            if begin > start {
                self.count += data_lines(&data[start..begin]);
                send(start..begin);
                start = begin;
            }
            // The line break before a blank line may be among the last two bytes that were held.
            let from = start.max(seen.saturating_sub(2));
            let Some(after) = next.and_then(|_| event_end(&data, start, from)) else { break };
            if !self.is_counts(&data[start..after], true) {
                send(start..after);
            }
            start = after;
        }
        if end {
            if !self.is_counts(&data[start..], true) {
                send(start..data.len());
            }
        } else if data.len() - start > MOST_BYTES {
            send(start..data.len());
            (self.hide, self.skip) = (false, true);
        } else if start == 0 {
            self.held = data.into_owned();
            return Piece::Other(vec![]);
        } else {
            self.held = data[start..].to_vec();
        }
        if seen == 0 && pieces.len() == 1 {
            match sent[..] {
                [Range { start: 0, end }] if end == data.len() => return Piece::Same,
                [Range { start: 0, end }] => return Piece::Without(end..data.len()),
                [Range { start: 0, end }, ref after] if after.end == data.len() => {
                    return Piece::Without(end..after.start);
                }
                _ => {}
            }
        }
        let mut out = Vec::with_capacity(sent.iter().map(Range::len).sum());
        sent.into_iter().for_each(|part| out.extend_from_slice(&data[part]));
        Piece::Other(out)
    }

    /// Read an event, and return whether it has nothing but token counts.
    fn is_counts(&mut self, event: &[u8], may_tell: bool) -> bool {
        let (mut found, mut rest) = (false, event);
        while let Some(end) = memchr(b'\n', rest) {
            found |= self.read(&rest[..end], may_tell);
            rest = &rest[end + 1..];
        }
        found | self.read(rest, may_tell)
    }

    /// Read a line, and return whether it has nothing but token counts. `may_tell` is false if it has none.
    fn read(&mut self, line: &[u8], may_tell: bool) -> bool {
        let Some(data) = data_of(line) else { return false };
        self.count += 1;
        if !may_tell {
            return false;
        }
        let Some(found) = usage::find(data) else { return false };
        self.usage = Some(self.usage.map_or(found.usage, |before| before.max(found.usage)));
        if found.alone {
            self.count -= 1;
        }
        found.alone
    }
}

/// Next place of the name of the member with token counts: most events lie before it, and need no search.
struct Name<'a> {
    data: &'a [u8],
    next: Option<usize>,
}

impl<'a> Name<'a> {
    fn of(data: &'a [u8]) -> Self {
        Name { data, next: usage::NAME.find(data) }
    }

    /// Return whether it is between two places. Each call is for places behind those of the last one.
    fn is_before(&mut self, end: usize, start: usize) -> bool {
        if self.next.is_some_and(|next| next < start) {
            self.next = usage::NAME.find(&self.data[start..]).map(|found| start + found);
        }
        self.next.is_some_and(|next| next < end)
    }
}

/// Return the data of a line; None if it has none, or if it only ends the stream.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let data = line.strip_prefix(DATA)?.trim_ascii();
    (!data.is_empty() && data != b"[DONE]").then_some(data)
}

/// Return the number of lines that have data, of whole lines.
fn data_lines(lines: &[u8]) -> u64 {
    let (mut count, mut rest) = (0, lines);
    while !rest.is_empty() {
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        // What almost every event is.
        let is_usual = rest.starts_with(b"data: {") && length > 7;
        count += u64::from(is_usual || data_of(&rest[..length]).is_some());
        rest = rest.get(length + 1..).unwrap_or_default();
        // The blank line at the end of an event needs no search.
        rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
    count
}

/// Return the begin of the event that is not complete before `end`, after the last blank line of those behind `start`.
fn last_begin(data: &[u8], start: usize, end: usize) -> usize {
    let mut at = end;
    while let Some(length) = memrchr(b'\n', &data[start..at]) {
        let line_break = start + length;
        if let [.., b'\n'] | [.., b'\n', b'\r'] | [] | [b'\r'] = &data[start..line_break] {
            return line_break + 1;
        }
        at = line_break;
    }
    start
}

/// Return the end of the event that begins at `start`, after its blank line. There is none before `from`.
fn event_end(data: &[u8], start: usize, from: usize) -> Option<usize> {
    let line_break = |at: usize| match &data[at..] {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    };
    if from <= start
        && let Some(end) = line_break(start)
    {
        return Some(end);
    }
    let mut at = from.max(start);
    while let Some(length) = memchr(b'\n', &data[at..]) {
        at += length + 1;
        if let Some(end) = line_break(at) {
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = r#"data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;

    fn stream(newline: &str) -> String {
        let lines =
            ["data: {\"choices\":[{}]}", "", ": comment", "data: {\"choices\":[{}],\"usage\":null}", ""];
        lines.iter().chain(&[COUNTS, "", "data: [DONE]", "", ""]).copied().collect::<Vec<_>>().join(newline)
    }

    fn in_pieces(text: &str, size: usize, hide: bool) -> (Events, Vec<u8>) {
        let mut events = Events::new(hide);
        let mut out = vec![];
        let mut pieces = text.as_bytes().chunks(size).peekable();
        while let Some(piece) = pieces.next() {
            let end = pieces.peek().is_none();
            out.extend(events.push(&[piece], end).of(piece));
        }
        (events, out)
    }

    #[test]
    fn counts_are_read_however_the_stream_is_cut() {
        for newline in ["\n", "\r\n"] {
            let text = stream(newline);
            for size in 1..=text.len() {
                let (events, out) = in_pieces(&text, size, false);
                assert_eq!(events.usage, Some(Usage { prompt: 7, completion: 2 }));
                assert_eq!((events.count, out), (2, text.clone().into_bytes()));
            }
        }
    }

    #[test]
    fn the_event_with_counts_is_hidden_however_the_stream_is_cut() {
        for newline in ["\n", "\r\n"] {
            let text = stream(newline);
            let expected = text.replace(&format!("{COUNTS}{newline}{newline}"), "");
            for size in 1..=text.len() {
                let (events, out) = in_pieces(&text, size, true);
                assert_eq!(String::from_utf8(out).unwrap(), expected);
                assert_eq!((events.usage.is_some(), events.count), (true, 2));
            }
        }
    }

    #[test]
    fn an_event_is_sent_on_as_soon_as_it_is_complete() {
        let mut events = Events::new(true);
        assert_eq!(events.push(&[b"data: 1\n\nda"], false), Piece::Without(9..11));
        assert_eq!(events.push(&[b"ta: 2\n", b"\n"], false), Piece::Other(b"data: 2\n\n".to_vec()));
        assert_eq!(events.push(&[b"data: 3\n\n"], false), Piece::Same);
    }

    #[test]
    fn a_stream_that_breaks_off_keeps_its_last_bytes() {
        let (_, out) = in_pieces("data: 1\n\ndata: {\"cho", 4, true);
        assert_eq!(out, b"data: 1\n\ndata: {\"cho");
    }

    #[test]
    fn an_endless_line_is_passed_on_and_takes_no_memory() {
        for hide in [false, true] {
            let text = format!("data: {}\n\n{COUNTS}\n\n", "x".repeat(3 * MOST_BYTES));
            let (events, out) = in_pieces(&text, 65_536, hide);
            assert_eq!(out, text.as_bytes());
            assert_eq!(events.usage, Some(Usage { prompt: 7, completion: 2 }));
            assert!(events.held.capacity() <= 3 * MOST_BYTES);
        }
    }
}
