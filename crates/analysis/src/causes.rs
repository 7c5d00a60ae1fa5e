//! Causes of the difference of a decided finding: kinds of work by CPU samples, else events that one
//! cell has more of, each with its cost by the unit costs of the machine.
//!
//! The difference of a cause has an interval that excludes zero. One of the other sign is saved by the
//! dearer way. Wake-ups are in the cost of switches, acknowledgements and segments in that of packets.

use bytecost_spec::evidence::{COUNTED_TRIALS, CountedEvent, TrialEvidence};
use bytecost_spec::{Counter, Measure, Metric, Reading, Side, Transport};
use bytecost_stats::{Location, mean, student_mean};
use itertools::Itertools as _;

use crate::comparison::Pairing;
use crate::confidence::{FEWEST, LEVEL};
use crate::result::{Cause, CauseMeans, CauseOf, Finding, FindingCauses, Uncertain};
use crate::stages::JudgedPair;
use crate::stages::{Explained, Judged};
use crate::stalls::Stalls;
use crate::trials::CellTrials;

mod sampled;
mod unit_costs;

use sampled::{FoundCauses, LEAST_SHARE, SampledPair, ordered};
use unit_costs::UnitCosts;

/// The least share of the difference of a cause that is the reason for it.
const REASON: f64 = 0.5;
/// The largest sum of the shares of all causes; above it costs overlap, and none is given.
const MOST_SHARE: f64 = 1.2;
/// Factor by which the cost of counted events may be wrong, in addition to the errors of the counts and
/// of the unit costs. `benches/model_error.py` found at most 3.0 in ten causes of three runs on 2 virtual
/// CPUs.
const MODEL_ERROR: f64 = 3.0;
/// The error of copies of a byte that were counted once.
const COPIES_APART: f64 = 0.05;
/// The least ratio and the least difference of counts that are apart, without unit costs.
const LEAST_RATIO: f64 = 1.2;
const LEAST_DIFFERENCE: f64 = 0.02;

const CANDIDATES: [CauseOf; 5] = [
    CauseOf::Copies,
    CauseOf::Event(CountedEvent::SystemCalls),
    CauseOf::Event(CountedEvent::ContextSwitches),
    CauseOf::Event(CountedEvent::PageFaults),
    CauseOf::Event(CountedEvent::Packets),
];

/// Two cells of a finding, and the side whose events count.
struct Compared<'v> {
    run: &'v Judged<'v>,
    baseline: &'v CellTrials<'v>,
    other: &'v CellTrials<'v>,
    side: Side,
}

/// The number of an event for a message of each cell, and its excess in the dearer one.
#[derive(Clone, Copy)]
struct Counts {
    from: f64,
    to: f64,
    more: Option<Uncertain>,
}

/// The causes of every decided finding about time, in the order of the findings.
pub(crate) fn all(run: &Judged<'_>) -> Vec<FindingCauses> {
    let pairs = run.pairs();
    pairs
        .filter(|pair| is_worth_a_reason(pair.finding, &run.measured.stalls))
        .filter_map(|pair| finding_causes(run, &pair))
        .collect()
}

/// Returns true for decided findings of CPU time, and for others that are the first of their
/// comparison. Where one side waits for a timer, only its CPU time has causes.
pub(crate) fn is_worth_a_reason(finding: &Finding, stalls: &Stalls) -> bool {
    let of_cpu = match finding.metric.measure {
        Measure::CpuSPerGb => true,
        Measure::CpuNsPerMessage => finding.metric.side == Side::Server,
        _ => false,
    };
    let is_candidate = of_cpu || finding.first && !stalls.touch(finding);
    is_candidate && finding.is_apart()
}

/// The finding with the greatest ratio for each value and baseline, in descending order of the ratio;
/// `preferred` ones come first.
pub(crate) fn greatest<'f>(
    findings: impl Iterator<Item = &'f Finding>,
    preferred: impl Fn(&Finding) -> bool,
) -> Vec<&'f Finding> {
    let size = |f: &Finding| f.ratio.ln().abs();
    findings
        .sorted_by(|a, b| size(b).total_cmp(&size(a)))
        .sorted_by_key(|f| !preferred(f))
        .unique_by(|f| (f.axis, &f.value, &f.baseline_value))
        .collect()
}

fn finding_causes(run: &Judged<'_>, pair: &JudgedPair<'_>) -> Option<FindingCauses> {
    let finding = pair.finding;
    let Pairing {
        baseline, other, ..
    } = pair.pairing;
    let compared = Compared {
        run,
        baseline,
        other,
        side: if other.cell.is_served() {
            Side::Server
        } else {
            finding.metric.side
        },
    };
    let difference_ns = compared.difference_ns(finding)?;
    let sign = (finding.ratio - 1.0).signum();
    let (by, found) = match compared.sampled(finding.metric.measure, sign, difference_ns) {
        Some(found) => (CauseMeans::Samples, found),
        None => (
            if compared.is_counted() {
                CauseMeans::Counts
            } else {
                CauseMeans::TimedTrials
            },
            compared.priced(sign, difference_ns)?,
        ),
    };
    Some(FindingCauses {
        finding: finding.number,
        by,
        difference_ns,
        causes: found.causes,
        explained: found.explained,
    })
}

/// The cause that explains at least half of the difference of a finding; none where none does.
pub(crate) fn reason<'v>(run: &'v Explained<'_>, finding: usize) -> Option<&'v Cause> {
    let found = run.causes.iter().find(|c| c.finding == finding)?;
    let first = found.causes.first()?;
    (first.share?.value >= REASON).then_some(first)
}

fn is_apart(from: f64, to: f64) -> bool {
    let factor = to.max(LEAST_DIFFERENCE) / from.max(LEAST_DIFFERENCE);
    factor.ln().abs() > LEAST_RATIO.ln() && (to - from).abs() > LEAST_DIFFERENCE
}

impl Compared<'_> {
    /// The causes by CPU samples; none where not both cells were sampled, or where the samples show
    /// another difference than the timed trials.
    fn sampled(
        &self,
        measure: Measure,
        sign: f64,
        difference_ns: Uncertain,
    ) -> Option<FoundCauses> {
        if !matches!(measure, Measure::CpuSPerGb | Measure::CpuNsPerMessage) {
            return None;
        }
        let cell_time = |cell: &CellTrials<'_>| {
            let mut sampled = self.run.measured.cpu_time.iter();
            sampled.find(|time| time.cell == cell.id)
        };
        let pair = SampledPair {
            times: [cell_time(self.baseline)?, cell_time(self.other)?],
            message_bytes: self.other.cell.size_bytes,
            side: self.side,
            sign,
        };
        pair.causes(difference_ns)
    }

    /// The causes by counts times unit costs; none where neither is known of any event. Work in memory
    /// costs by its caches, of which none is counted here.
    fn priced(&self, sign: f64, difference_ns: Uncertain) -> Option<FoundCauses> {
        let route = self.baseline.route;
        let by_kernel = route.has_peer() || route.is_of_files() || self.baseline.cell.is_served();
        let candidates = CANDIDATES.map(|of| Some((of, self.more(of, sign)?)));
        if !by_kernel || candidates.iter().all(Option::is_none) {
            return None;
        }
        let causes = candidates.into_iter().flatten();
        let mut causes =
            ordered(causes.filter_map(|(of, counts)| self.cause(of, counts, sign, difference_ns)));
        // Savings alone explain nothing.
        let first = causes.first().and_then(|c| c.share);
        if first.is_some_and(|share| share.value < 0.0) {
            causes.clear();
        }
        let explained = Uncertain::sum(causes.iter().filter_map(|c| c.cost_ns))
            .map(|net| net.over(difference_ns))
            .filter(|e| e.value <= MOST_SHARE);
        if explained.is_none() {
            causes.iter_mut().for_each(|c| c.share = None);
        }
        Some(FoundCauses { causes, explained })
    }

    /// An event as a cause; none where its share of the difference is small. Without any unit costs, one
    /// that the dearer cell has clearly more of.
    fn cause(
        &self,
        of: CauseOf,
        counts: Counts,
        sign: f64,
        difference_ns: Uncertain,
    ) -> Option<Cause> {
        const MODEL: Uncertain = Uncertain {
            value: 1.0,
            low: 1.0 / MODEL_ERROR,
            high: MODEL_ERROR,
        };
        let more = counts.more.filter(|m| m.low > 0.0 || m.high < 0.0)?;
        let cost_ns = match of {
            CauseOf::Copies => self.copy_cost(sign, more),
            _ => self
                .unit_costs()
                .cause_cost(of)
                .map(|cost| more.times(cost)),
        }
        .map(|cost| cost.times(MODEL));
        let share = cost_ns.map(|cost| cost.over(difference_ns));
        let Counts { from, to, .. } = counts;
        let is_cause = match share {
            Some(share) => share.value.abs() >= LEAST_SHARE,
            None => {
                let has_cost =
                    |candidate: &CauseOf| self.unit_costs().cause_cost(*candidate).is_some();
                !CANDIDATES.iter().any(has_cost) && more.low > 0.0 && is_apart(from, to)
            }
        };
        is_cause.then_some(Cause {
            of,
            from,
            to,
            cost_ns,
            share,
        })
    }

    fn unit_costs(&self) -> UnitCosts<'_, '_> {
        UnitCosts {
            costs: &self.run.measured.input.manifest.survey.unit_costs,
            cell: self.other,
        }
    }

    /// The cost of more copies, by the copies that each end has more of.
    fn copy_cost(&self, sign: f64, more: Uncertain) -> Option<Uncertain> {
        let sent_ns = self.unit_costs().cause_cost(CauseOf::Copies)?;
        let received_ns = self.unit_costs().copy_received()?;
        let [sent, received] = [Side::Sender, Side::Receiver].map(|end| {
            let [from, to] = [self.baseline, self.other].map(|cell| {
                let counts = self.evidence_of(cell);
                mean(
                    &counts
                        .filter_map(|e| copies(e, end, self.side))
                        .collect_vec(),
                )
                .unwrap_or_default()
            });
            (sign * (to - from)).abs()
        });
        // The error of an end's count is a part of the whole, so that the weighted cost is multiplied by
        // the sum.
        let weight = (sent + received).max(f64::MIN_POSITIVE);
        let mixed = |end: fn(Uncertain) -> f64| {
            sent / weight * end(sent_ns) + received / weight * end(received_ns)
        };
        Some(more.times(Uncertain {
            value: mixed(|u| u.value),
            low: mixed(|u| u.low),
            high: mixed(|u| u.high),
        }))
    }

    /// The difference of a message's cost, in ns; none where messages have different sizes.
    fn difference_ns(&self, finding: &Finding) -> Option<Uncertain> {
        let (measure, ns) = match finding.metric.measure {
            Measure::CpuSPerGb | Measure::CpuNsPerMessage => (Measure::CpuNsPerMessage, 1.0),
            Measure::RoundTripNs => (Measure::RoundTripNs, 1.0),
            Measure::MsPerMessage => (Measure::MsPerMessage, 1e6),
            // Requests to a server wait for each other too.
            Measure::LatencyUsP50 if !self.other.cell.is_served() => (Measure::LatencyUsP50, 1e3),
            _ => return None,
        };
        let baseline = self.run.measured.result(&finding.baseline)?;
        let ns = ns * baseline.value(Metric::new(measure, finding.metric.side))?;
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

    /// The counts of an event in both cells; none where that of one is not known. Trials for evidence may
    /// behave unlike timed ones: counts of timed trials are preferred, and packets are scaled to their
    /// segments.
    fn more(&self, of: CauseOf, sign: f64) -> Option<Counts> {
        let both = [self.baseline, self.other];
        let counted = both.map(|cell| self.counted(of, cell));
        let enough = |trials: usize| counted.iter().all(|c| c.len() >= trials);
        if !enough(COUNTED_TRIALS) && of == CauseOf::Copies && enough(1) {
            // One trial counted: copies hardly vary by chance.
            let [from, to] = counted.map(|c| c[0]);
            let value = sign * (to - from);
            let more = Some(Uncertain {
                value,
                low: value - COPIES_APART,
                high: value + COPIES_APART,
            });
            return Some(Counts { from, to, more });
        }
        let timed = both.map(|cell| self.timed(of, cell));
        let is_timed = timed.iter().all(|t| t.len() >= FEWEST);
        let same = [CountedEvent::ContextSwitches, CountedEvent::PageFaults];
        let of_kernel = same.into_iter().any(|event| of == CauseOf::Event(event));
        let values = if !enough(COUNTED_TRIALS) || of_kernel && is_timed {
            timed
        } else if of == CauseOf::Event(CountedEvent::Packets) {
            both.map(|cell| {
                let scale = self.timed_over_counted_segments(cell).unwrap_or(1.0);
                let counts = self.counted(of, cell).into_iter();
                counts.map(|count| scale * count).collect()
            })
        } else {
            counted
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

    /// Segments a message in the timed trials of a cell over those in its trials for evidence.
    fn timed_over_counted_segments(&self, cell: &CellTrials<'_>) -> Option<f64> {
        let segments = (Counter::TcpDataSegments, Counter::Messages);
        let timed = cell
            .trials()
            .filter_map(|t| t.sent_over(segments.0, segments.1));
        let evidence = self.evidence_of(cell);
        let counted = evidence.filter_map(|e| events(e, CountedEvent::Segments, Side::Both));
        let [timed, counted] = [mean(&timed.collect_vec())?, mean(&counted.collect_vec())?];
        (timed > 0.0 && counted > 0.0).then(|| timed / counted)
    }

    /// The trials for evidence of a cell.
    fn evidence_of<'c>(
        &'c self,
        cell: &'c CellTrials<'_>,
    ) -> impl Iterator<Item = &'c TrialEvidence> {
        let trials = self.run.measured.input.evidence.iter();
        trials.filter(|trial| trial.cell == cell.id)
    }

    /// The counts of an event for a message in each trial for evidence of a cell.
    fn counted(&self, of: CauseOf, cell: &CellTrials<'_>) -> Vec<f64> {
        let count = |e: &TrialEvidence| match of {
            CauseOf::Copies => copies(e, Side::Both, self.side),
            CauseOf::Event(event) => events(e, event, self.side),
            CauseOf::Work(_) => None,
        };
        self.evidence_of(cell).filter_map(count).collect()
    }

    /// The same in each timed trial; empty for events that these do not count. Over loopback a segment
    /// is a packet.
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
        let metric = Metric::new(measure, side);
        cell.trials().filter_map(|t| t.value(metric)).collect()
    }

    fn is_counted(&self) -> bool {
        let is_seen = |cell: &CellTrials<'_>, of| !self.counted(of, cell).is_empty();
        let of = |of| is_seen(self.baseline, of) && is_seen(self.other, of);
        CANDIDATES.into_iter().any(of)
    }
}

/// Copies of each byte in one trial, where two sides agree; none where a place of it is not known.
fn copies(evidence: &TrialEvidence, one: Side, other: Side) -> Option<f64> {
    let found = evidence.copies.as_ref()?;
    let is_of_sides = |leg: Side| {
        [one, other]
            .iter()
            .all(|side| *side == Side::Both || leg == *side)
    };
    let legs = found.legs.iter().filter(|l| is_of_sides(l.leg.side()));
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
    let counts = evidence
        .counts
        .iter()
        .filter(|c| c.event == event && own(c.side));
    each(counts.map(|c| &c.count), evidence.sent_messages)
}

/// The sum of some readings for each of so many; none where one of them is not known.
fn each<'r>(readings: impl Iterator<Item = &'r Reading>, of: u64) -> Option<f64> {
    let known: Vec<u64> = readings.map(Reading::measured).collect::<Option<_>>()?;
    (!known.is_empty() && of > 0).then(|| known.iter().sum::<u64>() as f64 / of as f64)
}

/// The difference of two means with its interval (Welch), times a sign.
fn apart(from: Location, to: Location, sign: f64) -> Option<Uncertain> {
    let [a, b] = [from, to].map(|l| l.standard_error * l.standard_error);
    let spread = a * a / from.degrees + b * b / to.degrees;
    let difference = Location {
        value: sign * (to.value - from.value),
        standard_error: (a + b).sqrt(),
        degrees: if spread > 0.0 {
            (a + b) * (a + b) / spread
        } else {
            from.degrees + to.degrees
        },
        count: from.count + to.count,
        lent: 0.0,
    };
    Uncertain::from_location(difference, LEVEL)
}
