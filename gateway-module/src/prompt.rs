//! Body of a request: the model that it names, and changes that leave the rest byte for byte.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::abi::{Headers, Stream};
use crate::{multipart, scan};

/// Request for the token counts of a stream, behind the other members.
const ASK: &str = r#","stream_options":{"include_usage":true}"#;

/// A longer name of a model is refused: it would be in errors, logs and headers.
const MOST_MODEL_BYTES: usize = 512;

/// Form of a body that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'a> {
    /// JSON.
    Json,
    /// `multipart/form-data` with its boundary.
    Multipart(&'a str),
}

impl<'a> Form<'a> {
    /// Return the form that a `content-type` announces.
    ///
    /// Servers differ in how they read parameters that occur twice and other charsets, so those have no form.
    pub fn of(content_type: &'a str) -> Option<Self> {
        if content_type == "application/json" {
            return Some(Form::Json); // what almost every request has
        }
        let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        let kind = kind.trim().to_ascii_lowercase();
        let parameters = Parameters::read(parameters)?;
        match kind.as_str() {
            "multipart/form-data" => parameters.boundary.map(Form::Multipart),
            "application/json" => Some(Form::Json),
            _ => (kind.starts_with("application/") && kind.ends_with("+json")).then_some(Form::Json),
        }
    }
}

/// Parameters of a `content-type` that change how a body is read.
#[derive(Default)]
struct Parameters<'a> {
    boundary: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    /// Read the parameters; None if servers could read them differently.
    fn read(text: &'a str) -> Option<Self> {
        let mut parameters = Parameters::default();
        for parameter in text.split(';').map(str::trim).filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=')?;
            let value = value.strip_prefix('"').map_or(Some(value), |value| value.strip_suffix('"'))?;
            match name.to_ascii_lowercase().as_str() {
                "boundary" if multipart::is_boundary(value) && parameters.boundary.is_none() => {
                    parameters.boundary = Some(value);
                }
                "charset" if value.eq_ignore_ascii_case("utf-8") => {}
                "boundary" | "charset" => return None,
                name if is_token(name) && !value.contains(['"', '\\']) => {}
                _ => return None,
            }
        }
        Some(parameters)
    }
}

/// Return whether a text is a name of letters, digits, `-` and `_`.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Return whether a request becomes a websocket, whose data is no body.
pub fn is_upgrade(stream: &Stream) -> bool {
    stream.count(Headers::Request, "upgrade") > 0
}

/// Return whether the body of a request is compressed, or may be.
pub fn is_compressed(stream: &Stream) -> bool {
    match stream.count(Headers::Request, "content-encoding") {
        0 => false,
        1 => !stream.header(Headers::Request, "content-encoding").is_some_and(is_identity),
        _ => true,
    }
}

/// Return the `content-type` of a request; empty if there is none, or several.
pub fn content_type(stream: &Stream) -> String {
    let is_single = stream.count(Headers::Request, "content-type") == 1;
    let value = stream.text(Headers::Request, "content-type").filter(|_| is_single);
    value.unwrap_or_default().to_string()
}

/// Return whether a `content-encoding` is none.
pub fn is_identity(encoding: &[u8]) -> bool {
    encoding.eq_ignore_ascii_case(b"identity")
}

/// Members that the module reads, as they are written; null has a place, too.
///
/// A member that occurs twice, or that equals one of them but for case, is an error: servers differ in which one
/// they take.
#[derive(Default)]
struct Members<'a> {
    model: Option<&'a str>,
    stream: Option<&'a str>,
    stream_options: Option<&'a str>,
}

const KNOWN: [&str; 3] = ["model", "stream", "stream_options"];

impl<'a> Members<'a> {
    /// Read the members of a text.
    fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        let Some(found) = scan::members(text.as_bytes(), KNOWN) else { return serde_json::from_str(text) };
        let [model, stream, stream_options] = found.map(|place| place.map(|place| &text[place]));
        Ok(Members { model, stream, stream_options })
    }
}

/// Name of a member: its place in `KNOWN`, or None for another one.
struct Name(Option<usize>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Name;

            fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
                to.write_str("the name of a member")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
                let known = KNOWN.iter().position(|known| known == &name);
                if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
                    return Ok(Name(known)); // it is alike only to itself
                }
                match KNOWN.iter().find(|known| known.len() <= name.len() && is_alike(known, name)) {
                    Some(other) if known.is_none() => {
                        Err(E::custom(format!("a member is named almost like {other}: send {other} itself")))
                    }
                    _ => Ok(Name(known)),
                }
            }
        }
        value.deserialize_identifier(Reader)
    }
}

/// Return whether a server could take a name for a known one: case, spaces and control characters apart.
pub fn is_alike(known: &str, name: &str) -> bool {
    let letters = name.chars().filter(|each| !each.is_whitespace() && !each.is_control());
    // By way of capitals, because some letters have no other way to their usual form: a long s, a Kelvin sign.
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).eq(known.chars())
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut found = [None; KNOWN.len()];
                while let Some(Name(known)) = map.next_key()? {
                    let Some(known) = known else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    if found[known].replace(map.next_value::<&RawValue>()?).is_some() {
                        return Err(M::Error::custom(format!("the member {} is there twice", KNOWN[known])));
                    }
                }
                let [model, stream, stream_options] = found.map(|raw| raw.map(RawValue::get));
                Ok(Members { model, stream, stream_options })
            }
        }
        value.deserialize_map(Reader)
    }
}

#[derive(Deserialize, Default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// What the module knows of a body.
#[derive(Debug, PartialEq)]
pub struct Prompt<'a> {
    /// Value of `model`.
    pub model: Option<Cow<'a, str>>,
    slot: Slot,
    ask: Option<Edit>,
}

/// Place of the model in the body, and what is written around it there.
#[derive(Debug, PartialEq)]
struct Slot {
    place: Range<usize>,
    before: String,
    after: &'static str,
    is_quoted: bool,
}

impl Slot {
    fn at(place: Range<usize>, is_quoted: bool) -> Self {
        Slot { place, before: String::new(), after: "", is_quoted }
    }
}

#[derive(Debug, PartialEq)]
struct Edit(Range<usize>, Cow<'static, str>);

impl<'a> Prompt<'a> {
    /// Read a body.
    pub fn read(body: &'a [u8], form: Form) -> Result<Self, String> {
        let prompt = match form {
            Form::Json => Self::read_json(body),
            Form::Multipart(boundary) => {
                let place = multipart::field(body, boundary, "model")?;
                let model = place.clone().map(|place| std::str::from_utf8(&body[place]));
                let model = model.transpose().map_err(|_| "the model is not UTF-8")?.map(Cow::Borrowed);
                let slot = place.map(|place| Slot::at(place, false)).unwrap_or_else(|| Slot {
                    place: 0..0,
                    before: multipart::opening(boundary, "model"),
                    after: "\r\n",
                    is_quoted: false,
                });
                Ok(Prompt { model, slot, ask: None })
            }
        }?;
        match prompt.model.as_deref().map(str::len) {
            Some(length) if length > MOST_MODEL_BYTES => {
                Err(format!("the model's name is longer than {MOST_MODEL_BYTES} bytes"))
            }
            _ => Ok(prompt),
        }
    }

    fn read_json(body: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
        if !text.trim_start().starts_with('{') {
            return Err("the body is not a JSON object".into());
        }
        let members = Members::read(text).map_err(|error| error.to_string())?;
        let model = members.model.map(string);
        let model = model.transpose().map_err(|_| "model is not a string")?.flatten();
        let stream = match members.stream {
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some("null") | None => None,
            Some(_) => return Err("stream is not true or false".into()),
        };
        let place = |raw: &str| {
            let start = raw.as_ptr() as usize - text.as_ptr() as usize;
            start..start + raw.len()
        };
        let slot = members.model.map(|raw| Slot::at(place(raw), true)).unwrap_or_else(|| first_member(text));
        let ask = (stream == Some(true)).then(|| ask(text, members.stream_options, place)).flatten();
        Ok(Prompt { model, slot, ask })
    }

    /// Return where the body changes to request token counts, and what it is from there to its end; None if the
    /// client asked itself or cannot ask.
    pub fn asking(&self, body: &[u8]) -> Option<(usize, Vec<u8>)> {
        let Edit(place, text) = self.ask.as_ref()?;
        Some((place.start, [text.as_bytes(), &body[place.end..]].concat()))
    }

    /// Return the body with another model, also if it names none.
    pub fn renamed(&self, body: &[u8], model: &str) -> Vec<u8> {
        let Slot { place, before, after, is_quoted } = &self.slot;
        let model = if *is_quoted { serde_json::json!(model).to_string() } else { model.to_string() };
        Edit(place.clone(), format!("{before}{model}{after}").into()).apply(body)
    }
}

/// Return the text that a value is; None for null.
fn string(raw: &str) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) if !text.contains('\\') => Ok(Some(Cow::Borrowed(text))),
        _ => serde_json::from_str(raw),
    }
}

/// Return the slot of a model in front of all members of an object.
fn first_member(text: &str) -> Slot {
    let start = text.find('{').map_or(0, |brace| brace + 1);
    let is_empty = text[start..].trim_start().starts_with('}');
    let before = r#""model":"#.to_string();
    Slot { place: start..start, before, after: if is_empty { "" } else { "," }, is_quoted: true }
}

impl Edit {
    fn apply(&self, body: &[u8]) -> Vec<u8> {
        let Edit(place, text) = self;
        [&body[..place.start], text.as_bytes(), &body[place.end..]].concat()
    }
}

fn ask(text: &str, options: Option<&str>, place: impl Fn(&str) -> Range<usize>) -> Option<Edit> {
    let Some(options) = options else {
        // An object with `stream` has a member, which the comma separates.
        let end = text.rfind('}')?;
        return Some(Edit(end..end, ASK.into()));
    };
    let asked: Option<StreamOptions> = serde_json::from_str(options).ok()?;
    if asked.unwrap_or_default().include_usage == Some(true) {
        return None;
    }
    let mut value: serde_json::Value = serde_json::from_str(options).ok()?;
    if value.is_null() {
        value = serde_json::json!({});
    }
    value.as_object_mut()?.insert("include_usage".into(), true.into());
    Some(Edit(place(options), value.to_string().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(body: &str) -> Option<String> {
        let prompt = Prompt::read(body.as_bytes(), Form::Json).unwrap();
        let (place, end) = prompt.asking(body.as_bytes())?;
        Some(format!("{}{}", &body[..place], String::from_utf8(end).unwrap()))
    }

    fn model(body: &str) -> Result<Option<String>, String> {
        Prompt::read(body.as_bytes(), Form::Json).map(|prompt| prompt.model.map(Cow::into_owned))
    }

    #[test]
    fn the_model_is_read_wherever_it_is_and_however_it_is_written() {
        assert_eq!(model(r#"{"a":{"model":"no"},"model":"ml/qwen"}"#).unwrap().unwrap(), "ml/qwen");
        assert_eq!(model(r#" {"m\u006fdel" : "a\/b"}"#).unwrap().unwrap(), "a/b");
        assert_eq!(model("{}").unwrap(), None);
        assert_eq!(model(r#"{"model":null}"#).unwrap(), None);
    }

    #[test]
    fn a_body_that_servers_could_read_differently_is_refused() {
        for wrong in [
            r#"{"model":"a","model":"b"}"#,
            r#"{"model":"a","m\u006fdel":"b"}"#,
            r#"{"model":["a"]}"#,
            r#"{"model":"a"} {"model":"b"}"#,
            r#"{"stream":true,"stream":false}"#,
            r#"{"model":"a","Model":"b"}"#,
            r#"{"MODEL":"b"}"#,
            r#"{"model":"a","m\u004fdel":"b"}"#,
            r#"{"model":"a","model ":"b"}"#,
            r#"{"model":"a","model\u0000":"b"}"#,
            r#"{"model":"a","\u00a0model":"b"}"#,
            r#"{"Stream":true}"#,
            "{\"\u{17f}tream\":true}",
            r#"{"stream":"yes"}"#,
            r#"{"stream":true,"Stream_Options":{}}"#,
            r#"["model"]"#,
            r#"["ml/qwen",true,null]"#,
            "",
            "{",
            "model=a",
        ] {
            assert!(model(wrong).is_err(), "{wrong}");
        }
        assert!(Prompt::read(b"{\"model\":\"\xff\"}", Form::Json).is_err());
        assert!(
            model(&format!(r#"{{"model":"{}"}}"#, "x".repeat(513))).unwrap_err().contains("longer than 512")
        );
    }

    #[test]
    fn token_counts_are_asked_for_only_where_the_client_did_not() {
        assert_eq!(
            asking(r#"{"stream":true,"x":1.0}"#).unwrap(),
            r#"{"stream":true,"x":1.0,"stream_options":{"include_usage":true}}"#
        );
        for (options, expected) in [
            ("null", r#"{"include_usage":true}"#),
            ("{}", r#"{"include_usage":true}"#),
            (r#"{"include_usage":false,"other":1}"#, r#"{"include_usage":true,"other":1}"#),
        ] {
            let body = |options: &str| format!(r#"{{"stream":true,"stream_options":{options}}}"#);
            assert_eq!(asking(&body(options)).unwrap(), body(expected));
        }
        assert_eq!(asking(r#"{"stream":true,"stream_options":{"include_usage":true}}"#), None);
        assert_eq!(asking(r#"{"stream":true,"stream_options":5}"#), None);
        assert_eq!(asking(r#"{"stream":false}"#), None);
        assert_eq!(asking(r#"{"model":"a"}"#), None);
    }

    #[test]
    fn a_renamed_body_differs_in_the_model_only() {
        let body = br#"{ "n": 1.00, "model" : "a" , "x":"\u00e9"}"#;
        let prompt = Prompt::read(body, Form::Json).unwrap();
        let renamed = prompt.renamed(body, "b\"c");
        assert_eq!(renamed, br#"{ "n": 1.00, "model" : "b\"c" , "x":"\u00e9"}"#);
    }

    #[test]
    fn a_body_without_a_model_gets_one() {
        for (body, form, expected) in [
            ("{}", Form::Json, r#"{"model":"b"}"#),
            (" { } ", Form::Json, r#" {"model":"b" } "#),
            (r#"{"n":1}"#, Form::Json, r#"{"model":"b","n":1}"#),
            (r#"{"model":null,"n":1}"#, Form::Json, r#"{"model":"b","n":1}"#),
            (
                "--x\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--x--\r\n",
                Form::Multipart("x"),
                "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nb\r\n\
                 --x\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--x--\r\n",
            ),
        ] {
            let renamed = Prompt::read(body.as_bytes(), form).unwrap().renamed(body.as_bytes(), "b");
            assert_eq!(String::from_utf8(renamed).unwrap(), expected);
            let again = Prompt::read(expected.as_bytes(), form).unwrap();
            assert_eq!(again.model.unwrap(), "b");
        }
    }

    #[test]
    fn the_form_follows_from_the_content_type() {
        for (kind, expected) in [
            ("application/json", Some(Form::Json)),
            ("Application/JSON; charset=utf-8", Some(Form::Json)),
            ("application/vnd.api+json", Some(Form::Json)),
            ("multipart/form-data; boundary=x", Some(Form::Multipart("x"))),
            ("multipart/form-data; charset=UTF-8; boundary=\"x y\"", Some(Form::Multipart("x y"))),
            ("multipart/form-data; boundary=x; boundary=y", None),
            ("multipart/form-data; boundary=x; Boundary=x", None),
            ("multipart/form-data; boundary=\"x; boundary=y\"", None),
            ("multipart/form-data; boundary=\"x\\y\"", None),
            ("multipart/form-data; boundary*=utf-8''x; boundary=x", None),
            ("multipart/form-data; boundary =x", None),
            ("application/json; charset=utf-7", None),
            ("application/json; charset=utf-16", None),
            ("application/json; profile=\"https://example.com\"", Some(Form::Json)),
            ("application/json, multipart/form-data; boundary=x", None),
            ("multipart/form-data", None),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(Form::of(kind), expected, "{kind}");
        }
    }
}
