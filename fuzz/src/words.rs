//! Words of the command line: sizes, durations, shares, and the values of the axes.

use bytecost_spec::axis::AXES;
use bytecost_spec::{Cell, units};

use crate::edit::edited;
use crate::target::target;

const VALID: &[&str] = &[
    "64KiB",
    "1.5s",
    "3%",
    "0,2:1,3",
    "send-zerocopy",
    "auto",
    "256",
];

const WORDS: &[&str] = &[
    "",
    "0",
    "1",
    "9",
    ".",
    "-",
    "+",
    "%",
    " ",
    "e",
    "e308",
    "inf",
    "nan",
    "KiB",
    "kB",
    "GiB",
    "us",
    "µs",
    "ms",
    "s",
    "min",
    "h",
    ":",
    ",",
    "free",
    "on",
    "unix",
    "request-response",
    "recv",
    "\n",
    "\u{1b}[2J",
    "18446744073709551615",
    "99999999999999999999",
    "٣",
];

fn any_word(input: &[u8]) {
    check(&String::from_utf8_lossy(input));
}

fn spoilt(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let valid = VALID[usize::from(*first) % VALID.len()];
    let text = edited(valid.as_bytes(), WORDS, 3, rest);
    check(&String::from_utf8_lossy(&text));
}

fn check(text: &str) {
    sizes(text);
    durations(text);
    shares(text);
    axes(text);
}

fn sizes(text: &str) {
    if let Ok(n) = units::parse_bytes(text) {
        assert_eq!(units::parse_bytes(&units::bytes(n)), Ok(n));
        assert!(!units::bytes_in_words(n).is_empty());
    }
}

fn durations(text: &str) {
    if let Ok(d) = units::parse_duration(text) {
        let again = units::parse_duration(&units::duration(d)).unwrap();
        let lost = d.as_secs_f64() - again.as_secs_f64();
        let most = 1e-6 + d.as_secs_f64() * 1e-12; // whole microseconds, as a double
        assert!(lost.abs() <= most, "{text}: {d:?} became {again:?}");
    }
}

fn shares(text: &str) {
    if let Ok(share) = units::parse_share(text) {
        assert!(share > 0.0 && share < 1.0);
        assert!(units::percent(share).ends_with('%'));
    }
    if let Ok(x) = text.parse::<f64>() {
        assert!(!units::number(x).is_empty());
    }
}

fn axes(text: &str) {
    for row in AXES {
        let mut cell = Cell::default();
        match cell.set(row.axis, text) {
            Ok(()) => {
                let mut again = Cell::default();
                let written = cell.value(row.axis);
                assert_eq!(again.set_value(row.axis, &written), Ok(()), "{written}");
                assert_eq!(again, cell, "{} {text}", row.name);
                assert!(cell.ring_slots() >= 4 || cell.ring_slots() == 1);
            }
            Err(wrong) => {
                assert_eq!(cell, Cell::default(), "an error changes nothing");
                let said = wrong.to_string();
                assert!(said.contains(row.name), "{said}");
                assert!(!said.contains(char::is_control), "{said:?}");
            }
        }
    }
}

target!(any_word_is_a_value_or_an_error, 2_000, any_word);
target!(a_spoilt_word_is_a_value_or_an_error, 6_000, spoilt);
