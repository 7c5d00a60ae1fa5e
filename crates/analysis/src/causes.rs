//! Why the two cells of a decided finding differ: the kinds of work that CPU samples show, or else
//! events of which one has more, each with what that costs by the unit costs of the machine.
//!
//! A cause has a difference whose interval leaves out zero. One of the other sign is what the dearer
//! way saves. Wake-ups are in the cost of switches, acknowledgements and segments in that of packets.

use bytecost_spec::evidence::{COUNTED_TRIALS, CountedEvent, KINDS, Kind, Party, TrialEvidence};
use bytecost_spec::survey::Priced;
use bytecost_spec::{Counter, Measure, Metric, Reading, Side, Transport};
use bytecost_spec::{cell::Placement, cell::Ring};
use bytecost_stats::{Location, mean, student_mean, trimmed_mean};
use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::judged_pair::JudgedPair;
use crate::pairing::Pairing;
use crate::result::{
    Cause, CauseMeans, CauseOf, CellTime, Finding, FindingCauses, TimePer, Uncertain,
};
use crate::stages::{Explained, Judged};
use crate::stalls::Stalls;
use crate::trials::CellTrials;

/// Shares of the difference below which nothing is a cause.
const LEAST_SHARE: f64 = 0.05;
/// Share of the difference from which on a cause is the reason for it.
const REASON: f64 = 0.5;
/// What all causes may come to before their costs are known not to add.
const MOST_SHARE: f64 = 1.2;
/// Factor by which the cost of counted events may be wrong, beside the error of the counts and of
/// the unit costs. `benches/model_error.py` found at most 3.0 in ten causes
/// of three runs on 2 virtual CPUs.
const MODEL_ERROR: f64 = 3.0;
/// How far the difference by samples may be from that of the timed trials, as a factor.
const SAMPLED_APART: f64 = 2.0;
/// Standard errors between the ends of a 95 % interval and its middle.
const ERRORS: f64 = 1.96;
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
    run: &'v Judged<'v>,
    baseline: &'v CellTrials<'a>,
    other: &'v CellTrials<'a>,
    side: Side,
}

/// How often a message of each cell has something, and how much more of it the dearer one has.
#[derive(Clone, Copy)]
struct Counts {
    from: f64,
    to: f64,
    more: Option<Uncertain>,
}

/// What was found of the causes of a difference, and by what means.
struct Found {
    by: CauseMeans,
    causes: Vec<Cause>,
    explained: Option<Uncertain>,
}

/// The causes of every decided finding about time, in the order of the findings.
pub(crate) fn all(run: &Judged<'_>) -> Vec<FindingCauses> {
    let pairs = run.pairs();
    let worth_it = pairs.filter(|pair| is_worth_a_reason(pair.finding, &run.stalls));
    worth_it.filter_map(|pair| of(run, &pair)).collect()
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

fn of(run: &Judged<'_>, pair: &JudgedPair<'_>) -> Option<FindingCauses> {
    let finding = pair.finding;
    let Pairing {
        baseline, other, ..
    } = pair.pairing;
    let compared = Compared {
        run,
        baseline,
        other,
        side: match other.cell.is_served() {
            true => Side::Server,
            false => finding.metric.side,
        },
    };
    let difference_ns = compared.difference_ns(finding)?;
    let sign = (finding.ratio - 1.0).signum();
    let sampled = compared.sampled(finding.metric.measure, sign, difference_ns);
    let found = sampled.or_else(|| compared.priced(sign, difference_ns))?;
    Some(FindingCauses {
        finding: finding.number,
        by: found.by,
        difference_ns,
        causes: found.causes,
        explained: found.explained,
    })
}

/// The causes that carry at least half of the difference of a finding; none where none does.
pub(crate) fn reason<'v>(run: &'v Explained<'_>, finding: usize) -> Option<&'v Cause> {
    let found = run.causes.iter().find(|c| c.finding == finding)?;
    let first = found.causes.first()?;
    first
        .share
        .filter(|share| share.value >= REASON)
        .map(|_| first)
}

/// The most costly first; what the dearer way saves is last.
fn ordered(causes: impl Iterator<Item = Cause>) -> Vec<Cause> {
    let cost = |c: &Cause| c.cost_ns.map_or(0.0, |c| c.value);
    let causes = causes.sorted_by(|a, b| cost(b).total_cmp(&cost(a)));
    causes.collect()
}

fn is_apart(from: f64, to: f64) -> bool {
    let least = APART.1;
    let factor = to.max(least) / from.max(least);
    factor.ln().abs() > APART.0.ln() && (to - from).abs() > least
}

/// Whether the two ends of a cell share a CPU.
enum Ends {
    SameCpu,
    OtherCpu,
    /// The scheduler chose.
    Free,
}

impl Compared<'_, '_> {
    /// By CPU samples, which show all work there is: each kind's part of the difference. None where
    /// not both cells were sampled, or where the samples show another difference than the timed trials.
    fn sampled(&self, measure: Measure, sign: f64, difference_ns: Uncertain) -> Option<Found> {
        if !matches!(measure, Measure::CpuSPerGb | Measure::CpuNsPerMessage) {
            return None;
        }
        let cell_time = |cell: &CellTrials<'_>| {
            let mut sampled = self.run.cpu_time.iter();
            sampled.find(|time| time.cell == cell.id)
        };
        let [from, to] = [cell_time(self.baseline)?, cell_time(self.other)?];
        // ns a message, and its variance.
        let of_kind = |time: &CellTime, kind: Kind| {
            let messages = match time.per {
                TimePer::Kib => self.other.cell.size_bytes as f64 / 1024.0,
                TimePer::Request => 1.0,
            };
            let parties = time.kinds.iter().filter(|k| k.kind == kind);
            let parties = parties.filter(|k| self.is_of_side(k.party));
            let ns_and_looks = parties.map(|k| (messages * k.ns_per_unit, k.looks.max(1) as f64));
            ns_and_looks.fold((0.0, 0.0), |sum, (ns, looks)| {
                (sum.0 + ns, sum.1 + ns * ns / looks)
            })
        };
        let kinds = KINDS.iter().map(|row| {
            let [(from, a), (to, b)] = [of_kind(from, row.kind), of_kind(to, row.kind)];
            (row.kind, from, to, a + b)
        });
        let kinds = kinds.collect_vec();
        let more_ns: f64 = kinds
            .iter()
            .map(|(_, from, to, _)| sign * (to - from))
            .sum();
        let variance: f64 = kinds.iter().map(|(.., variance)| variance).sum();
        let is_seen = more_ns > ERRORS * variance.sqrt();
        let apart = (more_ns / difference_ns.value).ln().abs();
        if !is_seen || apart > SAMPLED_APART.ln() {
            return None;
        }
        // A kind is a part of the whole that it is compared with.
        let share = |more: f64, part: f64| {
            let value = more / more_ns;
            let others = variance - part;
            let error = ((1.0 - value).powi(2) * part + value * value * others).sqrt() / more_ns;
            Uncertain {
                value,
                low: value - ERRORS * error,
                high: value + ERRORS * error,
            }
        };
        let causes = kinds.iter().filter_map(|&(kind, from, to, variance)| {
            let more = sign * (to - from);
            let share = share(more, variance);
            let is_cause =
                more.abs() > ERRORS * variance.sqrt() && share.value.abs() >= LEAST_SHARE;
            (is_cause && kind != Kind::Unattributed).then(|| Cause {
                of: CauseOf::Work(kind),
                from,
                to,
                cost_ns: Some(share.times(difference_ns)),
                share: Some(share),
            })
        });
        let causes = ordered(causes);
        let is_cause = |kind: Kind| causes.iter().any(|c| c.of == CauseOf::Work(kind));
        let named = || kinds.iter().filter(|(kind, ..)| is_cause(*kind));
        let more = named().map(|(_, from, to, _)| sign * (to - from)).sum();
        let explained = share(more, named().map(|(.., variance)| variance).sum());
        Some(Found {
            by: CauseMeans::Samples,
            explained: (!causes.is_empty()).then_some(explained),
            causes,
        })
    }

    fn is_of_side(&self, party: Party) -> bool {
        match self.side {
            Side::Sender | Side::Client => party == Party::Sender,
            Side::Receiver | Side::Server => party == Party::Receiver,
            Side::Both => party != Party::Rest,
        }
    }

    /// By counts times unit costs; none where neither is known of any event.
    fn priced(&self, sign: f64, difference_ns: Uncertain) -> Option<Found> {
        // What works in memory alone costs by its caches, of which none is counted here.
        let route = self.baseline.route;
        let by_kernel = route.has_peer() || route.is_of_files() || self.baseline.cell.is_served();
        let known = CANDIDATES.map(|of| Some((of, self.more(of, sign)?)));
        if !by_kernel || known.iter().all(Option::is_none) {
            return None;
        }
        let has_costs = CANDIDATES.iter().any(|of| self.price(*of).is_some());
        let cause = |(of, counts): (CauseOf, Counts)| {
            let more = counts.more.filter(|m| m.low > 0.0 || m.high < 0.0)?;
            let cost_ns = match of {
                CauseOf::Copies => self.copy_cost(sign, more),
                _ => self.price(of).map(|price| more.times(price)),
            };
            let model = Uncertain {
                value: 1.0,
                low: 1.0 / MODEL_ERROR,
                high: MODEL_ERROR,
            };
            let cost_ns = cost_ns.map(|cost| cost.times(model));
            let share = cost_ns.map(|cost| cost.over(difference_ns));
            let Counts { from, to, .. } = counts;
            let is_cause = match share {
                Some(share) => share.value.abs() >= LEAST_SHARE,
                None => !has_costs && more.low > 0.0 && is_apart(from, to),
            };
            is_cause.then_some(Cause {
                of,
                from,
                to,
                cost_ns,
                share,
            })
        };
        let mut causes = ordered(known.into_iter().flatten().filter_map(cause));
        // Savings alone explain nothing.
        if causes
            .first()
            .and_then(|c| c.share)
            .is_some_and(|share| share.value < 0.0)
        {
            causes.clear();
        }
        let net = Uncertain::sum(causes.iter().filter_map(|c| c.cost_ns));
        let explained = net.map(|net| net.over(difference_ns));
        let explained = explained.filter(|e| e.value <= MOST_SHARE);
        if explained.is_none() {
            causes.iter_mut().for_each(|c| c.share = None);
        }
        Some(Found {
            by: if self.is_counted() {
                CauseMeans::Counts
            } else {
                CauseMeans::TimedTrials
            },
            causes,
            explained,
        })
    }

    /// The cost of more copies, by where they are: a reader whose bytes another CPU has just written
    /// has them in no cache of its own.
    fn copy_cost(&self, sign: f64, more: Uncertain) -> Option<Uncertain> {
        let price = self.price(CauseOf::Copies)?;
        let legs = [Side::Sender, Side::Receiver].map(|leg| {
            let means = [self.baseline, self.other].map(|cell| {
                let counts = self
                    .evidence_of(cell)
                    .filter_map(|e| copies(e, leg, self.side));
                mean(&counts.collect_vec())
            });
            let [from, to] = means;
            sign * (to.unwrap_or_default() - from.unwrap_or_default())
        });
        let size = Uncertain::exact(self.other.cell.size_bytes as f64);
        let other_cpu = self.cost(Priced::CopyOtherCpu).map(|cost| cost.times(size));
        let received = match (self.ends(), other_cpu) {
            (Ends::SameCpu, _) | (_, None) => price,
            (Ends::OtherCpu, Some(other)) => other,
            (Ends::Free, Some(other)) => price.up_to(other),
        };
        // One leg's error is a part of the whole, so that the mean price is taken times it.
        let [sent, read] = legs;
        let weight = (sent.abs() + read.abs()).max(f64::MIN_POSITIVE);
        let [a, b] = [
            (sent.abs() / weight, price),
            (read.abs() / weight, received),
        ];
        let mixed = |end: fn(Uncertain) -> f64| a.0 * end(a.1) + b.0 * end(b.1);
        Some(more.times(Uncertain {
            value: mixed(|u| u.value),
            low: mixed(|u| u.low),
            high: mixed(|u| u.high),
        }))
    }

    fn ends(&self) -> Ends {
        match &self.other.cell.placement {
            Placement::Within { cpus } if cpus.len() == 1 => Ends::SameCpu,
            Placement::Cpus { sender, receiver } if sender == receiver => Ends::SameCpu,
            Placement::Cpus { .. } | Placement::Pinned => Ends::OtherCpu,
            _ => Ends::Free,
        }
    }

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
        let baseline = self.run.result(&finding.baseline)?;
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

    /// None where the count of one is not known. Trials for evidence may run in another regime than
    /// timed ones, so that what these count themselves is theirs, and packets are scaled to theirs.
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
        let timed = both.map(|cell| self.timed(of, cell));
        let is_timed = timed.iter().all(|t| t.len() >= FEWEST);
        let same = [CountedEvent::ContextSwitches, CountedEvent::PageFaults];
        let of_kernel = same.into_iter().any(|event| of == CauseOf::Event(event));
        let values = match enough(COUNTED_TRIALS) {
            true if of_kernel && is_timed => timed,
            true if of == CauseOf::Event(CountedEvent::Packets) => {
                let scales = both.map(|cell| self.timed_over_counted_segments(cell));
                let mut scales = scales.into_iter();
                counted.map(|counts| {
                    let scale = scales.next().flatten().unwrap_or(1.0);
                    counts.into_iter().map(|count| scale * count).collect()
                })
            }
            true => counted,
            false => timed,
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
        let trials = self.run.input.evidence.iter();
        trials.filter(|trial| trial.cell == cell.id)
    }

    /// In each trial of evidence of a cell.
    fn counted(&self, of: CauseOf, cell: &CellTrials<'_>) -> Vec<f64> {
        let count = |e: &TrialEvidence| match of {
            CauseOf::Copies => copies(e, Side::Both, self.side),
            CauseOf::Event(event) => events(e, event, self.side),
            CauseOf::Work(_) => None,
        };
        self.evidence_of(cell).filter_map(count).collect()
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
        let event = match of {
            CauseOf::Event(event) => event,
            CauseOf::Copies => return self.copy_near(),
            CauseOf::Work(_) => return None,
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

    /// What one more copy of a message costs, in ns, out of what the sender's caches have of it.
    fn copy_near(&self) -> Option<Uncertain> {
        let cell = self.other.cell;
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
        Some(self.cost(copy)?.times(size))
    }

    /// A switch on one CPU, or one that another CPU asks for, which may cost ten times as much.
    fn switch(&self) -> Option<Uncertain> {
        let same = self.cost(Priced::SwitchSameCpu);
        let other = self.cost(Priced::SwitchOtherCpu);
        match self.ends() {
            Ends::SameCpu => same,
            Ends::OtherCpu => other,
            Ends::Free => same
                .zip(other)
                .map(|(same, other)| same.up_to(other))
                .or(same)
                .or(other),
        }
    }

    /// What one event cost this machine; none where it was not found to cost anything, and where
    /// others ran in most of the repetitions.
    fn cost(&self, event: Priced) -> Option<Uncertain> {
        let costs = &self.run.input.manifest.survey.unit_costs;
        let trials = costs.iter().find(|c| c.event == event)?.undisturbed();
        let each = trials
            .iter()
            .map(|t| t.cpu_ns as f64 / t.events.max(1) as f64);
        let location = trimmed_mean(&each.collect_vec())?;
        within(location).filter(|cost| cost.low > 0.0)
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
