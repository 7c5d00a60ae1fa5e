//! Lines and totals of `bytecost live send` and `bytecost live receive`.

use crate::fixture;

use bytecost_report::{Style, live};
use bytecost_spec::live::{Activity, Latency, Served, Session, SessionEnd, Totals};
use bytecost_spec::{Axis, Counter, Reading, Side};
use serde_json::Value;

const STYLE: Style = Style::plain(100);

fn session(side: Side, values: &[(Axis, &str)]) -> Session {
    let cell = fixture::cell(values);
    Session {
        number: 3,
        side,
        peer: "127.0.0.1:7420".to_owned(),
        counts_messages: side != Side::Receiver,
        completes: cell.mover == "send-zerocopy",
        cell,
    }
}

/// So many messages of 4 KiB on each flow within a second.
fn activity(messages: &[u64], counters: &[(Counter, u64)]) -> Activity {
    let mut activity = Activity::default();
    let sum: u64 = messages.iter().sum();
    let flow = |&sent: &u64| fixture::flow(sent * 4096, sent, 1_000_000_000);
    activity.side.flows = messages.iter().map(flow).collect();
    let own = [(Counter::Bytes, sum * 4096), (Counter::Messages, sum)];
    let all = own.iter().chain(counters);
    activity.side.readings = all.map(|(c, n)| (*c, Reading::Measured(*n))).collect();
    activity
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

/// A sender that asked, copied, and stood still.
fn asked(end: SessionEnd) -> Totals {
    let axes = [
        (Axis::Mover, "send-zerocopy"),
        (Axis::Size, "4KiB"),
        (Axis::Threads, "2"),
        (Axis::Pattern, "request-response"),
        (Axis::Placement, "0:1"),
        (Axis::Nodelay, "off"),
    ];
    Totals {
        session: session(Side::Sender, &axes),
        end,
        activity: Activity {
            latency: Some(LATENCY),
            ..activity(&[300, 100], SENDER)
        },
        congestion: "bbr".to_owned(),
        is_cut: false,
    }
}

/// A receiver that does not know what a message is.
fn received(end: SessionEnd) -> Totals {
    Totals {
        session: session(Side::Receiver, &[(Axis::Receiver, "recvmsg")]),
        end,
        activity: activity(&[400], RECEIVER),
        congestion: "cubic".to_owned(),
        is_cut: true,
    }
}

#[test]
fn a_limit_is_named() {
    let totals = asked(SessionEnd::Limit("the time is over\u{1b}[2J".to_owned()));
    let text = live::totals(&totals, STYLE);
    let ended = "ended by a limit: the time is over\\u{1b}[2J,";
    assert!(text.contains(ended), "{text}");
    let json: Value = serde_json::from_str(&live::totals_json(&totals)).unwrap();
    assert_eq!(json["ended"], "limit");
    assert_eq!(json["reason"], "the time is over\u{1b}[2J");
}

#[test]
fn a_sender_in_words() {
    let totals = asked(SessionEnd::Here);
    let mut silent = activity(&[300, 0], SENDER);
    silent.flows_silent = 1;
    let text = [
        live::began(&totals.session, STYLE),
        live::second(&totals.session, 1, &totals.activity),
        live::second(&totals.session, 12, &silent),
        live::totals(&totals, STYLE),
    ];
    insta::assert_snapshot!(text.concat());
}

#[test]
fn a_receiver_that_was_cut_off_in_words() {
    let totals = received(SessionEnd::Failed("a reset\n\u{1b}[2J".to_owned()));
    let served = Served {
        sessions: 12,
        failed: 1,
        bytes: 1_234_567,
        turned_away: 2_000,
    };
    let text = [
        live::began(&totals.session, STYLE),
        live::second(&totals.session, 7, &totals.activity),
        live::totals(&totals, STYLE),
        live::served(&served),
    ]
    .concat();
    assert!(!text.contains('\u{1b}'));
    insta::assert_snapshot!(text);
}

#[test]
fn the_same_for_programs() {
    let totals = asked(SessionEnd::There);
    let received = received(SessionEnd::There);
    let lines = [
        live::second_json(&totals.session, 7, &totals.activity),
        live::totals_json(&totals),
        live::second_json(&received.session, 7, &received.activity),
        live::served_json(&Served::default()),
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
    let totals = Totals {
        activity: activity(&[0], &[(Counter::CpuNs, 5), (Counter::Calls, 0)]),
        ..received(SessionEnd::There)
    };
    let text = live::totals(&totals, STYLE);
    assert!(text.contains("nothing was moved"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let value: Value = serde_json::from_str(&live::totals_json(&totals)).unwrap();
    assert!(value["cpu_s_per_gb"].is_null());
    assert!(value["messages"].is_null());
}
