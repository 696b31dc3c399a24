//! Record of a request for the access log: members of a JSON object, each after a comma.
//!
//! Envoy writes them into a line of text that has members of its own, also where there is no record.

use serde::Serialize;

/// Members of a record.
#[derive(Debug, Default)]
pub struct Record(Option<Vec<u8>>);

const USUAL_BYTES: usize = 512;

/// Name of a member with what is written around it, for the calls that add one.
macro_rules! member {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}
pub(crate) use member;

impl Record {
    /// Return an empty record; one that is not wanted stays empty.
    pub fn new(wanted: bool) -> Self {
        Record(wanted.then(|| Vec::with_capacity(USUAL_BYTES)))
    }

    /// Add a text; an empty one is left out.
    pub fn text(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        if is_plain(value.as_bytes()) {
            self.plain(name, value.as_bytes());
        } else {
            self.member(name, value);
        }
    }

    /// Add the first bytes of what a client or a backend has sent. Bytes that are not UTF-8 are replaced.
    pub fn bytes(&mut self, name: &str, value: &[u8], most: usize) {
        if self.0.is_none() {
            return;
        }
        let first = &value[..most.min(value.len())];
        if is_plain(first) && first.is_ascii() {
            return self.plain(name, first);
        }
        match std::str::from_utf8(value) {
            Ok(text) => {
                let mut end = most.min(text.len());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                self.text(name, &text[..end]);
            }
            Err(_) => self.text(name, &String::from_utf8_lossy(first)),
        }
    }

    /// Add a number.
    pub fn number(&mut self, name: &str, value: u64) {
        self.member(name, value);
    }

    /// Add a truth.
    pub fn truth(&mut self, name: &str, value: bool) {
        self.member(name, value);
    }

    /// Return the record; None if it is empty.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.0.take().filter(|text| !text.is_empty())
    }

    fn member(&mut self, name: &str, value: impl Serialize) {
        if let Some(text) = self.begin(name) {
            // Nothing fails to be written to memory.
            let _ = serde_json::to_writer(text, &value);
        }
    }

    /// Add a text that JSON writes as it is; an empty one is left out.
    fn plain(&mut self, name: &str, value: &[u8]) {
        if value.is_empty() {
            return;
        }
        if let Some(text) = self.begin(name) {
            text.reserve(value.len() + 2);
            text.push(b'"');
            text.extend_from_slice(value);
            text.push(b'"');
        }
    }

    /// Write the name of a member, and return the text for its value.
    fn begin(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        let text = self.0.as_mut()?;
        text.extend_from_slice(name.as_bytes());
        Some(text)
    }
}

/// Return whether JSON writes a text as it is.
fn is_plain(text: &[u8]) -> bool {
    // Without an early end, so that the compiler compares many bytes at once.
    let is_escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    !text.iter().fold(false, |found, byte| found | is_escaped(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(add: impl FnOnce(&mut Record)) -> String {
        let mut record = Record::new(true);
        add(&mut record);
        String::from_utf8(record.take().unwrap_or_default()).unwrap()
    }

    #[test]
    fn members_follow_each_other_after_commas() {
        let all = |record: &mut Record| {
            record.text(member!("a"), "bc");
            record.number(member!("n"), 1);
            record.truth(member!("t"), true);
            record.text(member!("empty"), "");
        };
        assert_eq!(written(all), r#","a":"bc","n":1,"t":true"#);
        let mut unwanted = Record::new(false);
        all(&mut unwanted);
        assert_eq!((unwanted.take(), Record::new(true).take()), (None, None));
    }

    #[test]
    fn what_a_client_sends_is_escaped_and_has_a_limit() {
        for (value, most, expected) in [
            (&b"\"\n\\},\"a\":1"[..], 99, r#","p":"\"\n\\},\"a\":1""#),
            (b"abc", 2, r#","p":"ab""#),
            ("aé".as_bytes(), 2, r#","p":"a""#),
            (b"a\xff\x00", 99, ",\"p\":\"a\u{fffd}\\u0000\""),
            (b"a\xffbc", 2, ",\"p\":\"a\u{fffd}\""),
            (b"", 99, ""),
        ] {
            assert_eq!(written(|record| record.bytes(member!("p"), value, most)), expected, "{value:?}");
        }
    }
}
