//! One field of a `multipart/form-data` body (RFC 7578); the other parts are not read.
//!
//! Servers differ in what they take for a part and for its name, so a body is refused unless all read it alike.

use std::ops::Range;

use memchr::memmem;

use crate::prompt::is_alike;

/// Values of `content-transfer-encoding` that change no byte.
const PLAIN: [&str; 3] = ["7bit", "8bit", "binary"];

/// Return whether a text is a boundary (RFC 2046, section 5.1.1).
pub fn is_boundary(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    (1..=70).contains(&text.len()) && !text.ends_with(' ') && text.bytes().all(is_allowed)
}

/// Return the beginning of a field, up to its content.
pub fn opening(boundary: &str, name: &str) -> String {
    format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n")
}

/// Return the place of a field's content; None if there is no such field.
pub fn field(body: &[u8], boundary: &str, name: &str) -> Result<Option<Range<usize>>, String> {
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter has no line before it.
    let opening = &delimiter.as_bytes()[2..];
    if !body.starts_with(opening) {
        return Err("the body does not begin with its boundary".into());
    }
    let finder = memmem::Finder::new(delimiter.as_bytes());
    let mut found = None;
    let mut start = opening.len();
    let mut delimiters = 1;
    // A part begins after the line of its delimiter; the last delimiter ends with two dashes.
    while !body[start..].starts_with(b"--") {
        let part = start + line_end(&body[start..])?;
        let end = part + finder.find(&body[part..]).ok_or("a part has no end")?;
        let content = part + memmem::find(&body[part..end], b"\r\n\r\n").ok_or("a part has no headers")? + 4;
        let field = field_name(&body[part + 2..content - 2])?;
        if field == name && found.replace(content..end).is_some() {
            return Err(format!("the field {name} is there twice"));
        }
        // Some servers read `model[]` and `model[0]` as a model, too.
        let first = field.split('[').next().unwrap_or_default();
        if field != name && is_alike(name, first) {
            return Err(format!("a field is named almost like {name}: send {name} itself"));
        }
        start = end + delimiter.len();
        delimiters += 1;
    }
    if !body[start + 2..].iter().all(|byte| b" \t\r\n".contains(byte)) {
        return Err("there is more after the last boundary".into());
    }
    // Some servers also end a part at a boundary after another line break.
    if memmem::find_iter(body, opening).count() != delimiters {
        return Err("the boundary is in the content of a part".into());
    }
    Ok(found)
}

fn line_end(rest: &[u8]) -> Result<usize, String> {
    let end = memmem::find(rest, b"\r\n").ok_or("a boundary has no end of its line")?;
    if rest[..end].iter().all(|each| b" \t".contains(each)) {
        // The part's headers begin with the line break, so that an empty list of them also ends in two.
        Ok(end)
    } else {
        Err("a boundary is followed by other characters".into())
    }
}

/// Return the name of the field in the headers of a part, each with its line break.
fn field_name(headers: &[u8]) -> Result<&str, String> {
    let headers = std::str::from_utf8(headers).map_err(|_| "the headers of a part are not UTF-8")?;
    let mut name = None;
    for line in headers.split_terminator("\r\n") {
        // A line that begins with a space would continue the one before; its name is none of these.
        let (header, value) = line.split_once(':').ok_or("a header of a part has no colon")?;
        if value.contains(|each: char| each.is_control() && each != '\t') {
            return Err("a header of a part has a control character".into());
        }
        let value = value.trim_matches([' ', '\t']);
        match header.to_ascii_lowercase().as_str() {
            "content-disposition" if name.is_none() => name = Some(disposition(value)?),
            "content-disposition" => return Err("a part has two names".into()),
            "content-type" | "content-length" => {}
            "content-transfer-encoding" if PLAIN.contains(&value.to_ascii_lowercase().as_str()) => {}
            _ => return Err(format!("a part has the header {header:?}: remove it")),
        }
    }
    name.ok_or_else(|| "a part has no name".into())
}

/// Return the name in `form-data; name="NAME"`, after which only `; filename="FILE"` may follow.
fn disposition(value: &str) -> Result<&str, String> {
    let wrong =
        || r#"the Content-Disposition of a part is not form-data; name="..."; filename="...""#.to_string();
    let (kind, rest) = value.split_once(';').ok_or_else(wrong)?;
    let (name, rest) = quoted(rest.trim_start(), "name=").ok_or_else(wrong)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    if !kind.eq_ignore_ascii_case("form-data") || name.is_empty() || !name.bytes().all(is_name) {
        return Err(wrong());
    }
    let Some(rest) = rest.strip_prefix(';') else {
        return if rest.is_empty() { Ok(name) } else { Err(wrong()) };
    };
    match quoted(rest.trim_start(), "filename=") {
        Some((file, "")) if !file.contains('\\') => Ok(name),
        _ => Err(wrong()),
    }
}

/// Return the quoted value of a parameter, and what follows it.
fn quoted<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(name)?.strip_prefix('"')?.split_once('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, content: &str) -> String {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
    }

    #[test]
    fn a_field_is_found_among_files() {
        let file = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\nRIFF\r\n";
        let body = format!("{file}{}{}--b--\r\n", part("model", "ml/whisper"), part("language", "en"));
        let place = field(body.as_bytes(), "b", "model").unwrap().unwrap();
        assert_eq!(&body[place], "ml/whisper");
        assert_eq!(field(body.as_bytes(), "b", "other").unwrap(), None);
    }

    fn read(headers: &str, content: &str) -> Result<Option<Range<usize>>, String> {
        field(format!("--b\r\n{headers}\r\n\r\n{content}\r\n--b--\r\n").as_bytes(), "b", "model")
    }

    const MODEL: &str = "Content-Disposition: form-data; name=\"model\"";

    #[test]
    fn usual_headers_of_parts_are_read() {
        for headers in [
            MODEL,
            "content-disposition:form-data;name=\"model\"",
            "Content-Disposition: form-data; name=\"model\"; filename=\"a b\u{e9}%22;.wav\"",
            &format!("{MODEL}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1"),
            &format!("Content-Transfer-Encoding: Binary\r\n{MODEL}"),
        ] {
            assert!(read(headers, "a").unwrap().is_some(), "{headers}");
        }
        let other = "Content-Disposition: form-data; name=\"timestamp_granularities[]\"";
        assert_eq!(read(other, "word"), Ok(None));
    }

    #[test]
    fn a_name_that_servers_could_read_differently_is_refused() {
        for headers in [
            "Content-Disposition: form-data; name=model",
            "Content-Disposition: form-data; name*=utf-8''model",
            "Content-Disposition: form-data; name*0=\"mo\"; name*1=\"del\"",
            "Content-Disposition: form-data; name=\"x\"; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"; name*=utf-8''model",
            "Content-Disposition: form-data; filename=\"x\"; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"; filename=\"y\"; name=\"model\"",
            "Content-Disposition: form-data; name=\"mo\\del\"",
            "Content-Disposition: form-data; name=\"x\\\"; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"; filename=\"\\\"; name=\"model\"",
            "Content-Disposition: form-data; name='model'",
            "Content-Disposition: form-data; name=\" model\"",
            "Content-Disposition: form-data; name=\"Model\"",
            "Content-Disposition: form-data; name=\"model[]\"",
            "Content-Disposition: form-data; name=\"MODEL[0]\"",
            "Content-Disposition: form-data; name=\"\"",
            "Content-Disposition: form-data;\r\n name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"\r\n\t; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"\rContent-Disposition: form-data; name=\"model\"",
            "Content-Disposition: form-data; name=\"x\"\nContent-Disposition: form-data; name=\"model\"",
            "Content-Disposition : form-data; name=\"model\"",
            "Content-Disposition: attachment; name=\"model\"",
            "Content-Disposition: form-data",
            "Content-Type: text/plain",
            "X-Other: y",
            &format!("Content-Disposition: form-data; name=\"x\"\r\n{MODEL}"),
            &format!("{MODEL}\r\nContent-Transfer-Encoding: base64"),
            &format!("{MODEL}\r\nContent-Encoding: gzip"),
        ] {
            assert!(read(headers, "a").is_err(), "{headers}");
        }
    }

    #[test]
    fn a_boundary_that_only_some_servers_see_is_refused() {
        for decoy in
            [format!("x\n--b\r\n{MODEL}\r\n\r\nb"), format!("x\r--b\r\n{MODEL}\r\n\r\nb"), "x--b--".into()]
        {
            assert!(read("Content-Disposition: form-data; name=\"x\"", &decoy).is_err(), "{decoy}");
        }
        let body = format!("{}--b--\r\n{}--b--", part("x", "a"), part("model", "b"));
        assert!(field(body.as_bytes(), "b", "model").is_err(), "after the end");
    }

    #[test]
    fn a_body_that_servers_could_read_differently_is_refused() {
        let twice = format!("{}{}--b--", part("model", "a"), part("model", "b"));
        for wrong in
            [twice.as_str(), "", "--b", "--b\r\n\r\nx", "--bx\r\n\r\nx\r\n--b--", "--b\r\nx\r\n--b--"]
        {
            assert!(field(wrong.as_bytes(), "b", "model").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_boundary_has_few_characters() {
        for (text, expected) in
            [("a b", true), ("", false), ("a ", false), ("a\"b", false), (&"a".repeat(71), false)]
        {
            assert_eq!(is_boundary(text), expected, "{text}");
        }
    }
}
