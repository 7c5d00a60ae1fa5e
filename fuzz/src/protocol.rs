//! Messages between coordinator and endpoint: any bytes.

use bytecost_lab::flow_key::FlowKey;
use bytecost_lab::live::greeting::{GREETING_BYTES, Greeting};
use bytecost_lab::peer::reread;
use bytecost_lab::protocol::{
    self, BackgroundTask, ConnectionSetup, ContentCheck, Done, FromEndpoint, HostAnswer,
    HostQuestion, HostReadings, MAX_FRAME_BYTES, ObserverStage, ObserverTask, OthersUse, Role,
    Schedule, Task, ToEndpoint, Traffic, WantedEvidence,
};
use bytecost_spec::reading::COUNTERS;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::survey::UnitCost;
use bytecost_spec::{Cell, LoadKind, PacketSocket, Reading, Readings, SideReadings};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::edit::edited;
use crate::target::target;

const WORDS: &[&str] = &[
    "",
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "1e400",
    "18446744073709551616",
    "\"\"",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\\ud800",
    "[[[[[[[[",
    "\"stop\"",
    "\"ready\"",
    "\"go\"",
    "\"task\"",
    "\0\0\0\0",
    "\u{1}\0\0\0",
];

fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    protocol::write(&mut bytes, message).unwrap();
    bytes
}

fn orders() -> Vec<Vec<u8>> {
    let schedule = Schedule {
        begin_ns: 1,
        window_from_ns: 2,
        window_to_ns: u64::MAX,
        steady_by_ns: Some(3),
    };
    let task = Task {
        role: Role::Sender,
        cell: Cell::default(),
        connection: ConnectionSetup::Connect("127.0.0.1:5201".into()),
        keys: vec![FlowKey::default()],
        check: ContentCheck::Quick,
        timeout_ms: 5000,
        min_messages: 3,
        here: Default::default(),
    };
    let background = BackgroundTask {
        noise: LoadKind::Chase,
        cpus: vec![0, 1],
        memory_bytes: 1 << 26,
        mem_node: Some(0),
        until_ns: u64::MAX,
    };
    [
        ToEndpoint::Stop,
        ToEndpoint::Go(schedule),
        ToEndpoint::Background(background),
        ToEndpoint::Prepare(Box::new(task)),
        ToEndpoint::Observe(ObserverTask { cpus: vec![0, 1] }),
        ToEndpoint::Trial(Box::default()),
        ToEndpoint::Ask(HostQuestion::OthersUse),
        ToEndpoint::Ask(HostQuestion::EvidenceRefusal(WantedEvidence::default())),
    ]
    .iter()
    .map(frame)
    .collect()
}

fn readings() -> Readings {
    let readings = COUNTERS.iter().enumerate().map(|(i, row)| {
        let reading = match i % 2 {
            0 => Reading::Measured(u64::MAX - i as u64),
            _ => Reading::absent("this machine has no such counter"),
        };
        (row.counter, reading)
    });
    readings.collect()
}

fn side() -> SideReadings {
    let flow = FlowReading {
        bytes: 1 << 40,
        messages: 1 << 24,
        elapsed_ns: 100_000_000,
    };
    SideReadings {
        readings: readings(),
        flows: vec![flow; 2],
        ..SideReadings::default()
    }
}

fn answers() -> Vec<Vec<u8>> {
    let done = Done {
        side: side(),
        total_bytes: vec![1 << 41; 2],
        compared_bytes: 4096,
        latency_ns_histogram: Some("HISTFAAAAA==".into()),
        footprint: None,
        strangers: 0,
        traffic: Traffic {
            connections: 1 << 17,
            requests: 1 << 40,
        },
    };
    let host = HostReadings {
        machine: readings(),
        packet_sockets: vec![PacketSocket {
            device: Some("eth0".to_owned()),
            holder: None,
        }],
        ..HostReadings::default()
    };
    let address = "127.0.0.1:40000".to_owned();
    let reason = "connection refused\n\"quoted\"".to_owned();
    [
        FromEndpoint::Ready,
        FromEndpoint::Busy(Vec::new()),
        FromEndpoint::Warm(true),
        FromEndpoint::Closed,
        FromEndpoint::Listening {
            address,
            process: Some(7),
        },
        FromEndpoint::Failed(reason.into()),
        FromEndpoint::Done(Box::new(done)),
        FromEndpoint::Observed {
            trial: 7,
            stage: ObserverStage::Over(Box::new(host)),
        },
        FromEndpoint::Answer(HostAnswer::OthersUse(OthersUse::default())),
        FromEndpoint::Answer(HostAnswer::UnitCosts(UnitCost::all_absent("nobody asked"))),
    ]
    .iter()
    .map(frame)
    .collect()
}

/// Messages between the two hosts of a run: to the agent, and from it.
fn channel() -> [Vec<Vec<u8>>; 2] {
    let carried = |frame: &[u8]| String::from_utf8(frame[4..].to_vec()).unwrap();
    let mut heard: Vec<String> = [
        r#"{"hello":{"version":1,"build":"0123abcd"}}"#,
        r#"{"listen":{"at":"192.0.2.1"}}"#,
        r#"{"reach":{"candidates":[]}}"#,
        r#"{"cards":{"at":"2001:db8::7"}}"#,
        r#"{"end":{"id":7}}"#,
        r#""beat""#,
        r#""bye""#,
    ]
    .map(str::to_owned)
    .into();
    let orders = orders().into_iter().map(|order| {
        let order = carried(&order);
        if order.starts_with(r#"{"prepare":"#) {
            format!(r#"{{"start":{{"id":7,"window_ns":20000000,"order":{order}}}}}"#)
        } else {
            format!(r#"{{"to":{{"id":7,"now_ns":1,"order":{order}}}}}"#)
        }
    });
    heard.extend(orders);
    let mut said: Vec<String> = [
        r#"{"hello":{"version":1,"build":"0123abcd"}}"#,
        r#"{"listening":[]}"#,
        r#"{"reached":{"candidate":0,"from":"192.0.2.1"}}"#,
        r#"{"found":{"to":"192.0.2.1","from":"192.0.2.2","round_trip_us":200,"path_mtu":1500}}"#,
        r#"{"cards":[]}"#,
        r#"{"refused":"no\nline"}"#,
        r#""beat""#,
    ]
    .map(str::to_owned)
    .into();
    let answers = answers().into_iter().map(|answer| {
        let answer = carried(&answer);
        format!(r#"{{"from":{{"id":7,"now_ns":1,"answer":{answer}}}}}"#)
    });
    said.extend(answers);
    let frame = |body: String| [&(body.len() as u32).to_le_bytes(), body.as_bytes()].concat();
    [heard, said].map(|words| words.into_iter().map(frame).collect())
}

/// As [`check`], of a word of the channel: what is written of it is read again, and written so.
fn check_channel(bytes: &[u8], by_agent: bool) -> bool {
    let mut read = None;
    let used = allocation_counter::measure(|| read = Some(reread(bytes, by_agent)));
    let most = 2 * MAX_FRAME_BYTES + 64 * bytes.len() + 4096;
    assert!(used.bytes_max <= most as u64, "{} bytes", used.bytes_max);
    let Some(Ok(written)) = read else {
        return false;
    };
    assert_eq!(reread(&written, by_agent).unwrap(), written);
    true
}

fn any_bytes(input: &[u8]) {
    check_all(input);
    for tail in [&[][..], &[0, 0, 0]] {
        // A short length in front, so that more than one input in 64 KiB gets to the JSON.
        let Some((len, rest)) = input.split_first() else {
            return;
        };
        let framed = [&[*len], tail, rest].concat();
        check_all(&framed);
    }
}

fn check_all(bytes: &[u8]) {
    check::<ToEndpoint>(bytes);
    check::<FromEndpoint>(bytes);
    check_greeting(bytes);
    for by_agent in [true, false] {
        check_channel(bytes, by_agent);
    }
}

fn spoilt(input: &[u8]) {
    spoil::<ToEndpoint>(&orders(), input);
    spoil::<FromEndpoint>(&answers(), input);
    for (words, by_agent) in channel().iter().zip([true, false]) {
        for valid in words {
            check_channel(&edited(valid, WORDS, 3, input), by_agent);
            check_channel(&with_its_length(valid, input), by_agent);
        }
    }
}

fn spoil<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    frames: &[Vec<u8>],
    input: &[u8],
) {
    for valid in frames {
        check::<T>(&edited(valid, WORDS, 3, input));
        check::<T>(&with_its_length(valid, input));
    }
}

/// A frame whose body is spoilt and whose length is right.
fn with_its_length(valid: &[u8], input: &[u8]) -> Vec<u8> {
    let body = edited(&valid[4..], WORDS, 3, input);
    [&(body.len() as u32).to_le_bytes(), &body[..]].concat()
}

/// Reading ends in a message that is written and read again as it was, or in an error; and it
/// takes no more memory than a frame may have, but for what the bytes that are there decode to.
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let mut read = None;
    let used = allocation_counter::measure(|| {
        read = Some(protocol::read::<T>(&mut &*bytes));
    });
    let most = MAX_FRAME_BYTES + 64 * bytes.len() + 4096;
    assert!(used.bytes_max <= most as u64, "{} bytes", used.bytes_max);
    if let Some(Ok(message)) = read {
        let again = protocol::read::<T>(&mut &*frame(&message)).unwrap();
        assert_eq!(again, message);
    }
}

/// The first bytes of a flow of a live session: a greeting is written as it was read.
fn check_greeting(bytes: &[u8]) {
    if let Some(bytes) = bytes.first_chunk::<GREETING_BYTES>()
        && let Ok(greeting) = Greeting::from_bytes(*bytes)
    {
        assert_eq!(greeting.to_bytes(), *bytes);
    }
}

// Invariant 8.
target!(any_bytes_are_a_message_or_an_error, 3_000, any_bytes);
target!(a_spoilt_message_is_a_message_or_an_error, 1_000, spoilt);

#[test]
fn messages_are_valid_before_they_are_spoilt() {
    for frame in orders() {
        protocol::read::<ToEndpoint>(&mut &*frame).unwrap();
    }
    for frame in answers() {
        protocol::read::<FromEndpoint>(&mut &*frame).unwrap();
    }
    for (words, by_agent) in channel().iter().zip([true, false]) {
        for frame in words {
            assert!(check_channel(frame, by_agent), "{frame:?}");
        }
    }
}

#[test]
fn a_length_without_its_bytes_takes_no_more_memory_than_a_frame() {
    for len in [
        0,
        1,
        4096,
        MAX_FRAME_BYTES as u32,
        MAX_FRAME_BYTES as u32 + 1,
        u32::MAX,
    ] {
        check::<ToEndpoint>(&len.to_le_bytes());
        check::<FromEndpoint>(&len.to_le_bytes());
    }
}
