//! What `bytecost live send` and `bytecost live receive` print.

use crate::fixture;

use bytecost_report::{Style, hand};
use bytecost_spec::hand::{
    Begun, Latency, Second, Served, SessionEnd, SessionPart, Stretch, Summary,
};
use bytecost_spec::{Axis, Counter, Reading, Side};
use serde_json::Value;

const STYLE: Style = Style::plain(100);

fn begun(own: Side, values: &[(Axis, &str)]) -> Begun {
    let cell = fixture::cell(values);
    Begun {
        session: 3,
        own,
        peer: "127.0.0.1:7420".to_owned(),
        completes: cell.mover == "send-zerocopy",
        cell,
    }
}

/// So many messages of 4 KiB on each flow within a second.
fn stretch(messages: &[u64], counters: &[(Counter, u64)]) -> Stretch {
    let mut stretch = Stretch::default();
    let sum: u64 = messages.iter().sum();
    let flow = |&messages: &u64| fixture::flow(messages * 4096, messages, 1_000_000_000);
    stretch.side.flows = messages.iter().map(flow).collect();
    let own = [(Counter::Bytes, sum * 4096), (Counter::Messages, sum)];
    let all = own.iter().chain(counters);
    stretch.side.readings = all.map(|(c, n)| (*c, Reading::Measured(*n))).collect();
    stretch
}

const SENDER: &[(Counter, u64)] = &[
    (Counter::Calls, 900),
    (Counter::CpuNs, 2_000_000),
    (Counter::UserNs, 500_000),
    (Counter::SystemNs, 1_500_000),
    (Counter::Completions, 400),
    (Counter::CompletionsCopied, 399),
    (Counter::TcpRttUs, 40_125),
    (Counter::TcpMinRttUs, 12),
];
const RECEIVER: &[(Counter, u64)] = &[
    (Counter::Calls, 400),
    (Counter::CpuNs, 1_000_000),
    (Counter::UserNs, 0),
    (Counter::SystemNs, 1_000_000),
];
const LATENCY: Latency = Latency {
    count: 400,
    us_p50: 12.34,
    us_p99: 41_000.0,
    us_max: 41_250.5,
};

fn second(own: Stretch, peer: Option<Stretch>) -> Second {
    Second {
        number: 7,
        own,
        peer,
    }
}

/// A session of a receiver whose sender asked, copied, and stood still.
fn asked(end: SessionEnd) -> Summary {
    let axes = [
        (Axis::Mover, "send-zerocopy"),
        (Axis::Size, "4KiB"),
        (Axis::Threads, "2"),
        (Axis::Pattern, "request-response"),
        (Axis::Placement, "0:1"),
        (Axis::Nodelay, "off"),
    ];
    let part = |whole, congestion: &str| SessionPart {
        whole,
        congestion: congestion.to_owned(),
        ..SessionPart::default()
    };
    Summary {
        begun: begun(Side::Receiver, &axes),
        end,
        own: SessionPart {
            compared_bytes: 3200,
            ..part(stretch(&[300, 100], RECEIVER), "cubic")
        },
        peer: Some(part(sent(), "bbr")),
    }
}

/// What its sender did.
fn sent() -> Stretch {
    Stretch {
        latency: Some(LATENCY),
        ..stretch(&[300, 100], SENDER)
    }
}

#[test]
fn a_limit_is_named() {
    let summary = asked(SessionEnd::Limit("the time is over\u{1b}[2J".to_owned()));
    let text = hand::summary(&summary, STYLE);
    let ended = "ended by a limit: the time is over\\u{1b}[2J,";
    assert!(text.contains(ended), "{text}");
    let json: Value = serde_json::from_str(&hand::summary_json(&summary)).unwrap();
    assert_eq!(
        (&json["ended"], &json["failed"]),
        (&"limit".into(), &Value::Null)
    );
    assert_eq!(json["limit"], "the time is over\u{1b}[2J");
}

#[test]
fn a_session_in_words() {
    let summary = asked(SessionEnd::Here);
    let both = second(stretch(&[300, 100], RECEIVER), Some(sent()));
    let mut silent = second(stretch(&[300, 0], RECEIVER), None);
    silent.own.flows_silent = 1;
    let text = [
        hand::begun(&summary.begun, STYLE),
        hand::second(&summary.begun, &both),
        hand::second(&summary.begun, &silent),
        hand::summary(&summary, STYLE),
    ];
    insta::assert_snapshot!(text.concat());
}

#[test]
fn a_stream_that_was_cut_off_in_words() {
    let begun = begun(Side::Sender, &[(Axis::Mover, "sendmsg")]);
    let summary = Summary {
        end: SessionEnd::Failed("the client went away\n\u{1b}[2J".to_owned()),
        own: SessionPart {
            whole: stretch(&[400], SENDER),
            cut: true,
            ..SessionPart::default()
        },
        peer: None,
        begun,
    };
    let served = Served {
        sessions: 12,
        failed: 1,
        bytes: 1_234_567,
        turned_away: 2_000,
    };
    let text = [
        hand::begun(&summary.begun, STYLE),
        hand::second(&summary.begun, &second(stretch(&[400], SENDER), None)),
        hand::summary(&summary, STYLE),
        hand::served(&served),
    ]
    .concat();
    assert!(!text.contains('\u{1b}'));
    insta::assert_snapshot!(text);
}

#[test]
fn the_same_for_programs() {
    let summary = asked(SessionEnd::There);
    let second = second(stretch(&[300, 100], RECEIVER), None);
    let lines = [
        hand::second_json(&summary.begun, &second),
        hand::summary_json(&summary),
        hand::served_json(&Served::default()),
    ];
    let mut text = String::new();
    for line in lines {
        assert_eq!(line.lines().count(), 1);
        let value: Value = serde_json::from_str(&line).unwrap();
        text.push_str(&serde_json::to_string_pretty(&value).unwrap());
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}

#[test]
fn nothing_moved_is_no_number() {
    let summary = Summary {
        begun: begun(Side::Receiver, &[]),
        end: SessionEnd::There,
        own: SessionPart {
            whole: stretch(&[0], &[(Counter::CpuNs, 5), (Counter::Calls, 0)]),
            ..SessionPart::default()
        },
        peer: None,
    };
    let text = hand::summary(&summary, STYLE);
    assert!(text.contains("receiver moved nothing"), "{text}");
    assert!(text.contains("sender not told"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let json = hand::summary_json(&summary);
    let value: Value = serde_json::from_str(&json).unwrap();
    assert!(value["own"]["cpu_s_per_gb"].is_null());
    assert!(value["peer"].is_null());
}
