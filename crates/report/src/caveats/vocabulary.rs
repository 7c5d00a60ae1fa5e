//! The words for facts in the phrase book of caveats, by name.

use bytecost_analysis::CaveatFact;
use bytecost_spec::cell::Device;
use bytecost_spec::host::Obstacle;
use bytecost_spec::{Counter, Measure, Metric, Side, Transport, units};

use super::known::{Known, cpus, fact, others, span};
use super::{cards, path, run, stall, zero_copy};
use crate::phrases;

/// A name, and the function that makes its word from the facts; none where they are not known.
type Word = (&'static str, fn(&Known<'_>) -> Option<String>);

/// The word of a name for the facts of a caveat.
pub(super) fn word(c: &Known<'_>, name: &str) -> Option<String> {
    let mut words = VOCABULARY.iter();
    let (_, word) = words.find(|(known, _)| *known == name)?;
    word(c)
}

/// The word of a condition, which is empty.
fn holds(is_so: bool) -> Option<String> {
    is_so.then(String::new)
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

fn changed(share: f64) -> String {
    let sign = if share < 0.0 { "-" } else { "+" };
    format!("{sign}{}", units::percent(share.abs()))
}

fn bytes(bytes: f64) -> String {
    format!("{} B", units::number(bytes))
}

/// A number without decimals.
fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn milliseconds(ns: f64) -> String {
    whole(ns / 1e6)
}

/// A sum that a counter gave, as a number for readers.
fn sum(c: &Known<'_>, counter: Counter) -> Option<String> {
    c.sum(counter).map(units::number)
}

/// Sum of a counter of events, without decimals.
fn count(c: &Known<'_>, counter: Counter) -> Option<String> {
    let text = sum(c, counter)?;
    Some(text.split('.').next().unwrap_or(&text).to_owned())
}

fn verb(c: &Known<'_>, [of_one, of_several]: [&str; 2]) -> Option<String> {
    let verb = if c.count()? == 1 { of_one } else { of_several };
    Some(verb.to_owned())
}

fn share(c: &Known<'_>, place: usize) -> Option<String> {
    Some(span(c.share(place)?, units::percent))
}

fn utilization(c: &Known<'_>, side: Side) -> Option<String> {
    c.metric(Metric::new(Measure::CpuUtilization, side), units::percent)
}

fn payload(c: &Known<'_>) -> Option<(bool, [u64; 2])> {
    fact!(c, CaveatFact::Payload { of_files, bytes } => (*of_files, *bytes))
}

fn blocks(c: &Known<'_>) -> Option<([usize; 2], usize)> {
    fact!(c, CaveatFact::Blocks { measured, asked } => (*measured, *asked))
}

fn obstacle<'a>(c: &Known<'a>) -> Option<&'a Obstacle> {
    c.obstacles().next()
}

fn is_of_cpu_clock(c: &Known<'_>) -> bool {
    run::clocks(c).is_some()
}

fn is_in_other_networks(c: &Known<'_>) -> bool {
    let is_here = |t: Transport| matches!(t, Transport::Loopback | Transport::Unix);
    !c.cells().all(|cell| is_here(cell.cell.transport))
}

fn threads_of_a_flow(c: &Known<'_>) -> &'static str {
    let transports = || c.cells().map(|cell| cell.cell.transport);
    if transports().all(|over| over == Transport::Peer) {
        "one side of each flow"
    } else if transports().all(Transport::has_receiver) {
        "two for each flow"
    } else {
        "both ends together"
    }
}

fn more_than_the_cache(c: &Known<'_>) -> Option<String> {
    let bytes = c.a.host.last_data_cache()?.size_bytes;
    let enough = bytes.saturating_mul(4).checked_next_power_of_two();
    Some(units::bytes(enough.unwrap_or(bytes)))
}

/// Every word.
#[rustfmt::skip] // a table
pub(super) const VOCABULARY: &[Word] = &[
    // What a caveat is about.
    ("subject", |c| c.caveat.subject.clone()),
    ("reason", |c| Some(c.reason()?.to_owned())),
    ("clause", |c| Some(phrases::without_stop(c.reason()?).to_owned())),
    ("sentence", |c| c.reason().map(phrases::sentence)),
    ("cells", |c| Some(phrases::count(c.caveat.cells.len(), "cell"))),
    ("compared cells", |c| Some(phrases::count(c.caveat.cells.len(), "comparison"))),
    ("count", |c| Some(c.count()?.to_string())),
    ("trials", |c| c.counted("trial")),
    ("samples", |c| c.counted("sample")),
    ("comparisons", |c| c.counted("comparison")),
    ("were", |c| verb(c, ["was", "were"])),
    ("rest", |c| verb(c, ["rests", "rest"])),
    ("are", |c| Some(if c.part()?.0 == 1 { "is" } else { "are" }.to_owned())),
    ("some", |c| Some(c.part()?.0.to_string())),
    ("all blocks", |c| Some(phrases::count(c.part()?.1, "block"))),
    ("all comparisons", |c| Some(phrases::count(c.part()?.1, "comparison"))),
    // Shares.
    ("bound", |c| fact!(c, CaveatFact::Bound(bound) => units::percent(*bound))),
    ("share", |c| share(c, 0)),
    ("second share", |c| share(c, 1)),
    ("third share", |c| share(c, 2)),
    ("least share", |c| c.share(0).map(|[least, _]| units::percent(least))),
    ("most share", |c| c.share(0).map(|[_, most]| units::percent(most.min(1.0)))),
    ("signed share", |c| Some(span(c.share(0)?, signed))),
    ("lowest share", |c| c.share(0).map(|[lowest, _]| signed(lowest))),
    ("highest share", |c| c.share(0).map(|[_, highest]| signed(highest))),
    ("points", |c| Some(span(c.share(0)?, |share| units::number((100.0 * share).round())))),
    ("times", |c| Some(span(c.share(0)?, |times| format!("{times:.1}")))),
    ("change", |c| Some(span(c.change()?.1, units::percent))),
    ("signed change", |c| Some(span(c.change()?.1, changed))),
    ("changed metric", |c| Some(c.noun(c.change()?.0))),
    ("course", |c| run::course(c).map(str::to_owned)),
    ("these or all", |c| Some(if c.count().is_some() { "these cells" } else { "all cells together" }.to_owned())),
    ("if grown", |c| holds(c.change().is_none())),
    ("if unpaced", |c| holds(c.share(0).is_none())),
    // The run.
    ("end", |c| Some(phrases::without_stop(c.a.run.ended_early.as_ref()?).to_owned())),
    ("resume", |c| Some(run::resume(c))),
    ("legs", |c| Some(run::legs(c))),
    ("wrong answers", |c| sum(c, Counter::ErrorsWrong)),
    ("far groups", |c| Some(run::groups(c, true))),
    ("near groups", |c| Some(run::groups(c, false))),
    ("blocks", |c| Some(phrases::from_to(blocks(c)?.0.map(|blocks| blocks.to_string())))),
    ("blocks asked for", |c| Some(blocks(c)?.1.to_string())),
    ("longer run", run::longer),
    ("precision", |c| Some(units::percent(c.a.study.precision))),
    ("twins", run::twins),
    ("long warm-up", |c| Some(c.a.study.warmup_ms.saturating_mul(10).to_string())),
    ("long window", |c| Some(c.a.study.window_ms.saturating_mul(10).to_string())),
    ("messages", |c| c.read(Counter::Messages, whole)),
    ("window ms", |c| c.read(Counter::ElapsedNs, milliseconds)),
    ("warm-up ms", |c| c.read(Counter::WarmupNs, milliseconds)),
    ("segments", run::segments),
    ("throughput", |c| c.metric(Metric::both(Measure::ThroughputGbitPerS), |rate| format!("{} Gbit/s", units::number(rate)))),
    ("cost", |c| c.metric(Metric::both(Measure::CpuSPerGb), |cost| format!("{} s/GB", units::number(cost)))),
    ("latency", |c| c.metric(Metric::both(Measure::LatencyUsP50), units::number)),
    ("time of a message", |c| c.metric(Metric::both(Measure::MsPerMessage), |ms| units::number(ms * 1e3))),
    // Stalls, and ways without a copy.
    ("what is held back", |c| Some(stall::held_back(c))),
    ("signs", |c| Some(stall::signs(c))),
    ("remedies of messages", |c| Some(stall::of_messages(c))),
    ("remedies of completions", |c| Some(stall::of_completions(c))),
    ("copied", |c| zero_copy::mover(c).map(zero_copy::copied)),
    ("copied shares", |c| Some(phrases::span(&zero_copy::mover(c)?.shares, units::percent))),
    ("how copies are known", |c| Some(zero_copy::means(c)?.to_owned())),
    ("why it copies", |c| Some(zero_copy::way(c)?.why.to_owned())),
    ("what copies less", |c| Some(zero_copy::way(c)?.remedy.to_owned())),
    ("packet sockets", zero_copy::sockets),
    ("flagged", |c| c.metric(Metric::both(Measure::CopiedShare), units::percent)),
    ("ENOBUFS", |c| count(c, Counter::Enobufs)),
    ("if in other networks", |c| holds(is_in_other_networks(c))),
    // Servers and their clients.
    ("lateness", |c| Some(format!("{:.1}", c.sum(Counter::GeneratorLateNsP99)? / 1e6))),
    ("dropped", |c| sum(c, Counter::TcpListenDrops)),
    ("SYN sent again", |c| sum(c, Counter::TcpSynRetransmits)),
    ("failed requests", |c| Some(run::failed_requests(c))),
    ("answers", |c| sum(c, Counter::Messages)),
    // CPU time.
    ("if coarse", |c| holds(c.count()? > 0)),
    ("means of CPU time", run::clock_means),
    ("if by two means", |c| holds(run::clocks(c)?[..2].iter().all(|cells| *cells > 0))),
    ("if known", |c| holds(is_of_cpu_clock(c))),
    ("if unknown", |c| holds(!is_of_cpu_clock(c))),
    ("if unmeasured", |c| holds(is_of_cpu_clock(c) && c.share(0).is_none())),
    // The path of packets.
    ("limit", |c| Some(obstacle(c)?.found.clone())),
    ("limited place", |c| Some(obstacle(c)?.place.clone())),
    ("kind of limit", path::kind_of_limit),
    ("removal", |c| obstacle(c).map(Obstacle::remedy)),
    ("obstacles", |c| Some(path::obstacles(c))),
    ("what obstacles mean", |c| Some(path::meaning(c))),
    ("SO_SNDBUF", |c| c.read(Counter::SendBufferBytes, bytes)),
    ("SO_RCVBUF", |c| c.read(Counter::ReceiveBufferBytes, bytes)),
    ("s", |c| c.seconds().map(units::number)),
    ("held s", |c| Some(units::number(c.sum(Counter::QuotaThrottledNs)? / 1e9))),
    ("periods", |c| Some(phrases::count(c.sum(Counter::QuotaThrottledPeriods)? as usize, "period"))),
    ("quotas", |c| Some(c.obstacles().map(|o| format!("; {} at {}", o.found, o.place)).collect())),
    ("packets", |c| count(c, Counter::WirePackets)),
    ("acknowledgements", |c| count(c, Counter::WireAcknowledgements)),
    ("early packets", |c| count(c, Counter::WireGaps)),
    ("repeated packets", |c| count(c, Counter::WireRepeats)),
    ("whose device", path::whose_device),
    ("veth", |_| Some(Device::Veth.in_words().to_owned())),
    ("tun", |_| Some(Device::Tun.in_words().to_owned())),
    ("sent again", |c| c.sum(Counter::TcpRetransmits).map(whole)),
    // The way to another host.
    ("other host", |c| Some(c.a.peer.as_ref()?.name.clone())),
    ("link", |c| c.metric(Metric::both(Measure::ThroughputGbitPerS), |most| format!("{most:.2}"))),
    ("virtual cards", |c| Some(cards::virtual_cards(c))),
    ("path MTU", |c| c.sum(Counter::TcpPathMtuBytes).map(whole)),
    ("other MTUs", cards::other_mtus),
    ("path MTUs", |c| Some(cards::path_mtus(c))),
    ("offloads", cards::offloads),
    ("interrupts", |c| Some(cards::interrupts(c))),
    ("longest wait", cards::longest_wait),
    ("flows", |c| Some(phrases::span(&c.cells().map(|cell| f64::from(cell.cell.threads)).collect::<Vec<f64>>(), units::number))),
    ("queues", cards::queues),
    // The machine.
    ("others", |c| c.others().map(others)),
    ("busiest", run::busiest),
    ("CPUs of others", |c| c.others().map(cpus)),
    ("CPUs", |c| Some(phrases::count(c.a.host.cpus.len(), "CPU"))),
    ("usable CPUs", |c| Some(phrases::count(c.a.host.usable_cpus(), "CPU"))),
    ("half of the CPUs", |c| Some((c.a.host.usable_cpus() / 2).max(1).to_string())),
    ("threads of a flow", |c| Some(threads_of_a_flow(c).to_owned())),
    ("placement", |c| Some(c.cells().next().filter(|_| !c.caveat.disturbs)?.cell.placement.to_string())),
    ("if disturbed", |c| holds(c.caveat.disturbs)),
    ("stopped s", |c| Some(format!("{:.1}", c.seconds()?))),
    ("what became of them", run::stopped),
    ("if left out", |c| holds(c.part()?.0 == 0)),
    ("if kept", |c| holds(c.part()?.0 > 0)),
    ("least GHz", |c| Some(format!("{:.2}", c.reading(Counter::FrequencyKhz)?[0] / 1e6))),
    ("most GHz", |c| Some(format!("{:.2}", c.reading(Counter::FrequencyKhz)?[1] / 1e6))),
    ("throttles", |c| c.sum(Counter::ThermalThrottles).map(whole)),
    ("if on virtual CPUs", |c| holds(c.a.host.virtualization.is_some())),
    ("if on its own CPUs", |c| holds(c.a.host.virtualization.is_none())),
    ("least ns", |c| Some(whole(c.reading(Counter::CoreToCoreBeforeNs)?[0]))),
    ("most ns", |c| Some(whole(c.reading(Counter::CoreToCoreBeforeNs)?[1]))),
    ("cost where it was high", run::cost_of_high),
    ("waits", |c| c.read(Counter::ContextSwitchesVoluntary, |waits| format!("{waits:.1}"))),
    ("huge pages", |c| c.read(Counter::HugeMemoryBytes, |bytes| units::bytes_in_words(bytes as u64))),
    ("receiver's CPU", |c| utilization(c, Side::Receiver)),
    ("sender's CPU", |c| utilization(c, Side::Sender)),
    ("payload", |c| Some(if payload(c)?.0 { "file" } else { "payload" }.to_owned())),
    ("payload bytes", |c| Some(phrases::from_to(payload(c)?.1.map(units::bytes_in_words)))),
    ("last level", |c| Some(c.a.host.last_data_cache()?.level.to_string())),
    ("last cache", |c| Some(units::bytes_in_words(c.a.host.last_data_cache()?.size_bytes))),
    ("more than the cache", more_than_the_cache),
];
