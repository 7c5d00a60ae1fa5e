//! Sentences: cleaned of control characters, wrapped, and cut at their `code` marks.

use bytecost_spec::units;
use itertools::Itertools as _;
use textwrap::Options;

/// The text on one line, without characters that are obeyed: no name may move a reader's cursor or
/// turn the order of words.
pub(crate) fn clean(text: &str) -> String {
    let is_space = |c: char| units::is_obeyed(c) || c.is_ascii_whitespace();
    joined(text.split(is_space), " ")
}

pub(crate) fn wrap(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(rest)
        // Names have hyphens, and must be found and copied as they are.
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let text = clean(text);
    let lines = textwrap::wrap(&text, options);
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
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

/// The first whole words of a text in at most `most` characters, with an ellipsis where words are
/// left out.
pub(crate) fn first_words(text: &str, most: usize) -> String {
    let short = shortened(text, most);
    match short.strip_suffix('…').filter(|_| short != text) {
        Some(cut) => {
            let whole = cut.rsplit_once(' ').map_or(cut, |(start, _)| start);
            // A number without its unit says something else.
            let words = whole.trim_end_matches(|c: char| c.is_ascii_digit());
            format!("{}…", words.trim_end_matches([',', ';', ':', ' ']))
        }
        None => short,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextSpan {
    /// True for text that stood between backticks.
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
    (parts.into_iter().enumerate())
        .map(|(i, part)| TextSpan {
            code: i % 2 == 1,
            text: part,
        })
        .filter(|span| !span.text.is_empty())
        .collect()
}

/// Texts that are not empty, with something between them.
pub(crate) fn joined<T: AsRef<str>>(parts: impl IntoIterator<Item = T>, between: &str) -> String {
    (parts.into_iter())
        .filter(|part| !part.as_ref().is_empty())
        .map(|part| part.as_ref().to_owned())
        .join(between)
}

/// A count with its noun: `1 trial`, `3 trials`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    let noun = if n == 1 { one } else { many };
    format!("{} {noun}", crate::numbers::whole(n as u64))
}

/// A count with its noun; empty for zero.
pub(crate) fn nonzero(n: usize, [one, many]: [&str; 2]) -> String {
    if n == 0 {
        String::new()
    } else {
        count(n, one, many)
    }
}

/// JSON, indented, with a line feed at its end.
pub(crate) fn pretty(value: &impl serde::Serialize) -> String {
    for_terminal(serde_json::to_string_pretty(value).expect("keys are text")) + "\n"
}

/// A line of JSON, with its line feed.
pub(crate) fn line(value: &impl serde::Serialize) -> String {
    for_terminal(serde_json::to_string(value).expect("keys are text")) + "\n"
}

/// JSON with the control characters escaped that a terminal interprets. JSON escapes those of ASCII
/// itself; the others occur only in strings, as four hexadecimal digits.
pub(crate) fn for_terminal(json: String) -> String {
    if json.is_ascii() {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if !c.is_ascii() && units::is_obeyed(c) {
            escaped += &format!("\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Rows as CSV (RFC 4180). A field of words has nothing that a terminal obeys, and does not begin as a
/// formula of a spreadsheet does: a quote precedes such a one.
pub(crate) fn csv_rows<R>(rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>, csv::Error>
where
    R: IntoIterator,
    R::Item: AsRef<str>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        for field in row {
            let field = clean(field.as_ref());
            let is_formula =
                field.starts_with(['=', '+', '-', '@']) && field.parse::<f64>().is_err();
            if is_formula {
                writer.write_field(format!("'{field}"))?;
            } else {
                writer.write_field(field)?;
            }
        }
        writer.write_record(None::<&[u8]>)?;
    }
    let written = writer.into_inner();
    written.map_err(|e| csv::Error::from(e.into_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cut_at_their_code() {
        let check = |text: &str, expected: &[(bool, &str)]| {
            let found = spans(text);
            let parts = found.iter().map(|span| (span.code, span.text.as_str()));
            assert!(parts.eq(expected.iter().copied()), "{text}");
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
        assert_eq!(clean("a\x1b[31mb\nc\u{9b}d\u{202e}e"), "a [31mb c d e");
        assert_eq!(line(&"\u{9b}\u{202e}é"), "\"\\u009b\\u202eé\"\n");
    }

    #[test]
    fn a_field_of_a_table_is_no_formula() {
        let rows = [["=cmd|' /C calc'!A0", "-1.5", "-x", "@a", "a\x1b,b"]];
        let csv = String::from_utf8(csv_rows(rows).unwrap()).unwrap();
        assert_eq!(csv, "'=cmd|' /C calc'!A0,-1.5,'-x,'@a,\"a ,b\"\n");
    }
}
