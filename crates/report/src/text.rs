//! Sentences: cleaned of control characters, wrapped, and cut at their `code` marks.

use itertools::Itertools as _;
use textwrap::Options;

/// The text on one line, without control characters: no name may move a reader's cursor.
pub(crate) fn clean(text: &str) -> String {
    let is_space = |c: char| c.is_control() || c.is_ascii_whitespace();
    joined(text.split(is_space), " ")
}

/// Wraps a text to a width, with one indent for its first line and one for the rest.
pub(crate) fn wrap(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(rest)
        // Names have hyphens, and must be found and copied as they are.
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let text = clean(text);
    let lines = textwrap::wrap(&text, options).into_iter();
    lines.map(|line| line.trim_end().to_owned()).collect()
}

pub(crate) fn columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

pub(crate) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextSpan {
    /// Whether it stood between backticks.
    pub code: bool,
    pub text: String,
}

/// Cuts a sentence at its backticks. A backtick without a partner stays as it is.
pub(crate) fn spans(text: &str) -> Vec<TextSpan> {
    let text = clean(text);
    let mut parts: Vec<String> = text.split('`').map(str::to_owned).collect();
    if parts.len().is_multiple_of(2) {
        let tail = parts.split_off(parts.len() - 2);
        parts.push(tail.join("`"));
    }
    let spans = parts.into_iter().enumerate().map(|(i, text)| TextSpan {
        code: i % 2 == 1,
        text,
    });
    spans.filter(|span| !span.text.is_empty()).collect()
}

/// Texts that are not empty, with something between them.
pub(crate) fn joined<T: AsRef<str>>(parts: impl IntoIterator<Item = T>, between: &str) -> String {
    let parts = parts.into_iter().filter(|part| !part.as_ref().is_empty());
    parts.map(|part| part.as_ref().to_owned()).join(between)
}

/// A count with its noun: `1 trial`, `3 trials`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    let noun = if n == 1 { one } else { many };
    format!("{} {noun}", crate::numbers::whole(n as u64))
}

/// JSON, indented, with a line feed at its end.
pub(crate) fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("keys are text") + "\n"
}

/// A line of JSON, with its line feed.
pub(crate) fn line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("keys are text") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cut_at_their_code() {
        let check = |text: &str, expected: &[(bool, &str)]| {
            let found = spans(text);
            let found = found.iter().map(|span| (span.code, span.text.as_str()));
            assert!(found.eq(expected.iter().copied()), "{text}");
        };
        let [a, b] = [(true, "send"), (true, "a<b")];
        check("plain", &[(false, "plain")]);
        check(
            "`send` beats `a<b`.",
            &[a, (false, " beats "), b, (false, ".")],
        );
        check("one ` alone", &[(false, "one ` alone")]);
        check("", &[]);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\nc\u{9b}d"), "a [31mb c d");
    }
}
