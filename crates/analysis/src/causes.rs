//! Why the two cells of a decided finding differ: events of which the dearer one has more, each
//! with what that costs by the unit costs of the machine that measured.
//!
//! A cause has a difference in count whose interval leaves out zero, of the sign of the effect.
//! Wake-ups are in the cost of switches, acknowledgements and segments in that of packets.

use bytecost_spec::evidence::{COUNTED_TRIALS, CountedEvent, TrialEvidence};
use bytecost_spec::survey::Priced;
use bytecost_spec::{Counter, Measure, Metric, Reading, Side, Transport};
use bytecost_spec::{cell::Placement, cell::Ring};
use bytecost_stats::{Location, student_mean, trimmed_mean};
use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::result::{Cause, CauseOf, Finding, FindingCauses, Uncertain};
use crate::stalls::Stalls;
use crate::trials::CellTrials;
use crate::view::View;

/// Shares of the difference below which an event is no cause.
const LEAST_SHARE: f64 = 0.05;
/// What all causes may come to before their costs are known not to add.
const MOST_SHARE: f64 = 1.2;
/// Copies a byte from which on two ways differ, where they were counted once.
const COPIES_APART: f64 = 0.05;
/// Without costs: from which factor on counts differ, and from how many a message.
const APART: (f64, f64) = (1.2, 0.02);

const CANDIDATES: [CauseOf; 5] = [
    CauseOf::Copies,
    CauseOf::Event(CountedEvent::SystemCalls),
    CauseOf::Event(CountedEvent::ContextSwitches),
    CauseOf::Event(CountedEvent::PageFaults),
    CauseOf::Event(CountedEvent::Packets),
];

/// Two cells of a finding, and the side whose events count.
struct Compared<'v, 'a> {
    view: &'v View<'v>,
    baseline: &'v CellTrials<'a>,
    other: &'v CellTrials<'a>,
    side: Side,
}

/// How often a message of each cell has something, and how much more of it the dearer one has.
struct Counts {
    from: f64,
    to: f64,
    more: Option<Uncertain>,
}

/// The causes of every decided finding about time, in the order of the findings.
pub(crate) fn all(view: &View<'_>) -> Vec<FindingCauses> {
    let is_told = |f: &&Finding| is_worth_a_reason(f, &view.stalls);
    let findings = view.known.findings.iter().filter(is_told);
    findings.filter_map(|f| of(view, f)).collect()
}

/// Whether a finding is decided, and about CPU time, or else the first of its comparison. Where one
/// side waits for a timer, its CPU time alone is worth a reason.
pub(crate) fn is_worth_a_reason(finding: &Finding, stalls: &Stalls) -> bool {
    let of_cpu = match finding.metric.measure {
        Measure::CpuSPerGb => true,
        Measure::CpuNsPerMessage => finding.metric.side == Side::Server,
        _ => false,
    };
    let is_told = of_cpu || finding.first && !stalls.touch(finding);
    is_told && finding.is_apart()
}

/// Of each value with its baseline the greatest ratio; greatest first, `preferred` ones before all.
pub(crate) fn greatest<'f>(
    findings: impl Iterator<Item = &'f Finding>,
    preferred: impl Fn(&Finding) -> bool,
) -> Vec<&'f Finding> {
    let size = |f: &Finding| f.ratio.ln().abs();
    let found = findings.sorted_by(|a, b| size(b).total_cmp(&size(a)));
    let found = found.sorted_by_key(|f| !preferred(f));
    let once = found.unique_by(|f| (f.axis, &f.value, &f.baseline_value));
    once.collect()
}

fn of(view: &View<'_>, finding: &Finding) -> Option<FindingCauses> {
    let pair = view.trials.pair(finding)?;
    let (baseline, other) = (pair.baseline, pair.other);
    let compared = Compared {
        view,
        baseline,
        other,
        side: match other.cell.is_served() {
            true => Side::Server,
            false => finding.metric.side,
        },
    };
    // What works in memory alone costs by its caches, of which none is counted here.
    let route = baseline.route;
    let by_kernel = route.has_peer() || route.is_of_files() || baseline.cell.is_served();
    let difference_ns = compared.difference_ns(finding).filter(|_| by_kernel)?;
    let sign = (finding.ratio - 1.0).signum();
    let known = CANDIDATES.map(|of| Some((of, compared.more(of, sign)?)));
    if known.iter().all(Option::is_none) {
        return None;
    }
    let has_costs = !view.input.manifest.survey.unit_costs.is_empty();
    let cause = |(of, Counts { from, to, more }): (CauseOf, Counts)| {
        let more = more.filter(|m| m.low > 0.0)?;
        let cost_ns = compared.price(of).map(|price| more.times(price));
        let share = cost_ns.map(|cost| cost.over(difference_ns));
        let is_cause = match share {
            Some(share) => share.value >= LEAST_SHARE,
            None => !has_costs && is_apart(from, to),
        };
        is_cause.then_some(Cause {
            of,
            from,
            to,
            cost_ns,
            share,
        })
    };
    let causes = known.into_iter().flatten().filter_map(cause);
    let cost = |c: &Cause| c.cost_ns.map_or(0.0, |c| c.value);
    let causes = causes.sorted_by(|a, b| cost(b).total_cmp(&cost(a)));
    let mut causes = causes.collect_vec();
    let sum = Uncertain::sum(causes.iter().filter_map(|c| c.cost_ns));
    let explained = sum.map(|sum| sum.over(difference_ns));
    let explained = explained.filter(|e| e.value <= MOST_SHARE);
    if explained.is_none() {
        causes.iter_mut().for_each(|c| c.share = None);
    }
    Some(FindingCauses {
        finding: finding.id.clone(),
        counted: compared.is_counted(),
        difference_ns,
        causes,
        explained,
    })
}

fn is_apart(from: f64, to: f64) -> bool {
    let least = APART.1;
    let factor = to.max(least) / from.max(least);
    factor.ln().abs() > APART.0.ln() && (to - from).abs() > least
}

impl Compared<'_, '_> {
    /// How much more a message of the dearer one takes, in ns; none where messages are not alike.
    fn difference_ns(&self, finding: &Finding) -> Option<Uncertain> {
        let (measure, ns) = match finding.metric.measure {
            Measure::CpuSPerGb | Measure::CpuNsPerMessage => (Measure::CpuNsPerMessage, 1.0),
            Measure::RoundTripNs => (Measure::RoundTripNs, 1.0),
            Measure::MsPerMessage => (Measure::MsPerMessage, 1e6),
            // Who asks a server waits for others too.
            Measure::LatencyUsP50 if !self.other.cell.is_served() => (Measure::LatencyUsP50, 1e3),
            _ => return None,
        };
        let baseline = self.view.known.result(&finding.baseline)?;
        let ns = ns * baseline.value(Metric::of(measure, finding.metric.side))?;
        let sizes = [self.baseline, self.other].map(|c| c.cell.size_bytes);
        let [value, one, other] =
            [finding.ratio, finding.low, finding.high].map(|r| ns * (r - 1.0).abs());
        let difference = Uncertain {
            value,
            low: one.min(other),
            high: one.max(other),
        };
        (sizes[0] == sizes[1] && difference.low > 0.0).then_some(difference)
    }

    /// None where the count of one is not known.
    fn more(&self, of: CauseOf, sign: f64) -> Option<Counts> {
        let both = [self.baseline, self.other];
        let counted = both.map(|cell| self.counted(of, cell));
        let enough = |trials: usize| counted.iter().all(|c| c.len() >= trials);
        if !enough(COUNTED_TRIALS) && of == CauseOf::Copies && enough(1) {
            // Of old runs, which counted once: there is no chance in whether bytes are copied.
            let [from, to] = counted.map(|c| c[0]);
            let value = sign * (to - from);
            let more = Some(Uncertain {
                value,
                low: value - COPIES_APART,
                high: value + COPIES_APART,
            });
            return Some(Counts { from, to, more });
        }
        let values = match enough(COUNTED_TRIALS) {
            true => counted,
            false => both.map(|cell| self.timed(of, cell)),
        };
        if values.iter().any(|v| v.len() < FEWEST) {
            return None;
        }
        let [from, to] = [student_mean(&values[0])?, student_mean(&values[1])?];
        Some(Counts {
            from: from.value,
            to: to.value,
            more: apart(from, to, sign),
        })
    }

    /// In each trial of evidence of a cell.
    fn counted(&self, of: CauseOf, cell: &CellTrials<'_>) -> Vec<f64> {
        let evidence = self.view.input.evidence.iter();
        let own = evidence.filter(|e| e.cell == cell.id);
        let count = |e: &TrialEvidence| match of {
            CauseOf::Copies => copies(e, self.side),
            CauseOf::Event(event) => events(e, event, self.side),
        };
        own.filter_map(count).collect()
    }

    /// In each timed trial of a cell, as far as these count it. Over loopback a segment is a packet.
    fn timed(&self, of: CauseOf, cell: &CellTrials<'_>) -> Vec<f64> {
        let side = self.side;
        let measure = match of {
            CauseOf::Event(CountedEvent::SystemCalls) => Measure::CallsPerMessage,
            CauseOf::Event(CountedEvent::ContextSwitches) => Measure::ContextSwitchesPerMessage,
            CauseOf::Event(CountedEvent::PageFaults) => Measure::PageFaultsPerMessage,
            CauseOf::Event(CountedEvent::Packets)
                if matches!(side, Side::Both | Side::Sender)
                    && cell.cell.transport == Transport::Loopback =>
            {
                let (segments, messages) = (Counter::TcpDataSegments, Counter::Messages);
                let each = cell.trials().map(|t| t.sent_over(segments, messages));
                return each.flatten().collect();
            }
            _ => return Vec::new(),
        };
        let metric = Metric::of(measure, side);
        cell.trials().filter_map(|t| t.value(metric)).collect()
    }

    /// What one more of it costs a message, in ns; none where that is not known.
    fn price(&self, of: CauseOf) -> Option<Uncertain> {
        let (cell, route) = (self.other.cell, self.other.route);
        let CauseOf::Event(event) = of else {
            let bytes = match cell.ring {
                Ring::Bytes(bytes) => bytes,
                Ring::Message => cell.size_bytes,
            };
            let copy = match bytes {
                ..=0x4_0000 => Priced::CopyNear,
                0x4_0001..=0x40_0000 => Priced::CopyMiddle,
                _ => Priced::CopyFar,
            };
            let size = Uncertain::exact(cell.size_bytes as f64);
            return Some(self.cost(copy)?.times(size));
        };
        let priced = match event {
            CountedEvent::SystemCalls if cell.is_served() || route.has_peer() => Priced::SocketCall,
            CountedEvent::SystemCalls if route.is_of_files() => Priced::FileCall,
            CountedEvent::SystemCalls => Priced::SystemCall,
            CountedEvent::ContextSwitches => return self.switch(),
            CountedEvent::PageFaults => Priced::PageFault,
            CountedEvent::Packets if cell.transport.has_receiver() => Priced::Packet,
            _ => return None,
        };
        self.cost(priced)
    }

    /// A switch on one CPU, or one that another CPU asks for, which may cost ten times as much.
    /// Where the scheduler chose, it is the least, and the interval reaches to the other.
    fn switch(&self) -> Option<Uncertain> {
        let same = self.cost(Priced::SwitchSameCpu);
        let other = self.cost(Priced::SwitchOtherCpu);
        match &self.other.cell.placement {
            Placement::Within { cpus } if cpus.len() == 1 => same,
            Placement::Cpus { sender, receiver } if sender == receiver => same,
            Placement::Cpus { .. } | Placement::Pinned => other,
            _ => {
                let both = same.zip(other).map(|(same, other)| Uncertain {
                    high: same.high.max(other.high),
                    ..same
                });
                both.or(same).or(other)
            }
        }
    }

    /// What one event cost this machine; none where it was not found to cost anything.
    fn cost(&self, event: Priced) -> Option<Uncertain> {
        let costs = &self.view.input.manifest.survey.unit_costs;
        let trials = costs.iter().find(|c| c.event == event)?.trials.iter();
        let each = trials.map(|t| t.cpu_ns as f64 / t.events.max(1) as f64);
        let location = trimmed_mean(&each.collect_vec())?;
        within(location).filter(|cost| cost.low > 0.0)
    }

    fn is_counted(&self) -> bool {
        let is_seen = |cell: &CellTrials<'_>, of| !self.counted(of, cell).is_empty();
        let of = |of| is_seen(self.baseline, of) && is_seen(self.other, of);
        CANDIDATES.into_iter().any(of)
    }
}

/// Copies of each byte on a side in one trial; none where a place of it is not known.
fn copies(evidence: &TrialEvidence, side: Side) -> Option<f64> {
    let found = evidence.copies.as_ref()?;
    let own = |leg: Side| side == Side::Both || leg == side;
    let legs = found.legs.iter().filter(|l| own(l.leg.side()));
    each(legs.map(|l| &l.bytes), found.payload_bytes)
}

/// Events of a side for each message in one trial; none where one of them was not counted. In
/// evidence a server receives and its clients send.
fn events(evidence: &TrialEvidence, event: CountedEvent, side: Side) -> Option<f64> {
    let own = |counted: Side| match side {
        Side::Receiver | Side::Server => counted == Side::Receiver,
        Side::Sender | Side::Client => counted != Side::Receiver,
        Side::Both => true,
    };
    let counts = evidence.counts.iter();
    let counts = counts.filter(|c| c.event == event && own(c.side));
    each(counts.map(|c| &c.count), evidence.sent_messages)
}

/// The sum of some readings for each of so many; none where one of them is not known.
fn each<'r>(readings: impl Iterator<Item = &'r Reading>, of: u64) -> Option<f64> {
    let known: Option<Vec<u64>> = readings.map(Reading::measured).collect();
    let known = known.filter(|known| !known.is_empty() && of > 0)?;
    Some(known.iter().sum::<u64>() as f64 / of as f64)
}

/// How much larger, or smaller by its sign, the second of two means is (Welch).
fn apart(from: Location, to: Location, sign: f64) -> Option<Uncertain> {
    let [a, b] = [from, to].map(|l| l.standard_error * l.standard_error);
    let spread = a * a / from.degrees + b * b / to.degrees;
    within(Location {
        value: sign * (to.value - from.value),
        standard_error: (a + b).sqrt(),
        degrees: match spread > 0.0 {
            true => (a + b) * (a + b) / spread,
            false => from.degrees + to.degrees,
        },
        count: from.count + to.count,
        lent: 0.0,
    })
}

fn within(location: Location) -> Option<Uncertain> {
    let interval = location.interval(LEVEL)?;
    Some(Uncertain {
        value: location.value,
        low: interval.low,
        high: interval.high,
    })
}
