//! Sizes, durations, shares and numbers: their parsers, and their printers for files and readers.

use std::time::Duration;

/// Parses a size in bytes: `256`, `64KiB`, `1MiB`, `2GiB`, and the decimal `64kB`, `1MB`, `1GB`. The
/// error describes the expected text; it must be a whole number of bytes in 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let expected = || {
        format!("`{text}` is not a size: write a whole number of bytes, such as 256, 64KiB or 1MiB")
    };
    let (digits, unit) = cut(text, |c| c.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(expected()),
    };
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("`{text}` is larger than 64 bits of bytes"))
}

/// The number and the unit of a text; the number ends before the first character that is not of it.
fn cut(text: &str, is_of_number: fn(char) -> bool) -> (&str, &str) {
    let text = text.trim();
    let rest = text.trim_start_matches(is_of_number);
    let (number, unit) = text.split_at(text.len() - rest.len());
    (number, unit.trim())
}

/// Writes a size so that [`parse_bytes`] reads the same number: `65536` becomes `64KiB`.
pub fn bytes(n: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if n >= 1 << shift && n.is_multiple_of(1 << shift) {
            return format!("{}{unit}", n >> shift);
        }
    }
    n.to_string()
}

/// Writes a size for a reader, with a space: `64 KiB`, `256 B`.
pub fn bytes_in_words(n: u64) -> String {
    let short = bytes(n);
    match short.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => format!("{} {}", &short[..at], &short[at..]),
        None => format!("{short} B"),
    }
}

/// Writes any number of bytes for a reader, with three significant digits: `64 KiB`, `1.46 GiB`.
pub fn short_bytes(n: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| n >= 1 << shift);
    match unit {
        Some((shift, unit)) => format!(
            "{} {unit}",
            short_number(n as f64 / (1_u64 << shift) as f64)
        ),
        None => format!("{n} B"),
    }
}

/// Parses a duration: `250ms`, `60s`, `2m`, `1h`, `500us`, or seconds. The error describes the
/// expected text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || {
        format!("`{text}` is not a duration: write a number with a unit, such as 60s, 250ms or 2m")
    };
    let (digits, unit) = cut(text, |c| c.is_ascii_digit() || c == '.');
    let number: f64 = digits.parse().map_err(|_| expected())?;
    let seconds = match unit {
        "us" | "µs" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(expected()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| expected())
}

/// Writes a duration so that [`parse_duration`] reads the same: `60s`, `250ms`, `1500us`.
pub fn duration(d: Duration) -> String {
    let micros = d.as_micros();
    if micros.is_multiple_of(1_000_000) {
        format!("{}s", micros / 1_000_000)
    } else if micros.is_multiple_of(1_000) {
        format!("{}ms", micros / 1_000)
    } else {
        format!("{micros}us")
    }
}

/// Parses a share above 0 and below 1: `3%` or `0.03` both give `0.03`. The error describes the
/// expected text.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let expected = || {
        format!("`{text}` is not a share: write a percentage such as 3%, above 0% and below 100%")
    };
    let (number, divisor) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (text.trim(), 1.0),
    };
    (number.parse::<f64>().ok())
        .map(|number| number / divisor)
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(expected)
}

/// The largest percentage that is printed; larger ones are all the same to a reader.
const MOST_PERCENT: f64 = 999.0;

/// Writes a share as a percentage: `0.03` becomes `3 %`, `7000.0` becomes `>999 %`.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p.is_nan() || p > MOST_PERCENT {
        return format!(">{MOST_PERCENT} %");
    }
    if (p - p.round()).abs() < 0.05 {
        format!("{p:.0} %")
    } else {
        format!("{p:.1} %")
    }
}

/// A number with its noun: `1 trial`, `2 trials`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Returns true for a name of a study, a claim or a table's row: 1 to 64 letters, digits, `-` and `_`.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&text.len()) && text.chars().all(fits)
}

/// The message for an unknown name, with the most similar name or else all names: ``mover `x` is not
/// known: choose from send, writev``, ``mover `sned` is not known: did you mean `send`?``.
pub fn unknown<'a>(noun: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = names.collect();
    let remedy = match known.iter().find(|word| is_near(word, name)) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("choose from {}", known.join(", ")),
    };
    format!("{noun} `{name}` is not known: {remedy}")
}

/// Returns true if the typed word differs from a word by a typing error or two.
pub fn is_near(word: &str, typed: &str) -> bool {
    // In a short word two letters are most of it.
    let most = if typed.len() < 5 { 1 } else { 2 };
    strsim::damerau_levenshtein(word, typed) <= most
}

/// Writes a number with three significant digits: `1.80`, `62.5`, `12,300`.
pub fn number(x: f64) -> String {
    if !x.is_finite() {
        return "–".to_owned();
    }
    if x == 0.0 {
        return "0".to_owned();
    }
    let magnitude = x.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 9) as usize;
    let plain = format!("{x:.decimals$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", whole),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", in_thousands(digits))
}

/// Writes a number with three significant digits and without trailing zeros: `1.8`, `62.5`, `1`.
pub fn short_number(x: f64) -> String {
    let number = number(x);
    if !number.contains('.') {
        return number;
    }
    number
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// Writes a whole number with thousands separators: `12,300`.
pub fn whole(n: u64) -> String {
    in_thousands(&n.to_string())
}

fn in_thousands(digits: &str) -> String {
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Writes each byte as two hexadecimal digits: `[0x0a, 0xff]` becomes `0aff`.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true for a character that a terminal or a page interprets instead of displaying it: control
/// characters, ends of lines and paragraphs, and marks of direction (Unicode Standard Annex 9).
pub fn is_obeyed(c: char) -> bool {
    let is_direction = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Escapes characters of a text of unknown origin that a terminal would interpret, so that a message
/// stays one line: a line feed becomes `\n`, an escape character `\u{1b}`.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_parsed_as_it_is_printed() {
        for (text, n) in [
            ("256", 256),
            ("64KiB", 65_536),
            ("1MiB", 1 << 20),
            ("64kB", 64_000),
            ("2GiB", 2 << 30),
            ("1 k", 1024),
        ] {
            assert_eq!(parse_bytes(text), Ok(n), "{text}");
            assert_eq!(parse_bytes(&bytes(n)), Ok(n));
        }
        for bad in ["", "-1", "1.5KiB", "KiB", "99999999999GiB", "1 parsec"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(bytes_in_words(65_536), "64 KiB");
        assert_eq!(bytes_in_words(257), "257 B");
    }

    #[test]
    fn a_duration_is_parsed_as_it_is_printed() {
        for (text, ms) in [
            ("60s", 60_000),
            ("250ms", 250),
            ("2m", 120_000),
            ("1.5s", 1_500),
            ("3", 3_000),
        ] {
            let expected = Duration::from_millis(ms);
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
            assert_eq!(parse_duration(&duration(expected)), Ok(expected));
        }
        for bad in ["", "-1s", "s", "1 fortnight", "1..2s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(parse_share("3%"), Ok(0.03));
        assert_eq!(parse_share("0.05"), Ok(0.05));
        for bad in ["0", "100%", "-3%", "NaN", "lots", "3"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
        assert_eq!(percent(0.03), "3 %");
        assert_eq!(percent(0.975), "97.5 %");
    }

    #[test]
    fn short_numbers_end_in_no_zero_behind_the_point() {
        let written = [1.0, 0.1, 62.5, 100.0, 12_300.0, 0.0].map(short_number);
        assert_eq!(written, ["1", "0.1", "62.5", "100", "12,300", "0"]);
    }

    #[test]
    fn numbers_keep_three_digits() {
        for (x, text) in [
            (1.8, "1.80"),
            (62.46, "62.5"),
            (12_345.0, "12,345"),
            (0.00123, "0.00123"),
            (-1234.5, "-1,234"),
            (0.0, "0"),
            (999.9, "1,000"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(number(x), text);
        }
    }

    #[test]
    fn a_message_stays_one_line() {
        for (text, line) in [
            ("64KiB", "64KiB"),
            ("a\nb", "a\\nb"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\u{202e}b\u{2028}", "a\\u{202e}b\\u{2028}"),
            ("µ – \"q\"", "µ – \"q\""),
        ] {
            assert_eq!(one_line(text), line);
        }
    }
}
