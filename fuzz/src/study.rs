//! The study file: any text.

use bytecost_spec::Study;
use bytecost_spec::study::Known;

use crate::edit::edited;
use crate::target::target;

const VALID: &str = include_str!("../../studies/send-copies.toml");

/// Keys, values and punctuation that a study is made of, and some that it is not.
const WORDS: &[&str] = &[
    "",
    "\n",
    "=",
    "[",
    "]",
    "[[",
    "\"",
    "'",
    "\"\"\"",
    "#",
    ",",
    "\\",
    "\\n",
    "\\u001b",
    "\t",
    "é",
    "0",
    "-1",
    "1e9",
    "nan",
    "true",
    "99999999999999999999",
    "64MiB",
    "65MiB",
    "1KiB",
    "0%",
    "100%",
    "1us",
    "24h",
    "[axes]",
    "[[tier]]",
    "[tier.axes]",
    "[[compare]]",
    "[[figure]]",
    "mover",
    "size",
    "threads",
    "placement = \"0:1\"",
    "socket-buffer = [\"auto\"]",
    "fields = []",
    "nodelay = true",
    "foreign-cpus = 0.1",
    "repeats-most = 3",
    "name = \"a\"",
    "send",
    "null",
    "carrier-pigeon",
    "cpu_s_per_gb",
    "metrics",
    "1979-05-27",
    "{ a = 1 }",
];

const KNOWN: Known<'_> = Known {
    movers: &[("send", false), ("send-fields", true), ("null", false)],
    receivers: &["recv"],
    servers: &["single", "epoll"],
    services: &[("top", None), ("echo", Some((1, 65_536)))],
};

fn any_text(input: &[u8]) {
    check(&String::from_utf8_lossy(input));
}

fn spoilt(input: &[u8]) {
    let text = edited(VALID.as_bytes(), WORDS, 4, input);
    check(&String::from_utf8_lossy(&text));
}

fn check(text: &str) {
    match Study::parse(text) {
        Ok(study) => {
            let json = serde_json::to_string(&study).unwrap();
            assert_eq!(serde_json::from_str::<Study>(&json).unwrap(), study);
            if let Err(wrong) = study.check(KNOWN) {
                assert!(!wrong.to_string().is_empty());
            }
        }
        Err(error) => {
            let line = text.split('\n').nth(error.line.wrapping_sub(1));
            let columns = line.expect("a line of the text").chars().count() + 1;
            assert!((1..=columns).contains(&error.column), "{error}");
            assert!(!error.message.is_empty());
            assert!(!error.message.contains(char::is_control), "{error:?}");
        }
    }
}

target!(
    any_text_is_a_study_or_an_error_with_its_place,
    500,
    any_text
);
target!(
    a_spoilt_study_is_a_study_or_an_error_with_its_place,
    500,
    spoilt
);

#[test]
fn the_study_is_valid_before_it_is_spoilt() {
    assert!(Study::parse(VALID).is_ok());
}
