//! Members of a JSON object, found without reading their values: the usual body of a request at a tenth of the time, and
//! the usual token counts at a third.
//!
//! It reads a part of what `serde_json` reads, and that the same way. Whatever else a body is, it is left to the other
//! reader: names in another form than those of the API, deep values, and errors.

use std::ops::Range;

use memchr::memchr2;

/// A value that is nested deeper is left to the other reader.
const MOST_DEPTH: usize = 32;

/// Up to this length, comparing each byte of a string takes less than to begin a search.
const SHORT_BYTES: usize = 16;

/// Return the values of some members, by their places in the text; None leaves the text to the other reader.
pub fn members<const N: usize>(text: &[u8], names: [&str; N]) -> Option<[Option<Range<usize>>; N]> {
    let mut found = [const { None }; N];
    Scan::of(text).document(|scan, name| {
        let start = scan.at;
        scan.value()?;
        match names.iter().position(|known| known.as_bytes() == name) {
            Some(place) if found[place].replace(start..scan.at).is_some() => None,
            _ => Some(()),
        }
    })?;
    Some(found)
}

/// Reader of a text. What it returns is None where it leaves the text to the other reader.
pub struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// Begin to read a text.
    pub fn of(text: &'a [u8]) -> Self {
        Scan { text, at: 0 }
    }

    /// Read a text that is an object. `read` reads the value of each member.
    pub fn document(&mut self, read: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.space();
        self.object(read)?;
        self.space();
        (self.at == self.text.len()).then_some(())
    }

    /// Read an object. `read` reads the value of each member.
    pub fn object(&mut self, mut read: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.one(b'{')?;
        self.space();
        if self.one(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.name()?;
            self.colon()?;
            read(self, name)?;
            if !self.goes_on(b'}')? {
                return Some(());
            }
        }
    }

    /// Read a value, and return how it is written.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.nested(0)?;
        Some(&self.text[start..self.at])
    }

    /// Read a whole number.
    pub fn integer(&mut self) -> Option<u64> {
        let start = self.at;
        let mut value: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            self.at += 1;
        }
        let is_written_once = self.at == start + 1 || self.text.get(start) != Some(&b'0');
        let goes_on = matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        (self.at > start && is_written_once && !goes_on).then_some(value)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn one(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn colon(&mut self) -> Option<()> {
        self.space();
        self.one(b':')?;
        self.space();
        Some(())
    }

    /// Read a comma, and return true, or the end of an object or array.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        self.space();
        let next = self.peek()?;
        self.at += 1;
        if next == b',' {
            self.space();
            return Some(true);
        }
        (next == end).then_some(false)
    }

    /// Read a name of small letters, digits and `_`.
    fn name(&mut self) -> Option<&'a [u8]> {
        self.one(b'"')?;
        let rest = &self.text[self.at..];
        let is_usual = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
        let length = rest.iter().position(|byte| !is_usual(byte))?;
        self.at += length;
        self.one(b'"')?;
        Some(&rest[..length])
    }

    fn nested(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' | b'[' if depth == MOST_DEPTH => None,
            b'{' => self.each(b'}', |scan| {
                scan.string()?;
                scan.colon()?;
                scan.nested(depth + 1)
            }),
            b'[' => self.each(b']', |scan| scan.nested(depth + 1)),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn each(&mut self, end: u8, read: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.space();
        if self.one(end).is_some() {
            return Some(());
        }
        loop {
            read(self)?;
            if !self.goes_on(end)? {
                return Some(());
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.one(b'"')?;
        let start = self.at;
        for (length, byte) in self.text[start..].iter().take(SHORT_BYTES).enumerate() {
            match byte {
                b'"' => {
                    self.at = start + length + 1;
                    return Some(());
                }
                b'\\' | ..b' ' => break,
                _ => {}
            }
        }
        loop {
            self.at += memchr2(b'"', b'\\', &self.text[self.at..])?;
            if self.text[self.at] == b'"' {
                break;
            }
            self.at += match self.text.get(self.at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                b'u' if self.text.get(self.at + 2..self.at + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
                _ => return None,
            };
        }
        // Without an early end, so that the compiler compares many bytes at once.
        let has_control = self.text[start..self.at].iter().fold(false, |found, byte| found | (*byte < b' '));
        self.at += 1;
        (!has_control).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.one(b'-');
        if self.one(b'0').is_none() {
            self.digits()?;
        }
        if self.one(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Read at least one digit.
    fn digits(&mut self) -> Option<()> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<[Option<&str>; 2]> {
        members(text.as_bytes(), ["model", "stream"])
            .map(|found| found.map(|place| place.map(|place| &text[place])))
    }

    #[test]
    fn members_are_found_with_all_that_their_values_are() {
        for (text, expected) in [
            ("{}", [None, None]),
            (" { \"model\" : \"a\" , \"stream\":true}\n", [Some("\"a\""), Some("true")]),
            (r#"{"x":[1,-0.5e+3,{"model":"no"},[]],"model":"\u00e9\"\\"}"#, [Some(r#""\u00e9\"\\""#), None]),
            (r#"{"a":{},"b":null,"stream":false}"#, [None, Some("false")]),
            ("{\"a\":\"\u{e9}\",\"model\":0}", [Some("0"), None]),
        ] {
            assert_eq!(found(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_unusual_or_wrong_is_left_to_the_other_reader() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(40), "]".repeat(40));
        for text in [
            "",
            "[]",
            "{",
            "{\"a\"",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 2}",
            "{} x",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":-}",
            "{\"a\":1e}",
            "{\"a\":tru}",
            "{\"a\":\"\n\"}",
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12"}"#,
            r#"{"Model":"b"}"#,
            r#"{"m\u006fdel":"b"}"#,
            r#"{"model ":"b"}"#,
            r#"{"model":"a","model":"b"}"#,
            &deep,
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
