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
    /// Returns true if the lines of a session have the column.
    is_shown: fn(&Session) -> bool,
    value: fn(&Activity, &Figures) -> Option<String>,
}

fn latency(activity: &Activity, of: fn(&Latency) -> f64) -> Option<String> {
    activity.latency.as_ref().map(|l| units::number(of(l)))
}

fn waits_for_responses(session: &Session) -> bool {
    session.side != Side::Receiver && session.cell.pattern == Pattern::RequestResponse
}

const fn column(
    head: &'static str,
    width: usize,
    is_shown: fn(&Session) -> bool,
    value: fn(&Activity, &Figures) -> Option<String>,
) -> Column {
    Column {
        head,
        width,
        is_shown,
        value,
    }
}

#[rustfmt::skip] // a table
const COLUMNS: &[Column] = &[
    column("Gbit/s", 8, |_| true, |_, f| Some(units::number(f.throughput_gbit_per_s))),
    column("bytes", 15, |_| true, |_, f| Some(whole(f.bytes))),
    column("messages/s", 10, |s| s.counts_messages, |_, f| f.messages_per_s.map(|n| whole(n as u64))),
    column("CPU s/GB", 8, |_| true, |_, f| f.cpu_s_per_gb.map(units::number)),
    column("calls/msg", 8, |s| s.counts_messages, |_, f| f.calls_per_message.map(units::number)),
    column("calls/s", 10, |s| !s.counts_messages, |_, f| f.calls_per_s.map(|n| whole(n as u64))),
    column("copied", 8, |s| s.completes, |_, f| f.copied_share.map(percent)),
    column("fairness", 8, |s| s.cell.threads > 1, |_, f| f.fairness.map(|f| format!("{f:.3}"))),
    column("p50 µs", 8, waits_for_responses, |a, _| latency(a, |l| l.us_p50)),
    column("p99 µs", 8, waits_for_responses, |a, _| latency(a, |l| l.us_p99)),
    column("max µs", 8, waits_for_responses, |a, _| latency(a, |l| l.us_max)),
];

fn aligned(session: &Session, first: &str, text: impl Fn(&Column) -> String) -> String {
    let mut line = format!("{first:>8}");
    for column in COLUMNS.iter().filter(|column| (column.is_shown)(session)) {
        let text = text(column);
        let width = columns(column.head).max(column.width);
        let blanks = (width + 2).saturating_sub(columns(&text)).max(1);
        line += &(" ".repeat(blanks) + &text);
    }
    line
}

/// Description of a session, and the column heads of the lines that follow.
pub fn began(session: &Session, style: Style) -> String {
    let is_receiver = session.side == Side::Receiver;
    let with = if is_receiver { "from" } else { "to" };
    let (number, peer) = (session.number, units::one_line(&session.peer));
    let heads = aligned(session, "second", |column| column.head.to_owned());
    let (options, heads) = (options(session), style.paint(Ink::Faint, &heads));
    format!("session {number} {with} {peer}: {options}\n{heads}\n")
}

fn options(session: &Session) -> String {
    let cell = &session.cell;
    let way = match session.side {
        Side::Receiver => &cell.receiver,
        _ => &cell.mover,
    };
    let size = units::bytes_in_words(cell.size_bytes);
    let size = session
        .counts_messages
        .then(|| format!("messages of {size}"));
    let is_placed = cell.placement != Placement::Free;
    let parts = [
        Some(format!("`{way}`")),
        size,
        Some(count(cell.threads as usize, "flow", "flows")),
        Some(match cell.pattern {
            Pattern::Stream => "without pause".to_owned(),
            Pattern::RequestResponse => "each with a response".to_owned(),
        }),
        is_placed.then(|| format!("CPUs {}", cell.placement)),
    ];
    parts.into_iter().flatten().join(", ")
}

/// The line of one second of a session; `number` counts the seconds.
pub fn second(session: &Session, number: u64, activity: &Activity) -> String {
    let figures = Figures::new(session, activity);
    let line = aligned(session, &number.to_string(), |column| {
        (column.value)(activity, &figures).unwrap_or_else(|| "–".to_owned())
    });
    let silent = match activity.flows_silent {
        0 => String::new(),
        flows => format!("  {flows} silent"),
    };
    line + &silent + "\n"
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
    let note = "a single live measurement, without confidence intervals; the same with intervals:";
    let rows = [
        ("moved", Some(moved(session, &figures))),
        ("rate", Some(rate(&figures))),
        ("CPU per byte", Some(cpu(activity, &figures))),
        ("calls", calls(&figures)),
        ("latency", round_trips(activity)),
        ("zero-copy", copied(session, activity, &figures)),
    ];
    let rows = (rows.into_iter())
        .filter_map(|(label, text)| Some((label, text?)))
        .chain(hints::hints(totals).into_iter().map(|hint| ("note", hint)))
        .chain([("note", note.to_owned())]);
    let (title, rows) = (style.paint(ink, &title), labelled(rows, 14, style));
    let command = with_intervals(session);
    format!("{title}\n{rows}                {command}\n")
}

fn moved(session: &Session, figures: &Figures) -> String {
    let messages = figures
        .messages
        .map(|n| format!(" in {} messages", whole(n)));
    let (bytes, options) = (whole(figures.bytes), options(session));
    format!("{bytes} bytes{}: {options}", messages.unwrap_or_default())
}

fn rate(figures: &Figures) -> String {
    let gbit_per_s = units::number(figures.throughput_gbit_per_s);
    let mut text = format!("{gbit_per_s} Gbit/s on average");
    if let Some(messages) = figures.messages_per_s {
        text += &format!(", {} messages/s", whole(messages as u64));
    }
    if let (Some((slowest, fastest)), Some(fairness)) = (figures.spread, figures.fairness) {
        let [slowest, fastest] = [slowest, fastest].map(units::number);
        text += &format!(
            "; slowest flow {slowest} Gbit/s, fastest {fastest} Gbit/s, fairness {fairness:.3}"
        );
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
    let latency = activity.latency?;
    let count = whole(latency.count);
    let [half, most, slowest] = [latency.us_p50, latency.us_p99, latency.us_max].map(units::number);
    Some(format!(
        "half of {count} responses came within {half} µs, 99\u{a0}% within {most} µs, the slowest after {slowest} µs"
    ))
}

fn copied(session: &Session, activity: &Activity, figures: &Figures) -> Option<String> {
    let share = figures.copied_share.map(percent);
    let buffers = counter(activity, Counter::Completions).map(whole);
    session.completes.then(|| match (share, buffers) {
        (Some(share), Some(n)) => format!("the kernel copied {share} of {n} buffers after all"),
        _ => "no buffer came back".to_owned(),
    })
}

/// The command that measures a session's cell with intervals, on a line of its own for copying.
fn with_intervals(session: &Session) -> String {
    let mut options = AXES.iter().filter_map(|row| {
        let value = session.cell.value(row.axis);
        let is_always_named = match session.side {
            Side::Receiver => row.axis == Axis::Receiver,
            _ => matches!(row.axis, Axis::Mover | Axis::Size),
        };
        // The sender chooses the congestion control.
        let is_left_to_sender = session.side == Side::Receiver && row.axis == Axis::Congestion;
        let is_named = is_always_named || value != row.default && !is_left_to_sender;
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
