//! Seconds and summaries for programs: one JSON object a line.

use bytecost_spec::hand::{Begun, Second, Served, SessionEnd, SessionPart, Summary};
use bytecost_spec::{Counter, Readings, Side};
use serde::Serialize;

use super::figures::{Figures, counter, system_share};
use super::hints;
use crate::text::line;

#[derive(Serialize)]
struct SecondLine<'a> {
    kind: &'static str,
    session: u64,
    side: Side,
    second: u64,
    #[serde(flatten)]
    own: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Figures>,
    cell: &'a str,
}

#[derive(Serialize)]
struct PartLine<'a> {
    #[serde(flatten)]
    numbers: Figures,
    system_share: Option<f64>,
    tcp_rtt_us: Option<u64>,
    tcp_min_rtt_us: Option<u64>,
    compared_bytes: u64,
    congestion: &'a str,
    cut: bool,
    readings: &'a Readings,
}

impl PartLine<'_> {
    fn of(part: &SessionPart) -> PartLine<'_> {
        let read = |of| counter(&part.whole, of);
        PartLine {
            numbers: Figures::of(&part.whole),
            system_share: system_share(&part.whole),
            tcp_rtt_us: read(Counter::TcpRttUs),
            tcp_min_rtt_us: read(Counter::TcpMinRttUs),
            compared_bytes: part.compared_bytes,
            congestion: &part.congestion,
            cut: part.cut,
            readings: &part.whole.side.readings,
        }
    }
}

#[derive(Serialize)]
struct SummaryLine<'a> {
    kind: &'static str,
    session: u64,
    side: Side,
    cell: String,
    ended: &'static str,
    failed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    own: PartLine<'a>,
    peer: Option<PartLine<'a>>,
    notes: Vec<String>,
}

/// One second as one line of JSON, with its line feed.
pub fn second_json(begun: &Begun, second: &Second) -> String {
    line(&SecondLine {
        kind: "second",
        session: begun.session,
        side: begun.own,
        second: second.number,
        own: Figures::of(&second.own),
        peer: second.peer.as_ref().map(Figures::of),
        cell: &begun.cell.id(),
    })
}

/// A session as one line of JSON.
pub fn summary_json(summary: &Summary) -> String {
    let (ended, failed, limit) = match &summary.end {
        SessionEnd::Here => ("here", None, None),
        SessionEnd::There => ("there", None, None),
        SessionEnd::Limit(why) => ("limit", None, Some(why.as_str())),
        SessionEnd::Failed(why) => ("failed", Some(why.as_str()), None),
    };
    line(&SummaryLine {
        kind: "summary",
        session: summary.begun.session,
        side: summary.begun.own,
        cell: summary.begun.cell.id(),
        ended,
        failed,
        limit,
        own: PartLine::of(&summary.own),
        peer: summary.peer.as_ref().map(PartLine::of),
        notes: hints::hints(summary),
    })
}

/// All sessions of a server as one line of JSON.
pub fn served_json(served: &Served) -> String {
    line(served)
}
