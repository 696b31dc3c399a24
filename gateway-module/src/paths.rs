//! Paths of requests: the service that they name, and the path that a backend sees.

use memchr::memchr2;

/// Prefix of the paths that are routed by the model in the body.
const BY_MODEL: &str = "/v1/";

/// Paths, by their end, whose streams tell token counts only if asked.
const COUNTED_IF_ASKED: [&str; 2] = ["/chat/completions", "/completions"];

/// Return a path without its query.
pub fn without_query(path: &str) -> &str {
    &path[..before_query(path.as_bytes()).len()]
}

/// Return a path without its query, which need not be UTF-8.
pub fn before_query(path: &[u8]) -> &[u8] {
    memchr2(b'?', b'#', path).map_or(path, |end| &path[..end])
}

/// Return whether the query of a path has a parameter, in whatever letter case, encoding or form of a list.
pub fn has_parameter(path: &[u8], name: &str) -> bool {
    let query = &path[before_query(path).len()..];
    query.split(|byte| b"?&;#".contains(byte)).any(|parameter| {
        let key = decoded(&String::from_utf8_lossy(parameter)).replace('+', " ");
        let key = key.split(['=', '[', '.']).next().unwrap_or_default();
        key.trim().eq_ignore_ascii_case(name)
    })
}

/// Return a part of a path without percent-encoding: clients encode the slash in the name of a model.
pub fn decoded(part: &str) -> String {
    let mut decoded = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let mut after = rest.clone();
        let mut digit = || char::from(after.next()?).to_digit(16);
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(), digit())
        {
            decoded.push((high * 16 + low) as u8);
            rest = after;
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Return whether a path is routed by the model in the body.
pub fn is_by_model(path: &str) -> bool {
    path.starts_with(BY_MODEL)
}

/// Return whether a stream of a path tells token counts only if asked.
pub fn is_counted_if_asked(path: &str) -> bool {
    COUNTED_IF_ASKED.iter().any(|end| without_query(path).ends_with(end))
}

/// Return the service that a path `/NAMESPACE/SERVICE/...` names, as `NAMESPACE/SERVICE`.
pub fn service(path: &str) -> Option<&str> {
    let names = without_query(path).strip_prefix('/')?;
    let (namespace, rest) = names.split_once('/')?;
    let service = rest.split('/').next().unwrap_or_default();
    if namespace.is_empty() || service.is_empty() {
        return None;
    }
    names.get(..namespace.len() + 1 + service.len())
}

/// Replacement of the prefix of a path for one backend; see `README.md`.
#[derive(Debug, Default)]
pub struct Rewrite<'a> {
    /// Length of the prefix to remove.
    pub strip: usize,
    /// Replacement, with a slash at its end.
    pub prefix: &'a [u8],
    /// Segment at the end of `prefix` that is not repeated.
    pub overlap: &'a [u8],
}

impl Rewrite<'_> {
    /// Return the path that the backend sees.
    pub fn of(&self, path: &[u8]) -> Vec<u8> {
        let mut rest = without_slash(path.get(self.strip..).unwrap_or_default());
        if !self.overlap.is_empty()
            && let Some(after) = rest.strip_prefix(self.overlap)
            && matches!(after.first(), None | Some(b'/' | b'?'))
        {
            rest = without_slash(after);
        }
        [self.prefix, rest].concat()
    }
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"/").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_the_first_two_segments() {
        for (path, expected) in [
            ("/ml/qwen/v1/chat/completions", Some("ml/qwen")),
            ("/ml/qwen", Some("ml/qwen")),
            ("/ml/qwen?a=/x/y", Some("ml/qwen")),
            ("/ml/qwen//v1", Some("ml/qwen")),
            ("/ml/../other/v1", Some("ml/..")),
            ("/ml/", None),
            ("/ml", None),
            ("//qwen/v1", None),
            ("/?/ml/qwen", None),
            ("ml/qwen", None),
            ("", None),
        ] {
            assert_eq!(service(path), expected, "{path}");
        }
    }

    #[test]
    fn percent_encoding_is_read_where_it_is_complete() {
        for (part, expected) in [
            ("ml%2Fqwen", "ml/qwen"),
            ("ml/qwen", "ml/qwen"),
            ("a%2", "a%2"),
            ("%%2f%zz%", "%/%zz%"),
            ("%+2", "%+2"),
            ("%c3%a9%ff", "é\u{fffd}"),
            ("%é", "%é"),
        ] {
            assert_eq!(decoded(part), expected, "{part}");
        }
    }

    #[test]
    fn a_parameter_of_a_query_is_found_however_it_is_written() {
        for path in [
            "/x?model=a",
            "/x?a=1&model=b",
            "/x?a;model=b",
            "/x?Model=b",
            "/x?%6dodel=b",
            "/x?model",
            "/x?model[]=b",
            "/x?model.x=b",
            "/x?+model=b",
            "/x?model%20=b",
            "/x?a?model=b",
            "/x?#&model=b",
        ] {
            assert!(has_parameter(path.as_bytes(), "model"), "{path}");
        }
        for path in ["/model", "/model=b", "/x?models=b", "/x?a=model", "/x?a=b%26model=c", "/x?", ""] {
            assert!(!has_parameter(path.as_bytes(), "model"), "{path}");
        }
    }

    #[test]
    fn a_path_is_rewritten_as_the_backend_wants_it() {
        // The cases of the test of real paths, tests/kubernetes/test_envoy.py.
        let long = "x".repeat(9000);
        let cases = [
            ("/ml/r-1/", "", "/v1/chat?a=1&b=%20".to_string(), "/ml/r-1/v1/chat?a=1&b=%20".to_string()),
            ("/", "", "/v1/models/a%20b".into(), "/v1/models/a%20b".into()),
            ("/", "", String::new(), "/".into()),
            ("/", "", "?a=1".into(), "/?a=1".into()),
            ("/", "", "//v1".into(), "//v1".into()),
            ("/v1/", "v1", "/v1/models".into(), "/v1/models".into()),
            ("/v1/", "v1", "/v1?a=1".into(), "/v1/?a=1".into()),
            ("/v1/", "v1", "/models".into(), "/v1/models".into()),
            ("/v1/", "v1", "/v1beta/models".into(), "/v1/v1beta/models".into()),
            ("/p/", "", format!("/{long}?{long}"), format!("/p/{long}?{long}")),
        ];
        for (prefix, overlap, asked, seen) in cases {
            let rewrite =
                Rewrite { strip: "/ml/qwen".len(), prefix: prefix.as_bytes(), overlap: overlap.as_bytes() };
            let path = rewrite.of(format!("/ml/qwen{asked}").as_bytes());
            assert_eq!(String::from_utf8(path).unwrap(), seen);
        }
    }

    #[test]
    fn a_path_that_is_shorter_than_the_prefix_becomes_the_root() {
        let rewrite = Rewrite { strip: 99, prefix: b"/p/", overlap: b"" };
        assert_eq!(rewrite.of(b"/short"), b"/p/");
    }
}
