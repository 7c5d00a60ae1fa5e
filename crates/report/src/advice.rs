//! The advice in words: a sentence for each thing that a reader may have, and notes on single ways.

use bytecost_analysis::{
    Analysis, DecidedPoint, DecidedRange, Finding, MeasureKind, Situation, Subject, Verdict,
    grouped,
};
use bytecost_spec::{Axis, Measure, Metric, Value};
use itertools::Itertools as _;

use crate::phrases;

mod notes;
mod nothing;
mod range;
mod undecided;

use notes::{is_alone_the_best, only};
pub(crate) use notes::{network_card, note, rivals};
use range::{amount, are_less, places, span};
use undecided::nothing_decided;
pub(crate) use undecided::{open, undecided};

use crate::text::joined;

/// Ratio of the greatest to the least of several ratios from which on each is given with its place.
const WIDE: f64 = 1.5;
/// The most clauses of a sentence.
const MOST_CLAUSES: usize = 3;
/// The most places that a sentence names one by one.
const MOST_PLACES: usize = 2;

/// A sentence of the advice with the numbers of the findings that it rests on.
pub(crate) struct Sentence {
    /// Title of the situation: `Data in memory`.
    pub label: String,
    /// Recommendation for the situation, without the full stop.
    pub text: String,
    /// Recommendation without amounts, for a screen without room for them.
    pub brief: String,
    pub findings: Vec<usize>,
}

/// The advice, most wanted first. A way that has a condition is never in it.
pub(crate) fn sentences(a: &Analysis) -> Vec<Sentence> {
    let bare = |label: &str, text: String| Sentence {
        label: label.to_owned(),
        brief: text.clone(),
        text,
        findings: Vec::new(),
    };
    if let Some(why) = &a.advice.nothing {
        return vec![bare("Nothing compared", nothing::sentence(why))];
    }
    let shared = a.advice.shared_place();
    let subjects = grouped(a.advice.situations.iter().map(|s| (title(s), s)));
    let sentences: Vec<Sentence> = (subjects.iter())
        .filter_map(|(title, situations)| sentence(a, title, situations, &shared))
        .collect();
    match &a.advice.undecided {
        _ if !sentences.is_empty() => sentences,
        Some(undecided) => vec![bare("Nothing decided", nothing_decided(a, undecided))],
        None if a.findings.iter().all(is_alike) && !a.findings.is_empty() => {
            let text = "no difference that matters was found between what is compared";
            vec![bare("No difference", text.to_owned())]
        }
        None => Vec::new(),
    }
}

fn is_alike(finding: &Finding) -> bool {
    finding.withheld.is_none() && finding.verdict == Verdict::NoDifferenceThatMatters
}

fn sentence(
    a: &Analysis,
    title: &str,
    situations: &[&Situation],
    shared: &[(Axis, Value)],
) -> Option<Sentence> {
    let is_choice = situations.iter().any(|s| s.subject.is_choice());
    let mut claims: Vec<Claim<'_>> = Vec::new();
    for s in situations {
        claims.extend(if is_choice {
            Claim::of_uses(s)
        } else {
            Claim::of_change(s)
        });
    }
    claims.retain(|claim| !is_choice || !claim.is_weaker_than_another(situations));
    let groups = grouped(claims.into_iter().map(|claim| (claim.key(), claim)));
    let mut findings = Vec::new();
    let mut clauses = Vec::new();
    for (_, alike) in groups.iter().take(MOST_CLAUSES) {
        clauses.push(clause(a, alike, situations, shared, is_choice));
        findings.extend(alike.iter().flat_map(|c| c.points()).map(|p| p.finding));
    }
    if clauses.is_empty() {
        let conditional = situations.iter().flat_map(|s| {
            let better = s.conditional.iter().map(|c| (&c.gain.value, &c.conditions));
            let used = s.uses.iter().map(|u| (&u.value, &u.conditions));
            let ways = better.chain(used).filter(|(_, needs)| !needs.is_empty());
            ways.map(|(way, needs)| format!("{} {}", s.axis.subject(way), only(needs)))
        });
        let ways: Vec<String> = conditional.unique().take(MOST_CLAUSES).collect();
        return (!ways.is_empty()).then(|| Sentence {
            label: title.to_owned(),
            text: format!("no advice without a condition: {}", ways.join("; ")),
            brief: "no advice without a condition: see the notes".to_owned(),
            findings,
        });
    }
    if groups.len() > clauses.len() {
        let more = "see the table for more".to_owned();
        clauses.push(Clause {
            brief: more.clone(),
            text: more,
        });
    }
    Some(Sentence {
        label: title.to_owned(),
        text: clauses.iter().map(|c| &c.text).join("; "),
        brief: clauses.iter().map(|c| &c.brief).join("; "),
        findings,
    })
}

/// Recommendation or cost of one way in one situation: a clause of a sentence.
struct Claim<'s> {
    situation: &'s Situation,
    way: &'s Value,
    /// Values of the situation's axis at which the claim holds.
    at: Vec<Value>,
    /// Range of the ratios to the baseline; none where the way is the baseline itself and nothing
    /// is shown to be better.
    range: Option<&'s DecidedRange>,
}

impl<'s> Claim<'s> {
    /// Claims for the uses without a condition; a way without an amount is listed once.
    fn of_uses(situation: &'s Situation) -> Vec<Claim<'s>> {
        let mut claims: Vec<Claim<'s>> = Vec::new();
        for used in situation.uses.iter().filter(|u| u.conditions.is_empty()) {
            let mut known = claims.iter_mut();
            let is_same = |claim: &&mut Claim<'_>| {
                *claim.way == used.value && claim.range.is_none() && used.gain.is_none()
            };
            match known.find(is_same) {
                Some(claim) => claim.at.extend(used.at.iter().cloned()),
                None => claims.push(Claim {
                    situation,
                    way: &used.value,
                    at: used.at.clone(),
                    range: used.gain.as_ref(),
                }),
            }
        }
        claims
    }

    /// Claims for the effects of a circumstance: worse first, then better.
    fn of_change(situation: &'s Situation) -> Vec<Claim<'s>> {
        if situation.subject != Subject::Circumstance {
            return Vec::new();
        }
        let worse = situation.avoid.iter().map(|avoid| &avoid.cost);
        let claim = |range: &'s DecidedRange| Claim {
            situation,
            way: &range.value,
            at: places(range),
            range: Some(range),
        };
        worse.chain(&situation.gains).map(claim).collect()
    }

    /// Key of a claim: claims with the same key make one clause.
    fn key(&self) -> (&'s Value, &'s Value, Option<(Metric, bool)>, String) {
        let s = self.situation;
        let relation = self.range.map(|range| (s.metric, are_less(&range.points)));
        (self.way, &s.baseline, relation, self.span())
    }

    /// The claim's values along the situation's axis; empty where they are all that were measured, or
    /// all of which anything is decided.
    fn span(&self) -> String {
        let s = self.situation;
        let is_open = |at: &&Value| s.undecided.contains(at) || s.withheld.contains(at);
        let others = s.measured.iter().filter(|at| !self.at.contains(at));
        let is_whole = others.clone().next().is_none();
        if is_whole || self.range.is_none() && others.clone().all(|at| is_open(&at)) {
            return String::new();
        }
        span(s, &self.at)
    }

    /// Addition to a claim without an amount: the values for which nothing is decided.
    fn open(&self) -> String {
        let s = self.situation;
        [("undecided", &s.undecided), ("no verdict", &s.withheld)]
            .into_iter()
            .filter(|(_, at)| !at.is_empty())
            .map(|(what, at)| format!("; {what} {}", span(s, at)))
            .collect()
    }

    fn points(&self) -> &'s [DecidedPoint] {
        self.range.map_or(&[], |range| &range.points)
    }

    /// Returns true if nothing was shown to be better than this way, and another situation of the same
    /// reader shows that something is, or that this way is better or worse than another baseline.
    fn is_weaker_than_another(&self, situations: &[&Situation]) -> bool {
        if self.range.is_some() {
            return false;
        }
        let is_here = |range: &DecidedRange| {
            let at = places(range);
            self.at.is_empty() || self.at.iter().any(|place| at.contains(place))
        };
        let mut alike = situations.iter().filter(|s| s.is_alike(self.situation));
        alike.any(|other| {
            let gains = || other.uses.iter().filter_map(|u| u.gain.as_ref());
            let conditional = other.conditional.iter().map(|c| &c.gain);
            let worse = other.avoid.iter().map(|avoid| &avoid.cost);
            let is_worse_baseline = other.baseline == *self.way && gains().any(is_here);
            let mut decided = gains().chain(conditional).chain(worse);
            is_worse_baseline || decided.any(|range| range.value == *self.way && is_here(range))
        })
    }
}

/// A clause of a sentence, in full and without amounts.
struct Clause {
    text: String,
    brief: String,
}

/// One way with all of its places.
fn clause(
    a: &Analysis,
    claims: &[Claim<'_>],
    situations: &[&Situation],
    shared: &[(Axis, Value)],
    is_choice: bool,
) -> Clause {
    let first = &claims[0];
    let s = first.situation;
    let place = place(claims, situations, shared, is_choice);
    if !is_choice {
        let way = joined([subject(s.axis, first.way), first.span()], " ");
        let text = format!("{place}{way}: {}", relation(claims));
        return Clause {
            brief: text.clone(),
            text,
        };
    }
    let way = joined([s.axis.subject(first.way), first.span()], " ");
    if first.range.is_none() {
        let is_best = |c: &Claim<'_>| is_alone_the_best(a, c.situation, c.way);
        let mut words = if claims.iter().all(is_best) {
            "the best".to_owned()
        } else {
            "nothing better was shown".to_owned()
        };
        if claims.iter().any(|c| !c.situation.conditional.is_empty()) {
            words += " without a condition";
        }
        if claims.len() == 1 && first.span().is_empty() {
            words += &first.open();
        }
        return Clause {
            text: format!("{place}use {way}: {words}"),
            brief: format!("{place}use {way}"),
        };
    }
    let verb = match MeasureKind::from(s.metric.measure) {
        _ if s.metric.measure == Measure::MsPerMessage => "takes",
        MeasureKind::Cost => "takes",
        MeasureKind::Rate => "reaches",
        MeasureKind::Time | MeasureKind::Number => "has",
    };
    let rivals = (claims.iter()).flat_map(|c| rivals(a, c.situation, c.way, &c.at));
    let ties = phrases::list(grouped(rivals).into_iter().map(|(tie, at)| {
        let (tie, some, all) = (s.axis.subject(&tie), at.len(), first.at.len());
        if some < all {
            format!("{tie} at {some} of {all}")
        } else {
            tie
        }
    }));
    let brief = match ties.as_str() {
        "" => format!("{place}use {way}"),
        ties => format!("{place}use {way} (tied with {ties})"),
    };
    Clause {
        text: format!("{brief}, which {verb} {}", relation(claims)),
        brief,
    }
}

/// A value of an axis in words, with the name of the axis before a bare number.
fn subject(axis: Axis, value: &Value) -> String {
    if axis == Axis::Background {
        axis.in_words(value)
    } else {
        axis.subject(value)
    }
}

/// Difference of a way from its baseline in words: ``12–25 % less CPU time per byte than `send` ``.
/// Ratios far apart are given with their places.
fn relation(claims: &[Claim<'_>]) -> String {
    let s = claims[0].situation;
    let points: Vec<&DecidedPoint> = claims.iter().flat_map(Claim::points).collect();
    let less = are_less(points.iter().copied());
    let has_amount = !points.iter().any(|p| p.has_no_amount);
    let base = baseline(s);
    let noun = phrases::metric(s.metric, s.unit);
    let of = if less || !has_amount {
        format!("{noun} than {base}")
    } else {
        format!("the {noun} of {base}")
    };
    let strength = |p: &DecidedPoint| p.ratio.ln().abs();
    let extremes = (points.iter().copied())
        .minmax_by(|x, y| strength(x).total_cmp(&strength(y)))
        .into_option()
        .filter(|(weakest, strongest)| {
            let is_far = strength(strongest) - strength(weakest) > WIDE.ln();
            has_amount && is_far && s.along.is_some() && weakest.at != strongest.at
        });
    let Some((weakest, strongest)) = extremes else {
        return format!("{} {of}", amount(points));
    };
    let position = |p: &DecidedPoint| s.measured.iter().position(|at| Some(at) == p.at.as_ref());
    let mut ends = [weakest, strongest];
    ends.sort_by_key(|p| position(p));
    let [from, to] = ends.map(|end| amount(points.iter().copied().filter(|p| p.at == end.at)));
    let [here, there] = ends.map(|end| {
        let place = s.along.zip(end.at.as_ref());
        place.map_or_else(String::new, |(axis, at)| axis.circumstance(at))
    });
    format!("{from} {of} {here}, and {to} {there}")
}

/// The circumstances in which claims hold; empty for a choice that is good wherever was measured.
fn place(
    claims: &[Claim<'_>],
    situations: &[&Situation],
    shared: &[(Axis, Value)],
    is_choice: bool,
) -> String {
    let is_claimed = |s: &&Situation| claims.iter().any(|c| std::ptr::eq(c.situation, *s));
    if is_choice && situations.iter().all(is_claimed) {
        return String::new();
    }
    let unshared = |s: &Situation| -> Vec<(Axis, Value)> {
        let places = s.place.iter().filter(|at| !shared.contains(at));
        places.cloned().collect()
    };
    // A place has no default values, which distinguish situations all the same.
    let axes = situations
        .iter()
        .flat_map(|s| unshared(s))
        .map(|(axis, _)| axis);
    let axes: Vec<Axis> = axes.unique().collect();
    let names = claims.iter().map(|c| {
        let here = unshared(c.situation);
        let default = |axis: &Axis| (*axis, Value::parse(axis.row().default));
        let missing = axes
            .iter()
            .filter(|axis| here.iter().all(|(named, _)| named != *axis));
        let all = here.iter().cloned().chain(missing.map(default));
        let mut words = all.map(|(axis, value)| place_word(axis, &value));
        words.join(", ")
    });
    let names: Vec<String> = names.filter(|name| !name.is_empty()).unique().collect();
    match names.len() {
        n if n > MOST_PLACES => format!("in {n} places, "),
        0 => String::new(),
        _ => format!("{}, ", names.join(" and ")),
    }
}

fn place_word(axis: Axis, value: &Value) -> String {
    match (axis, value.word()) {
        (Axis::Transport, "loopback") => "over loopback TCP".to_owned(),
        (Axis::Transport, "unix") => "over Unix sockets".to_owned(),
        (Axis::Transport, "veth") => "over TCP on veth".to_owned(),
        (Axis::Transport, "wire") => "over wire, where nobody receives".to_owned(),
        (Axis::Transport, "peer") => "over the network".to_owned(),
        (Axis::Cache, "warm") => "in the page cache".to_owned(),
        (Axis::Cache, "cold") => "not in the page cache".to_owned(),
        (Axis::Cache, "direct") => "past the page cache (O_DIRECT)".to_owned(),
        (Axis::Pattern, _) => "with request and response".to_owned(),
        _ => axis.circumstance(value),
    }
}

/// The baseline in words, with its block where the others have none, and with the cost that it
/// leaves out.
fn baseline(s: &Situation) -> String {
    let block = s.baseline_block.iter();
    let mut words = vec![subject(s.axis, &s.baseline)];
    words.extend(block.map(|value| Axis::Block.circumstance(value)));
    if s.baseline_is_apart {
        words.push("alone, before the cost of reading the file".to_owned());
    }
    words.join(" ")
}

/// Title of a situation, for advice and tables.
pub(crate) fn title(s: &Situation) -> String {
    let title = match (s.subject, s.axis) {
        (Subject::DataInMemory, _) => "Data in memory",
        (Subject::DataInFile, _) => "Data in a file",
        (Subject::ReadFile, _) => "Reading a file",
        (Subject::WriteFile, _) => "Writing a file",
        (Subject::CopyFile, _) => "Copying a file",
        (Subject::FileToNull, _) => "A file to nowhere",
        (Subject::Connections, _) => "Many connections",
        (Subject::OneConnection, _) => "One connection",
        (_, Axis::Placement) => "Where threads run",
        (_, Axis::Class) => "Scheduler class",
        (_, Axis::Cgroup) => "Control group",
        (_, Axis::Background) => "Background load",
        (_, Axis::Idle) => "Idle connections",
        (_, Axis::Threads) => "More threads",
        (_, Axis::Receiver) => "Receiving",
        (_, Axis::HugePages) => "Huge pages",
        (_, Axis::Nodelay) => "TCP_NODELAY",
        (_, Axis::Cork) => "TCP_CORK",
        (_, Axis::Quickack) => "TCP_QUICKACK",
        (Subject::Circumstance, Axis::Mover) => "Kind of work",
        (_, Axis::Mover) => "Ways of waiting",
        (_, axis) => return phrases::capital(axis.name()),
    };
    title.to_owned()
}
