//! What goes wrong with BPF programs, told in one line.

use std::error::Error;
use std::io;

/// The longest that is told; a verifier has much to say.
const MOST_CHARS: usize = 400;
/// Of that, what comes last: there a verifier says what it refuses.
const LAST_CHARS: usize = 250;

/// An error with all of its causes in one line, of the kind of the system error among them.
#[must_use]
pub fn told(error: &(dyn Error + 'static)) -> io::Error {
    let (mut text, mut kind, mut cause) = (error.to_string(), None, Some(error));
    while let Some(one) = cause {
        let said = one.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        kind = kind.or(one.downcast_ref::<io::Error>().map(io::Error::kind));
        cause = one.source();
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = shortened(&text);
    io::Error::new(kind.unwrap_or(io::ErrorKind::Other), text)
}

/// The beginning and the end of a text that is too long.
fn shortened(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= MOST_CHARS {
        return text.to_owned();
    }
    let first = text.chars().take(MOST_CHARS - LAST_CHARS - 3);
    let last = text.chars().skip(chars - LAST_CHARS);
    first.chain(" … ".chars()).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the program\n  cannot be loaded")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_told_behind_its_effect_and_gives_its_kind() {
        let error = told(&Outer(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert_eq!(text, "the program cannot be loaded: permission denied");
        let verifier = format!("{} R1 unbounded memory access", "x".repeat(10_000));
        let long = told(&Outer(io::Error::other(verifier)));
        assert_eq!(long.kind(), io::ErrorKind::Other);
        let text = long.to_string();
        assert_eq!(text.chars().count(), MOST_CHARS);
        assert!(text.starts_with("the program"), "{text}");
        assert!(text.ends_with("R1 unbounded memory access"), "{text}");
    }
}
