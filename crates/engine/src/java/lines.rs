//! Parsers of the lines that the Java program writes. A line of another form is an error.

pub(super) fn greeting(line: &str) -> Option<&str> {
    let version = line.strip_prefix("ready ")?;
    let is_of_versions = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let fits = !version.is_empty() && version.len() <= 64 && version.chars().all(is_of_versions);
    fits.then_some(version)
}

pub(super) fn sent(line: &str) -> Option<(u64, u64)> {
    let (bytes, calls) = line.strip_prefix("sent ")?.split_once(' ')?;
    let number = |digits: &str| {
        let fits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| digits.parse().ok()).flatten()
    };
    Some((number(bytes)?, number(calls)?))
}

/// `java.io.IOException: Broken pipe` is `Broken pipe`, and what that means.
pub(super) fn in_words(exception: &str) -> String {
    let why = exception
        .strip_prefix("java.io.IOException: ")
        .unwrap_or(exception);
    if ["Broken pipe", "Connection reset"]
        .iter()
        .any(|gone| why.contains(gone))
    {
        return format!("{why}: the other side is gone");
    }
    why.to_owned()
}

/// Returns true for a Java that cannot run source files, or has no compiler.
pub(super) fn cannot_compile(said: &str) -> bool {
    said.contains("jdk.compiler") || said.contains("--source")
}

pub(super) fn last_line(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|l| !l.is_empty());
    match lines.next_back() {
        Some(line) => {
            let plain = line.chars().filter(|c| !c.is_control());
            format!(" ({})", plain.take(200).collect::<String>())
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart_or_refused() {
        for (line, expected) in [
            ("ready 17.0.15", Some("17.0.15")),
            ("ready 22-ea", Some("22-ea")),
            ("ready", None),
            ("ready ", None),
            ("ready 1 2", None),
            (" ready 1", None),
        ] {
            assert_eq!(greeting(line), expected, "{line}");
        }
        for (line, expected) in [
            ("sent 1 2", Some((1, 2))),
            ("sent 18446744073709551615 0", Some((u64::MAX, 0))),
            ("sent 1", None),
            ("sent 1 2 ", None),
            ("sent -1 2", None),
            ("sent  1 2", None),
        ] {
            assert_eq!(sent(line), expected, "{line}");
        }
    }

    #[test]
    fn what_it_says_of_itself_is_one_line_behind_what_is_told_of_it() {
        for (said, expected) in [
            ("", ""),
            ("\n \n", ""),
            ("one\ntwo \n\n", " (two)"),
            ("\u{1b}[31mred", " ([31mred)"),
        ] {
            assert_eq!(last_line(said), expected, "{said:?}");
        }
        assert_eq!(last_line(&"x".repeat(999)).len(), 203);
        assert_eq!(in_words("java.lang.Error: it"), "java.lang.Error: it");
    }
}
