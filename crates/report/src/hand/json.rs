//! Seconds and summaries for programs: one JSON object a line.

use bytecost_spec::hand::{Begun, Second, Served, SessionEnd, SessionPart, Stretch, Summary};
use bytecost_spec::{Counter, Readings, Side};
use serde::Serialize;

use super::figures::Figures;
use super::hints;
use crate::json::line;

/// What a stretch comes to. What cannot be had is `null`; what a session does not have is left out.
#[derive(Serialize)]
struct Numbers {
    elapsed_s: f64,
    bytes: u64,
    messages: u64,
    throughput_gbit_per_s: f64,
    messages_per_s: f64,
    cpu_s_per_gb: Option<f64>,
    calls_per_message: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copied_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_max: Option<f64>,
    flows_silent: u32,
    flow_bytes: Vec<u64>,
}

impl Numbers {
    fn of(stretch: &Stretch) -> Numbers {
        let figures = Figures::of(stretch);
        let latency = stretch.latency.as_ref();
        Numbers {
            elapsed_s: figures.elapsed_s(),
            bytes: figures.bytes(),
            messages: figures.messages(),
            throughput_gbit_per_s: figures.gbit_per_s(),
            messages_per_s: figures.messages_per_s(),
            cpu_s_per_gb: figures.cpu_s_per_gb(),
            calls_per_message: figures.calls_per_message(),
            fairness: figures.fairness(),
            copied_share: figures.copied_share(),
            latency_us_p50: latency.map(|l| l.us_p50),
            latency_us_p99: latency.map(|l| l.us_p99),
            latency_us_max: latency.map(|l| l.us_max),
            flows_silent: stretch.flows_silent,
            flow_bytes: stretch.side.flows.iter().map(|f| f.bytes).collect(),
        }
    }
}

#[derive(Serialize)]
struct SecondLine<'a> {
    kind: &'static str,
    session: u64,
    side: Side,
    second: u64,
    #[serde(flatten)]
    own: Numbers,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Numbers>,
    cell: &'a str,
}

#[derive(Serialize)]
struct PartLine<'a> {
    #[serde(flatten)]
    numbers: Numbers,
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
        let figures = Figures::of(&part.whole);
        PartLine {
            numbers: Numbers::of(&part.whole),
            system_share: figures.system_share(),
            tcp_rtt_us: figures.counter(Counter::TcpRttUs),
            tcp_min_rtt_us: figures.counter(Counter::TcpMinRttUs),
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
#[must_use]
pub fn second_json(begun: &Begun, second: &Second) -> String {
    line(&SecondLine {
        kind: "second",
        session: begun.session,
        side: begun.own,
        second: second.number,
        own: Numbers::of(&second.own),
        peer: second.peer.as_ref().map(Numbers::of),
        cell: &begun.cell.id(),
    })
}

/// A session as one line of JSON.
#[must_use]
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
#[must_use]
pub fn served_json(served: &Served) -> String {
    line(served)
}
