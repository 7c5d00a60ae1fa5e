//! What a live session shows: a line a second, a summary of a session, and the same as JSON.

use bytecost_spec::axis::AXES;
use bytecost_spec::hand::{Begun, Latency, Second, Served, SessionEnd, Stretch, Summary};
use bytecost_spec::{Axis, Counter, Pattern, Placement, Side, units};
use itertools::Itertools as _;

use crate::numbers::{percent, whole};
use crate::style::{Ink, Style};
use crate::terminal::labelled;
use crate::text::{columns, count};

mod figures;
mod hints;
mod json;

use figures::{Figures, counter, part, system_share};
pub use json::{second_json, served_json, summary_json};

/// A column of the lines that come each second: its head, the width of its values where that is
/// more than the head's, whether a session has it, and its value.
type Column = (
    &'static str,
    usize,
    fn(&Begun) -> bool,
    fn(&Begun, &Second) -> Option<String>,
);

/// The stretch of the side that sends; of the other end where that is not this one.
fn sending<'a>(begun: &Begun, second: &'a Second) -> Option<&'a Stretch> {
    match begun.own {
        Side::Receiver => second.peer.as_ref(),
        _ => Some(&second.own),
    }
}

fn latency(begun: &Begun, second: &Second, of: fn(&Latency) -> f64) -> Option<String> {
    let latency = sending(begun, second)?.latency.as_ref()?;
    Some(units::number(of(latency)))
}

fn asks(begun: &Begun) -> bool {
    begun.cell.pattern == Pattern::Ask
}

fn sends(begun: &Begun) -> bool {
    begun.own != Side::Receiver
}

fn always(_: &Begun) -> bool {
    true
}

const COLUMNS: &[Column] = &[
    ("second", 6, always, |_, s| Some(s.number.to_string())),
    ("Gbit/s", 8, always, |_, s| {
        Some(units::number(Figures::of(&s.own).throughput_gbit_per_s))
    }),
    ("messages/s", 10, always, |_, s| {
        Some(whole(Figures::of(&s.own).messages_per_s as u64))
    }),
    ("bytes", 15, sends, |_, s| {
        Some(whole(Figures::of(&s.own).bytes))
    }),
    ("sender s/GB", 8, always, |b, s| {
        Figures::of(sending(b, s)?).cpu_s_per_gb.map(units::number)
    }),
    (
        "receiver s/GB",
        8,
        |b| !sends(b),
        |_, s| Figures::of(&s.own).cpu_s_per_gb.map(units::number),
    ),
    ("calls/msg", 8, always, |_, s| {
        Figures::of(&s.own).calls_per_message.map(units::number)
    }),
    (
        "copied",
        8,
        |b| b.completes,
        |b, s| Figures::of(sending(b, s)?).copied_share.map(percent),
    ),
    (
        "fairness",
        8,
        |b| b.cell.threads > 1,
        |_, s| Figures::of(&s.own).fairness.map(|f| format!("{f:.3}")),
    ),
    ("p50 µs", 8, asks, |b, s| latency(b, s, |l| l.us_p50)),
    ("p99 µs", 8, asks, |b, s| latency(b, s, |l| l.us_p99)),
    ("max µs", 8, asks, |b, s| latency(b, s, |l| l.us_max)),
];

fn aligned(begun: &Begun, text: impl Fn(&Column) -> String) -> String {
    let mut line = String::new();
    for column in COLUMNS.iter().filter(|(_, _, has, _)| has(begun)) {
        let (head, width, ..) = column;
        let text = text(column);
        let width = columns(head).max(*width);
        let blanks = (width + 2).saturating_sub(columns(&text)).max(1);
        line.extend(std::iter::repeat_n(' ', blanks));
        line.push_str(&text);
    }
    line
}

/// What a session is, and the heads of the lines that follow.
pub fn begun(begun: &Begun, style: Style) -> String {
    let with = match begun.own {
        Side::Receiver => "from",
        _ => "to",
    };
    let (session, peer, what) = (begun.session, units::one_line(&begun.peer), what(begun));
    let what = format!("session {session} {with} {peer}: {what}");
    let heads = aligned(begun, |(head, ..)| (*head).to_owned());
    format!("{what}\n{}\n", style.paint(Ink::Faint, &heads))
}

fn what(begun: &Begun) -> String {
    let cell = &begun.cell;
    let mut words = format!(
        "`{}` to `{}`, messages of {}, {}",
        cell.mover,
        cell.receiver,
        units::bytes_in_words(cell.size_bytes),
        count(cell.threads as usize, "flow", "flows")
    );
    words.push_str(match cell.pattern {
        Pattern::Stream => ", without pause",
        Pattern::Ask => ", each with a response",
    });
    if cell.placement != Placement::Free {
        words.push_str(&format!(", CPUs {}", cell.placement));
    }
    words
}

/// One line of one second.
pub fn second(begun: &Begun, second: &Second) -> String {
    let mut line = aligned(begun, |(_, _, _, value)| {
        value(begun, second).unwrap_or_else(|| "–".to_owned())
    });
    if second.own.flows_silent > 0 {
        line.push_str(&format!("  {} silent", second.own.flows_silent));
    }
    line.push('\n');
    line
}

/// What a session came to.
pub fn summary(summary: &Summary, style: Style) -> String {
    let begun = &summary.begun;
    let own = Figures::of(&summary.own.whole);
    let ended = match &summary.end {
        SessionEnd::Here => "ended here".to_owned(),
        SessionEnd::There => "ended by the other side".to_owned(),
        SessionEnd::Limit(why) => format!("ended by a limit: {}", units::one_line(why)),
        SessionEnd::Failed(why) => format!("failed: {}", units::one_line(why)),
    };
    let (session, seconds) = (begun.session, units::number(own.elapsed_s));
    let title = format!("session {session} {ended}, after {seconds} s");
    let ink = match summary.end {
        SessionEnd::Failed(_) => Ink::Bad,
        _ => Ink::Strong,
    };
    let (bytes, messages) = (whole(own.bytes), whole(own.messages));
    let moved = format!("{bytes} bytes in {messages} messages: {}", what(begun));
    let mut rows = vec![
        ("moved", moved),
        ("rate", rate(&own)),
        ("CPU per byte", cpu(summary)),
    ];
    rows.extend(calls(summary).map(|text| ("calls", text)));
    rows.extend(round_trips(summary).map(|text| ("latency", text)));
    rows.extend(copied(summary).map(|text| ("zero-copy", text)));
    rows.push(("checked", checked(summary)));
    rows.extend(hints::hints(summary).into_iter().map(|hint| ("note", hint)));
    let note = "a single live measurement, without confidence intervals; the same with intervals:";
    rows.push(("note", note.to_owned()));
    let (title, rows) = (style.paint(ink, &title), labelled(rows, 14, style));
    let command = with_intervals(begun);
    format!("{title}\n{rows}                {command}\n")
}

fn rate(own: &Figures) -> String {
    let gbit_per_s = units::number(own.throughput_gbit_per_s);
    let messages = whole(own.messages_per_s as u64);
    let mut text = format!("{gbit_per_s} Gbit/s on average, {messages} messages/s");
    if let (Some((slowest, fastest)), Some(fairness)) = (own.spread, own.fairness) {
        let [slowest, fastest] = [slowest, fastest].map(units::number);
        text += &format!("; slowest flow {slowest}, fastest {fastest}, fairness {fairness:.3}");
    }
    text
}

fn cpu(summary: &Summary) -> String {
    let of = |name: &str, side| {
        let Some(part) = part(summary, side) else {
            return format!("{name} not told");
        };
        let figures = Figures::of(&part.whole);
        let Some(cpu) = figures.cpu_s_per_gb.map(units::number) else {
            return format!("{name} moved nothing");
        };
        match system_share(&part.whole).map(percent) {
            Some(system) => format!("{name} {cpu} s/GB ({system} in the kernel)"),
            None => format!("{name} {cpu} s/GB"),
        }
    };
    [of("sender", Side::Sender), of("receiver", Side::Receiver)].join(", ")
}

fn calls(summary: &Summary) -> Option<String> {
    let of = |name: &str, side| {
        let calls = Figures::of(&part(summary, side)?.whole).calls_per_message?;
        Some(format!("{name} {} a message", units::number(calls)))
    };
    let told = [of("sender", Side::Sender), of("receiver", Side::Receiver)];
    told.into_iter().flatten().reduce(|a, b| a + ", " + &b)
}

fn round_trips(summary: &Summary) -> Option<String> {
    let of = part(summary, Side::Sender)?.whole.latency?;
    let count = whole(of.count);
    let [half, most, last] = [of.us_p50, of.us_p99, of.us_max].map(units::number);
    Some(format!(
        "half of {count} responses came within {half} µs, 99\u{a0}% within {most} µs, the last after {last} µs"
    ))
}

fn copied(summary: &Summary) -> Option<String> {
    if !summary.begun.completes {
        return None;
    }
    let Some(sender) = part(summary, Side::Sender) else {
        return Some("the sender has not told what was copied".to_owned());
    };
    let share = Figures::of(&sender.whole).copied_share.map(percent);
    let buffers = counter(&sender.whole, Counter::Completions).map(whole);
    Some(match (share, buffers) {
        (Some(share), Some(n)) => format!("the kernel copied {share} of {n} buffers after all"),
        _ => "no buffer came back".to_owned(),
    })
}

fn checked(summary: &Summary) -> String {
    let (Some(sender), Some(receiver)) =
        (part(summary, Side::Sender), part(summary, Side::Receiver))
    else {
        return "the other side has not told what it moved, so nothing was compared".to_owned();
    };
    let [sent, got] = [sender, receiver].map(|part| whole(Figures::of(&part.whole).bytes));
    let count = if sent == got {
        format!("all {sent} bytes that were sent arrived")
    } else if sender.cut || receiver.cut {
        format!("{sent} bytes were sent and {got} had arrived when the flows were cut off")
    } else {
        format!("{sent} bytes were sent, {got} arrived")
    };
    let content = match receiver.compared_bytes {
        0 => "their content was not compared".to_owned(),
        n => {
            let bytes = whole(n);
            format!("content compared in {bytes} bytes, spread over all of it")
        }
    };
    format!("{count}; {content}")
}

/// The command that measures the same; on a line of its own, so that it can be copied.
fn with_intervals(begun: &Begun) -> String {
    let mut options = AXES.iter().filter_map(|row| {
        let value = begun.cell.value(row.axis);
        let named = matches!(row.axis, Axis::Mover | Axis::Size) || value != row.default;
        named.then(|| format!("--{} {}", row.name, value))
    });
    format!("bytecost run {}", options.join(" "))
}

/// What a server came to, when it ends.
pub fn served(served: &Served) -> String {
    let sessions = count(served.sessions as usize, "session", "sessions");
    let [failed, bytes, away] = [served.failed, served.bytes, served.turned_away].map(whole);
    let failed = match served.failed {
        0 => String::new(),
        _ => format!(" ({failed} failed)"),
    };
    let away = match served.turned_away {
        0 => String::new(),
        _ => format!("; connections turned away: {away}"),
    };
    format!("served {sessions}{failed}, {bytes} bytes{away}\n")
}
