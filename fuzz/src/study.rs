//! The study file: any text.

use bytecost_spec::survey::{MoverFacts, ReceiverFacts, ServerFacts, ServerSurvey, ServiceFacts};
use bytecost_spec::{Study, Survey};

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

/// Tables of some names.
fn known() -> Survey {
    let mover = |(name, uses_fields)| MoverFacts {
        name,
        uses_fields,
        ..MoverFacts::default()
    };
    let service = |(name, sizes)| ServiceFacts {
        name,
        sizes,
        ..ServiceFacts::default()
    };
    let movers = [("send", false), ("send-fields", true), ("null", false)].map(mover);
    let services = [("top", None), ("echo", Some((1, 65_536)))].map(service);
    let server = |name: &str| ServerFacts {
        name: name.to_owned(),
        ..ServerFacts::default()
    };
    let receiver = ReceiverFacts {
        name: "recv".to_owned(),
        ..ReceiverFacts::default()
    };
    Survey {
        mover_facts: movers.iter().map(MoverFacts::owned).collect(),
        receiver_facts: vec![receiver],
        serving: Some(ServerSurvey {
            servers: ["single", "epoll"].map(server).into(),
            services: services.iter().map(ServiceFacts::owned).collect(),
            ..ServerSurvey::default()
        }),
        ..Survey::default()
    }
}

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
            if let Err(wrong) = study.check(&known()) {
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
