//! Seconds and totals for programs: one JSON object a line.

use bytecost_spec::live::{Activity, Served, Session, SessionEnd, Totals};
use bytecost_spec::{Counter, Readings, Side};
use serde::Serialize;

use super::figures::{Figures, counter, system_share};
use super::hints;
use crate::text::line;

#[derive(Serialize)]
struct SecondLine {
    kind: &'static str,
    session: u64,
    side: Side,
    second: u64,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct TotalsLine<'a> {
    kind: &'static str,
    session: u64,
    side: Side,
    peer: &'a str,
    command: String,
    ended: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    figures: Figures,
    system_share: Option<f64>,
    tcp_rtt_us: Option<u64>,
    tcp_min_rtt_us: Option<u64>,
    congestion: &'a str,
    cut: bool,
    readings: &'a Readings,
    notes: Vec<String>,
}

/// A second, by its number, as one line of JSON, with its line feed.
pub fn second_json(session: &Session, number: u64, activity: &Activity) -> String {
    line(&SecondLine {
        kind: "second",
        session: session.number,
        side: session.side,
        second: number,
        figures: Figures::new(session, activity),
    })
}

/// Totals of a session as one line of JSON.
pub fn totals_json(totals: &Totals) -> String {
    let (session, activity) = (&totals.session, &totals.activity);
    let (ended, reason) = match &totals.end {
        SessionEnd::Here => ("here", None),
        SessionEnd::There => ("there", None),
        SessionEnd::Limit(why) => ("limit", Some(why.as_str())),
        SessionEnd::Failed(why) => ("failed", Some(why.as_str())),
    };
    line(&TotalsLine {
        kind: "totals",
        session: session.number,
        side: session.side,
        peer: &session.peer,
        command: super::with_intervals(session),
        ended,
        reason,
        figures: Figures::new(session, activity),
        system_share: system_share(activity),
        tcp_rtt_us: counter(activity, Counter::TcpRttUs),
        tcp_min_rtt_us: counter(activity, Counter::TcpMinRttUs),
        congestion: &totals.congestion,
        cut: totals.is_cut,
        readings: &activity.side.readings,
        notes: hints::hints(totals),
    })
}

/// Totals of a listening program over all sessions, as one line of JSON.
pub fn served_json(served: &Served) -> String {
    line(served)
}
