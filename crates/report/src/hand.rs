//! What a live session shows: a line a second, a summary of a session, and the same as JSON.

use bytecost_spec::axis::AXES;
use bytecost_spec::hand::{Begun, Latency, Second, Served, SessionEnd, Stretch, Summary};
use bytecost_spec::{Axis, Counter, Pattern, Placement, Side, units};

use crate::numbers::{percent, whole};
use crate::style::{Ink, Style};
use crate::text::{columns, wrap};

mod figures;
mod hints;
mod json;

use figures::{Figures, part};
pub use json::{second_json, served_json, summary_json};

/// A column of the lines that come each second.
struct Column {
    head: &'static str,
    /// The width of its values, where that is more than the head's.
    width: usize,
    /// Whether a session has it.
    has: fn(&Begun) -> bool,
    value: fn(&Begun, &Second) -> Option<String>,
}

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

/// The columns, in their order.
const COLUMNS: &[Column] = &[
    Column {
        head: "second",
        width: 6,
        has: |_| true,
        value: |_, s| Some(s.number.to_string()),
    },
    Column {
        head: "Gbit/s",
        width: 8,
        has: |_| true,
        value: |_, s| Some(units::number(Figures::of(&s.own).gbit_per_s())),
    },
    Column {
        head: "messages/s",
        width: 10,
        has: |_| true,
        value: |_, s| Some(whole(Figures::of(&s.own).messages_per_s() as u64)),
    },
    Column {
        head: "bytes",
        width: 15,
        has: sends,
        value: |_, s| Some(whole(Figures::of(&s.own).bytes())),
    },
    Column {
        head: "sender s/GB",
        width: 8,
        has: |_| true,
        value: |b, s| {
            Figures::of(sending(b, s)?)
                .cpu_s_per_gb()
                .map(units::number)
        },
    },
    Column {
        head: "receiver s/GB",
        width: 8,
        has: |b| !sends(b),
        value: |_, s| Figures::of(&s.own).cpu_s_per_gb().map(units::number),
    },
    Column {
        head: "calls/msg",
        width: 8,
        has: |_| true,
        value: |_, s| Figures::of(&s.own).calls_per_message().map(units::number),
    },
    Column {
        head: "copied",
        width: 8,
        has: |b| b.completes,
        value: |b, s| Figures::of(sending(b, s)?).copied_share().map(percent),
    },
    Column {
        head: "fairness",
        width: 8,
        has: |b| b.cell.threads > 1,
        value: |_, s| Figures::of(&s.own).fairness().map(|f| format!("{f:.3}")),
    },
    Column {
        head: "p50 µs",
        width: 8,
        has: asks,
        value: |b, s| latency(b, s, |l| l.us_p50),
    },
    Column {
        head: "p99 µs",
        width: 8,
        has: asks,
        value: |b, s| latency(b, s, |l| l.us_p99),
    },
    Column {
        head: "max µs",
        width: 8,
        has: asks,
        value: |b, s| latency(b, s, |l| l.us_max),
    },
];

fn aligned<'a>(values: impl Iterator<Item = (&'a Column, String)>) -> String {
    let mut line = String::new();
    for (column, value) in values {
        let width = columns(column.head).max(column.width);
        let blanks = (width + 2).saturating_sub(columns(&value)).max(1);
        line.extend(std::iter::repeat_n(' ', blanks));
        line.push_str(&value);
    }
    line
}

/// What a session is, and the heads of the lines that follow.
#[must_use]
pub fn begun(begun: &Begun, style: Style) -> String {
    let with = match begun.own {
        Side::Receiver => "from",
        _ => "to",
    };
    let what = format!(
        "session {} {with} {}: {}",
        begun.session,
        units::one_line(&begun.peer),
        what(begun)
    );
    let heads = COLUMNS.iter().filter(|c| (c.has)(begun));
    let heads = aligned(heads.map(|c| (c, c.head.to_owned())));
    format!("{what}\n{}\n", style.paint(Ink::Faint, &heads))
}

/// What is moved, and how, in words.
fn what(begun: &Begun) -> String {
    let cell = &begun.cell;
    let mut words = format!(
        "`{}` to `{}`, messages of {}, {}",
        cell.mover,
        cell.receiver,
        units::bytes_in_words(cell.size_bytes),
        match cell.threads {
            1 => "1 flow".to_owned(),
            n => format!("{n} flows"),
        }
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
#[must_use]
pub fn second(begun: &Begun, second: &Second) -> String {
    let values = COLUMNS.iter().filter(|c| (c.has)(begun));
    let mut line = aligned(values.map(|c| {
        let value = (c.value)(begun, second);
        (c, value.unwrap_or_else(|| "–".to_owned()))
    }));
    if second.own.flows_silent > 0 {
        line.push_str(&format!("  {} silent", second.own.flows_silent));
    }
    line.push('\n');
    line
}

/// What a session came to.
#[must_use]
pub fn summary(summary: &Summary, style: Style) -> String {
    let begun = &summary.begun;
    let own = Figures::of(&summary.own.whole);
    let ended = match &summary.end {
        SessionEnd::Here => "ended here".to_owned(),
        SessionEnd::There => "ended by the other side".to_owned(),
        SessionEnd::Limit(why) => format!("ended by a limit: {}", units::one_line(why)),
        SessionEnd::Failed(why) => format!("failed: {}", units::one_line(why)),
    };
    let title = format!(
        "session {} {ended}, after {} s",
        begun.session,
        units::number(own.elapsed_s())
    );
    let ink = match summary.end {
        SessionEnd::Failed(_) => Ink::Bad,
        _ => Ink::Strong,
    };
    let mut out = format!("{}\n", style.paint(ink, &title));
    let mut row = |label: &str, text: &str| {
        let first = format!("  {label:<14}");
        for line in wrap(text, style.columns(), &first, "                ") {
            out.push_str(&line);
            out.push('\n');
        }
    };
    row("moved", &moved(summary));
    row("rate", &rate(&own));
    row("CPU per byte", &cpu(summary));
    if let Some(text) = calls(summary) {
        row("calls", &text);
    }
    if let Some(text) = round_trips(summary) {
        row("latency", &text);
    }
    if let Some(text) = copied(summary) {
        row("zero-copy", &text);
    }
    row("checked", &checked(summary));
    for hint in hints::hints(summary) {
        row("note", &hint);
    }
    row(
        "note",
        "a single live measurement, without confidence intervals; the same with intervals:",
    );
    out.push_str(&format!("                {}\n", with_intervals(begun)));
    out
}

fn moved(summary: &Summary) -> String {
    let own = Figures::of(&summary.own.whole);
    format!(
        "{} bytes in {} messages: {}",
        whole(own.bytes()),
        whole(own.messages()),
        what(&summary.begun)
    )
}

fn rate(own: &Figures<'_>) -> String {
    let mut text = format!(
        "{} Gbit/s on average, {} messages/s",
        units::number(own.gbit_per_s()),
        whole(own.messages_per_s() as u64)
    );
    if let (Some((slowest, fastest)), Some(fairness)) = (own.spread_gbit_per_s(), own.fairness()) {
        text.push_str(&format!(
            "; slowest flow {}, fastest {}, fairness {fairness:.3}",
            units::number(slowest),
            units::number(fastest)
        ));
    }
    text
}

fn cpu(summary: &Summary) -> String {
    let of = |name: &str, side| {
        let Some(part) = part(summary, side) else {
            return format!("{name} not told");
        };
        let figures = Figures::of(&part.whole);
        match (figures.cpu_s_per_gb(), figures.system_share()) {
            (Some(cpu), Some(system)) => format!(
                "{name} {} s/GB ({} in the kernel)",
                units::number(cpu),
                percent(system)
            ),
            (Some(cpu), None) => format!("{name} {} s/GB", units::number(cpu)),
            _ => format!("{name} moved nothing"),
        }
    };
    format!(
        "{}, {}",
        of("sender", Side::Sender),
        of("receiver", Side::Receiver)
    )
}

fn calls(summary: &Summary) -> Option<String> {
    let of = |name: &str, side| {
        let calls = Figures::of(&part(summary, side)?.whole).calls_per_message()?;
        Some(format!("{name} {} a message", units::number(calls)))
    };
    let told: Vec<String> = [of("sender", Side::Sender), of("receiver", Side::Receiver)]
        .into_iter()
        .flatten()
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn round_trips(summary: &Summary) -> Option<String> {
    let latency = part(summary, Side::Sender)?.whole.latency?;
    Some(format!(
        "half of {} responses came within {} µs, 99\u{a0}% within {} µs, the last after {} µs",
        whole(latency.count),
        units::number(latency.us_p50),
        units::number(latency.us_p99),
        units::number(latency.us_max)
    ))
}

fn copied(summary: &Summary) -> Option<String> {
    if !summary.begun.completes {
        return None;
    }
    let Some(sender) = part(summary, Side::Sender) else {
        return Some("the sender has not told what was copied".to_owned());
    };
    let figures = Figures::of(&sender.whole);
    Some(
        match (
            figures.copied_share(),
            figures.counter(Counter::Completions),
        ) {
            (Some(share), Some(n)) => format!(
                "the kernel copied {} of {} buffers after all",
                percent(share),
                whole(n)
            ),
            _ => "no buffer came back".to_owned(),
        },
    )
}

fn checked(summary: &Summary) -> String {
    let (Some(sender), Some(receiver)) =
        (part(summary, Side::Sender), part(summary, Side::Receiver))
    else {
        return "the other side has not told what it moved, so nothing was compared".to_owned();
    };
    let (sent, got) = (
        Figures::of(&sender.whole).bytes(),
        Figures::of(&receiver.whole).bytes(),
    );
    let count = if sent == got {
        format!("all {} bytes that were sent arrived", whole(sent))
    } else if sender.cut || receiver.cut {
        format!(
            "{} bytes were sent and {} had arrived when the flows were cut off",
            whole(sent),
            whole(got)
        )
    } else {
        format!("{} bytes were sent, {} arrived", whole(sent), whole(got))
    };
    let content = match receiver.compared_bytes {
        0 => "their content was not compared".to_owned(),
        n => format!(
            "content compared in {} bytes, spread over all of it",
            whole(n)
        ),
    };
    format!("{count}; {content}")
}

/// The command that measures the same; on a line of its own, so that it can be copied.
fn with_intervals(begun: &Begun) -> String {
    let options = AXES.iter().filter_map(|row| {
        let value = begun.cell.value(row.axis);
        let named = matches!(row.axis, Axis::Mover | Axis::Size) || value != row.default;
        named.then(|| format!("--{} {}", row.name, row.axis.word(&value)))
    });
    let options: Vec<String> = options.collect();
    format!("bytecost run {}", options.join(" "))
}

/// What a server came to, when it ends.
#[must_use]
pub fn served(served: &Served) -> String {
    let sessions = match served.sessions {
        1 => "1 session".to_owned(),
        n => format!("{} sessions", whole(n)),
    };
    let failed = match served.failed {
        0 => String::new(),
        n => format!(" ({} failed)", whole(n)),
    };
    let mut text = format!("served {sessions}{failed}, {} bytes", whole(served.bytes));
    if served.turned_away > 0 {
        text.push_str(&format!(
            "; connections turned away: {}",
            whole(served.turned_away)
        ));
    }
    text.push('\n');
    text
}
