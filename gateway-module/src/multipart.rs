//! One field of a `multipart/form-data` body (RFC 7578); the other parts are not read.

use std::ops::Range;

use memchr::memmem;

/// Return the boundary among the parameters of a `content-type`.
pub fn boundary(parameters: &str) -> Option<&str> {
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    })?;
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    // RFC 2046, section 5.1.1: at most 70 characters.
    (!value.is_empty() && value.len() <= 70).then_some(value)
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
    // A part begins after the line of its delimiter; the last delimiter ends with two dashes.
    while !body[start..].starts_with(b"--") {
        let part = start + line_end(&body[start..])?;
        let end = part + finder.find(&body[part..]).ok_or("a part has no end")?;
        let content = part + memmem::find(&body[part..end], b"\r\n\r\n").ok_or("a part has no headers")? + 4;
        if is_named(&body[part..content], name) && found.replace(content..end).is_some() {
            return Err(format!("the field {name} is there twice"));
        }
        start = end + delimiter.len();
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

fn is_named(headers: &[u8], name: &str) -> bool {
    String::from_utf8_lossy(headers).split("\r\n").any(|line| {
        let Some((header, value)) = line.split_once(':') else { return false };
        header.trim().eq_ignore_ascii_case("content-disposition")
            && value.split(';').any(|parameter| {
                parameter.trim().split_once('=').is_some_and(|(key, value)| {
                    key.trim().eq_ignore_ascii_case("name") && value.trim().trim_matches('"') == name
                })
            })
    })
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
    fn a_boundary_may_be_quoted() {
        assert_eq!(boundary(" charset=x; Boundary=\"a b\""), Some("a b"));
        assert_eq!(boundary("boundary=abc"), Some("abc"));
        assert_eq!(boundary("boundary="), None);
        assert_eq!(boundary("boundary=\"\""), None);
    }
}
