//! Lines of `bytecost live send` and `bytecost live receive`: of a second, and of a session that is over.

use bytecost_spec::axis::AXES;
use bytecost_spec::live::{Activity, Latency, Served, Session, SessionEnd, Totals};
use bytecost_spec::{Axis, Counter, Pattern, Placement, Side, units};
use itertools::Itertools as _;

use crate::numbers::{percent, whole};
use crate::style::{Ink, Style};
use crate::terminal::labelled;
use crate::text::{columns, count};

mod figures;
mod hints;
mod json;

use figures::{Figures, counter, system_share};
pub use json::{second_json, served_json, totals_json};

/// Column of the lines of the seconds.
struct Column {
    head: &'static str,
    /// Width of its values where that is more than the head's.
    width: usize,
    /// Returns true if a session has it.
    is_of: fn(&Session) -> bool,
    value: fn(&Activity, &Figures) -> Option<String>,
}

fn latency(activity: &Activity, of: fn(&Latency) -> f64) -> Option<String> {
    activity.latency.as_ref().map(|l| units::number(of(l)))
}

fn asks(session: &Session) -> bool {
    session.side != Side::Receiver && session.cell.pattern == Pattern::Ask
}

const COLUMNS: &[Column] = &[
    Column {
        head: "Gbit/s",
        width: 8,
        is_of: |_| true,
        value: |_, f| Some(units::number(f.throughput_gbit_per_s)),
    },
    Column {
        head: "bytes",
        width: 15,
        is_of: |_| true,
        value: |_, f| Some(whole(f.bytes)),
    },
    Column {
        head: "messages/s",
        width: 10,
        is_of: |s| s.counts_messages,
        value: |_, f| f.messages_per_s.map(|n| whole(n as u64)),
    },
    Column {
        head: "CPU s/GB",
        width: 8,
        is_of: |_| true,
        value: |_, f| f.cpu_s_per_gb.map(units::number),
    },
    Column {
        head: "calls/msg",
        width: 8,
        is_of: |s| s.counts_messages,
        value: |_, f| f.calls_per_message.map(units::number),
    },
    Column {
        head: "calls/s",
        width: 10,
        is_of: |s| !s.counts_messages,
        value: |_, f| f.calls_per_s.map(|n| whole(n as u64)),
    },
    Column {
        head: "copied",
        width: 8,
        is_of: |s| s.completes,
        value: |_, f| f.copied_share.map(percent),
    },
    Column {
        head: "fairness",
        width: 8,
        is_of: |s| s.cell.threads > 1,
        value: |_, f| f.fairness.map(|f| format!("{f:.3}")),
    },
    Column {
        head: "p50 µs",
        width: 8,
        is_of: asks,
        value: |a, _| latency(a, |l| l.us_p50),
    },
    Column {
        head: "p99 µs",
        width: 8,
        is_of: asks,
        value: |a, _| latency(a, |l| l.us_p99),
    },
    Column {
        head: "max µs",
        width: 8,
        is_of: asks,
        value: |a, _| latency(a, |l| l.us_max),
    },
];

fn aligned(session: &Session, first: &str, text: impl Fn(&Column) -> String) -> String {
    let mut line = format!("{first:>8}");
    for column in COLUMNS.iter().filter(|column| (column.is_of)(session)) {
        let text = text(column);
        let width = columns(column.head).max(column.width);
        let blanks = (width + 2).saturating_sub(columns(&text)).max(1);
        line.extend(std::iter::repeat_n(' ', blanks));
        line.push_str(&text);
    }
    line
}

/// Description of a session, and the column heads of the lines that follow.
pub fn began(session: &Session, style: Style) -> String {
    let with = if session.side == Side::Receiver {
        "from"
    } else {
        "to"
    };
    let (number, peer) = (session.number, units::one_line(&session.peer));
    let heads = aligned(session, "second", |column| column.head.to_owned());
    let what = options(session);
    let heads = style.paint(Ink::Faint, &heads);
    format!("session {number} {with} {peer}: {what}\n{heads}\n")
}

/// The options of this side in words.
fn options(session: &Session) -> String {
    let cell = &session.cell;
    let mut words = if session.side == Side::Receiver {
        format!("`{}`", cell.receiver)
    } else {
        format!("`{}`", cell.mover)
    };
    if session.counts_messages {
        let size = units::bytes_in_words(cell.size_bytes);
        words.push_str(&format!(", messages of {size}"));
    }
    let flows = count(cell.threads as usize, "flow", "flows");
    words.push_str(&format!(", {flows}"));
    words.push_str(match cell.pattern {
        Pattern::Stream => ", without pause",
        Pattern::Ask => ", each with a response",
    });
    if cell.placement != Placement::Free {
        words.push_str(&format!(", CPUs {}", cell.placement));
    }
    words
}

/// Line of a second, by its number.
pub fn second(session: &Session, number: u64, activity: &Activity) -> String {
    let figures = Figures::new(session, activity);
    let mut line = aligned(session, &number.to_string(), |column| {
        (column.value)(activity, &figures).unwrap_or_else(|| "–".to_owned())
    });
    if activity.flows_silent > 0 {
        line.push_str(&format!("  {} silent", activity.flows_silent));
    }
    line.push('\n');
    line
}

/// Totals of a session.
pub fn totals(totals: &Totals, style: Style) -> String {
    let (session, activity) = (&totals.session, &totals.activity);
    let figures = Figures::new(session, activity);
    let ended = match &totals.end {
        SessionEnd::Here => "ended here".to_owned(),
        SessionEnd::There => "ended by the other side".to_owned(),
        SessionEnd::Limit(why) => format!("ended by a limit: {}", units::one_line(why)),
        SessionEnd::Failed(why) => format!("failed: {}", units::one_line(why)),
    };
    let (number, seconds) = (session.number, units::number(figures.elapsed_s));
    let title = format!("session {number} {ended}, after {seconds} s");
    let ink = match totals.end {
        SessionEnd::Failed(_) => Ink::Bad,
        _ => Ink::Strong,
    };
    let mut rows = vec![
        ("moved", moved(session, &figures)),
        ("rate", rate(&figures)),
        ("CPU per byte", cpu(activity, &figures)),
    ];
    rows.extend(calls(&figures).map(|text| ("calls", text)));
    rows.extend(round_trips(activity).map(|text| ("latency", text)));
    rows.extend(copied(session, activity, &figures).map(|text| ("zero-copy", text)));
    rows.extend(hints::hints(totals).into_iter().map(|hint| ("note", hint)));
    let note = "a single live measurement, without confidence intervals; the same with intervals:";
    rows.push(("note", note.to_owned()));
    let (title, rows) = (style.paint(ink, &title), labelled(rows, 14, style));
    let command = with_intervals(session);
    format!("{title}\n{rows}                {command}\n")
}

fn moved(session: &Session, figures: &Figures) -> String {
    let messages = figures.messages.map(whole);
    let messages = messages.map_or(String::new(), |n| format!(" in {n} messages"));
    let (bytes, options) = (whole(figures.bytes), options(session));
    format!("{bytes} bytes{messages}: {options}")
}

fn rate(figures: &Figures) -> String {
    let gbit_per_s = units::number(figures.throughput_gbit_per_s);
    let mut text = format!("{gbit_per_s} Gbit/s on average");
    if let Some(messages) = figures.messages_per_s {
        text += &format!(", {} messages/s", whole(messages as u64));
    }
    if let (Some((slowest, fastest)), Some(fairness)) = (figures.spread, figures.fairness) {
        let [slowest, fastest] = [slowest, fastest].map(units::number);
        text += &format!("; slowest flow {slowest}, fastest {fastest}, fairness {fairness:.3}");
    }
    text
}

fn cpu(activity: &Activity, figures: &Figures) -> String {
    let Some(cpu) = figures.cpu_s_per_gb.map(units::number) else {
        return "nothing was moved".to_owned();
    };
    match system_share(activity).map(percent) {
        Some(system) => format!("{cpu} s/GB on this side ({system} in the kernel)"),
        None => format!("{cpu} s/GB on this side"),
    }
}

fn calls(figures: &Figures) -> Option<String> {
    match (figures.calls_per_message, figures.calls) {
        (Some(calls), _) => Some(format!("{} a message", units::number(calls))),
        (None, Some(calls)) => Some(whole(calls)),
        (None, None) => None,
    }
}

fn round_trips(activity: &Activity) -> Option<String> {
    let of = activity.latency?;
    let count = whole(of.count);
    let [half, most, last] = [of.us_p50, of.us_p99, of.us_max].map(units::number);
    Some(format!(
        "half of {count} responses came within {half} µs, 99\u{a0}% within {most} µs, the last after {last} µs"
    ))
}

fn copied(session: &Session, activity: &Activity, figures: &Figures) -> Option<String> {
    if !session.completes {
        return None;
    }
    let share = figures.copied_share.map(percent);
    let buffers = counter(activity, Counter::Completions).map(whole);
    Some(match (share, buffers) {
        (Some(share), Some(n)) => format!("the kernel copied {share} of {n} buffers after all"),
        _ => "no buffer came back".to_owned(),
    })
}

/// The command that measures a session's cell with intervals, on a line of its own for copying.
fn with_intervals(session: &Session) -> String {
    let mut options = AXES.iter().filter_map(|row| {
        let value = session.cell.value(row.axis);
        let is_first = match session.side {
            Side::Receiver => row.axis == Axis::Receiver,
            _ => matches!(row.axis, Axis::Mover | Axis::Size),
        };
        // A receiver leaves it to its sender.
        let is_others = session.side == Side::Receiver && row.axis == Axis::Congestion;
        let is_named = is_first || value != row.default && !is_others;
        is_named.then(|| format!("--{} {}", row.name, value))
    });
    format!("bytecost run {}", options.join(" "))
}

/// Totals of a listening program over all sessions, as text for its end.
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
    format!("{sessions}{failed}, {bytes} bytes{away}\n")
}
