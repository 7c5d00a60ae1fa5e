//! A sentence of the answer: its places and amounts, and how sentences of one form become one.

use bytecost_spec::Axis;
use itertools::Itertools as _;

use crate::grouping::grouped;
use crate::phrases;
use crate::result::{AdviceLine, DecidedPoint, DecidedRange, Situation};

/// How far the strongest of several ratios lies from the weakest where each is told with its place.
const WIDE: f64 = 1.5;
/// How far an end of a range lies from the next that is named, to be named too.
const APART: f64 = 1.25;
/// Places that are told one by one where many have the same advice.
const PLACES: usize = 4;
/// How a cell gets to the other host, which the finished lines name.
pub(super) const OVER_NETWORK: &str = "over the network";

/// The axis over whose values sentences of one form are one, with the amounts of all of them.
const JOINED: Axis = Axis::Threads;

/// A sentence about one place, which others may share.
pub(super) struct Said<'s> {
    /// What it is said of: situations that differ in [`JOINED`] alone.
    pub situations: Vec<&'s Situation>,
    pub label: String,
    pub text: Vec<Part>,
    pub brief: Option<String>,
    pub findings: Vec<String>,
}

pub(super) enum Part {
    Words(String),
    /// What an amount is of, and what it is compared with: a clause after one that ends so leaves it out.
    Than(String),
    /// What is said where no clause follows alone.
    Alone(String),
    /// How much, and where along the range if that is to be named beside it.
    Amount {
        range: DecidedRange,
        with_places: bool,
    },
}

/// The value of [`JOINED`] in a situation; its place does not name the usual one.
fn joined(s: &Situation) -> &str {
    let named = s.place.iter().find(|(axis, _)| *axis == JOINED);
    named.map_or(JOINED.row().default, |(_, value)| value)
}

fn elsewhere(s: &Situation) -> Vec<&(Axis, String)> {
    let place = s.place.iter();
    place.filter(|(axis, _)| *axis != JOINED).collect()
}

impl<'s> Said<'s> {
    /// Whether it says the same of another value of [`JOINED`], by other amounts perhaps.
    fn has_form_of(&self, other: &Said<'_>) -> bool {
        let alike = |own: &Situation, other: &Situation| {
            elsewhere(own) == elsewhere(other)
                && (own.along, &own.measured) == (other.along, &other.measured)
                && joined(own) != joined(other)
        };
        let mut pairs = self.situations.iter().cartesian_product(&other.situations);
        (&self.label, &self.brief) == (&other.label, &other.brief)
            && pairs.all(|(own, other)| alike(own, other))
            && self.text.len() == other.text.len()
            && (self.text.iter().zip(&other.text)).all(|(own, other)| own.has_form_of(other))
    }

    fn join(&mut self, other: Said<'s>) {
        for (own, other) in self.text.iter_mut().zip(other.text) {
            if let (Part::Amount { range, .. }, Part::Amount { range: more, .. }) = (own, other) {
                range.points.extend(more.points);
            }
        }
        self.situations.extend(other.situations);
        self.findings.extend(other.findings);
    }

    fn place(&self, shared: &[(Axis, String)]) -> String {
        let number = |value: &str| JOINED.number(value).unwrap_or_default();
        let values = self.situations.iter().map(|s| joined(s));
        let values = values.sorted_by(|a, b| number(a).total_cmp(&number(b)));
        let values = phrases::list(values);
        // The usual value alone has no words; beside others it has.
        let named = self.situations.iter().max_by_key(|s| s.place.len());
        let told = named.into_iter().flat_map(|s| &s.place);
        let told = told.filter(|at| !shared.contains(at)).map(|at| match at {
            (JOINED, value) => (JOINED.circumstance(value)).replacen(value, &values, 1),
            (Axis::Transport, value) => transport(value),
            (Axis::Cache, value) => cache(value).to_owned(),
            (Axis::Pattern, _) => "request and response".to_owned(),
            (axis, value) => axis.circumstance(value),
        });
        told.collect_vec().join(", ")
    }

    /// What its amounts are of and compared with.
    fn than(&self) -> Option<&String> {
        self.text.iter().find_map(|part| match part {
            Part::Than(words) => Some(words),
            _ => None,
        })
    }

    fn text(&self, with_than: bool, is_alone: bool) -> String {
        let s = self.situations[0];
        let told = self.text.iter().map(|part| match part {
            Part::Words(words) => words.clone(),
            Part::Than(words) => words.repeat(usize::from(with_than)),
            Part::Alone(words) => words.repeat(usize::from(is_alone)),
            Part::Amount { range, with_places } => match with_places {
                true => amount(s, range) + &at(s, range),
                false => amount(s, range),
            },
        });
        told.collect()
    }
}

impl Part {
    fn has_form_of(&self, other: &Part) -> bool {
        match (self, other) {
            (Part::Words(own), Part::Words(other))
            | (Part::Than(own), Part::Than(other))
            | (Part::Alone(own), Part::Alone(other)) => own == other,
            (Part::Amount { range: own, .. }, Part::Amount { range: other, .. }) => {
                let form = |r: &DecidedRange| {
                    let said = (is_less(r), has_amounts(r));
                    (r.value.clone(), r.metric, r.verdict, said)
                };
                form(own) == form(other) && places(own) == places(other)
            }
            _ => false,
        }
    }
}

/// Sentences that differ in nothing but the place, said once.
pub(super) fn merged<'s>(
    said: impl Iterator<Item = Said<'s>>,
    shared: &[(Axis, String)],
) -> Vec<AdviceLine> {
    let clauses = clauses(said, shared).into_iter();
    clauses.map(|clause| line(vec![clause])).collect()
}

/// The same, and those of one place in one line.
pub(super) fn merged_by_place<'s>(
    said: impl Iterator<Item = Said<'s>>,
    shared: &[(Axis, String)],
) -> Vec<AdviceLine> {
    let clauses = clauses(said, shared).into_iter();
    let by_place = grouped(clauses.map(|c| ((c.label.clone(), c.place.clone()), c)));
    by_place
        .into_iter()
        .map(|(_, clauses)| line(clauses))
        .collect()
}

/// A sentence with all of its places, which may be a part of a line.
struct Clause {
    label: String,
    place: String,
    /// What it says alone.
    text: String,
    /// The same beside others, with what its amounts are of and without it.
    beside: [String; 2],
    than: Option<String>,
    brief: Option<String>,
    findings: Vec<String>,
}

fn clauses<'s>(said: impl Iterator<Item = Said<'s>>, shared: &[(Axis, String)]) -> Vec<Clause> {
    let mut sentences: Vec<Said<'_>> = Vec::new();
    for said in said {
        match sentences.iter_mut().find(|known| known.has_form_of(&said)) {
            Some(known) => known.join(said),
            None => sentences.push(said),
        }
    }
    let keyed = sentences.into_iter().map(|s| {
        let text = s.text(true, true);
        ((s.label.clone(), text, s.brief.clone()), s)
    });
    let clauses = grouped(keyed).into_iter();
    let clauses = clauses.map(|((label, text, brief), sentences)| {
        let names = sentences.iter().map(|s| s.place(shared));
        let names = names.filter(|n| !n.is_empty()).unique().collect_vec();
        let more = names.len().saturating_sub(PLACES);
        let more = (more > 0).then(|| format!("{more} more"));
        Clause {
            label,
            place: names.into_iter().take(PLACES).chain(more).join("; "),
            text,
            beside: [true, false].map(|with_than| sentences[0].text(with_than, false)),
            than: sentences[0].than().cloned(),
            brief,
            findings: sentences.into_iter().flat_map(|s| s.findings).collect(),
        }
    });
    clauses.collect()
}

/// Clauses of one place as a line.
fn line(clauses: Vec<Clause>) -> AdviceLine {
    let Some(first) = clauses.first() else {
        return AdviceLine::default();
    };
    let (label, place) = (first.label.clone(), first.place.clone());
    let mut text = match clauses.as_slice() {
        [one] => one.text.clone(),
        _ => first.beside[0].clone(),
    };
    for (before, clause) in clauses.iter().tuple_windows() {
        let is_same = clause.than.is_some() && clause.than == before.than;
        text.push_str("; ");
        text.push_str(&clause.beside[usize::from(is_same)]);
    }
    let at_place = |text: String| match place.is_empty() {
        true => text,
        false => format!("{place}: {text}"),
    };
    let is_short = !place.is_empty() && !place.contains("; ");
    AdviceLine {
        label,
        text: match is_short && text.starts_with("use ") {
            true => format!("{place}, {text}"),
            false => at_place(text),
        },
        brief: first.brief.clone().map(at_place),
        findings: clauses.into_iter().flat_map(|c| c.findings).collect(),
    }
}

impl From<String> for Part {
    fn from(words: String) -> Part {
        Part::Words(words)
    }
}

pub(super) fn is_less(range: &DecidedRange) -> bool {
    range.points.iter().all(|p| p.high < 1.0)
}

fn ends(range: &DecidedRange) -> Option<(&DecidedPoint, &DecidedPoint)> {
    let by_strength = |a: &&DecidedPoint, b: &&DecidedPoint| strength(a).total_cmp(&strength(b));
    range.points.iter().minmax_by(by_strength).into_option()
}

fn strength(point: &DecidedPoint) -> f64 {
    point.ratio.ln().abs()
}

/// Returns true if no finding of a range has its amount withheld.
pub(super) fn has_amounts(range: &DecidedRange) -> bool {
    !range.points.iter().any(|p| p.has_no_amount)
}

/// Whether the ratios of a range lie so far apart that each end needs its place.
fn is_wide(range: &DecidedRange) -> bool {
    let is_far = ends(range).is_some_and(|(weakest, strongest)| {
        strength(strongest) - strength(weakest) > WIDE.ln() && weakest.at != strongest.at
    });
    is_far && has_amounts(range)
}

/// The 95 % intervals of all its findings together: `22–48 % less`, or, in the order of places,
/// `3.9–4.6× (2 KiB) to 1.2–1.3× (64 KiB) to 1.5–1.7× (512 KiB)` where they lie far apart. Where an
/// amount is withheld, the direction alone.
pub(super) fn amount(s: &Situation, range: &DecidedRange) -> String {
    if !has_amounts(range) {
        return if is_less(range) { "less" } else { "more" }.to_owned();
    }
    let between = |is_told: &dyn Fn(&DecidedPoint) -> bool| {
        let points = || range.points.iter().filter(|p| is_told(p));
        let low = points().map(|p| p.low).fold(f64::INFINITY, f64::min);
        phrases::between(low, points().map(|p| p.high).fold(0.0, f64::max))
    };
    let less = if is_less(range) { " less" } else { "" };
    if !is_wide(range) {
        return between(&|_| true) + less;
    }
    let named = named_points(s, range);
    let holes = match holes(s, range) {
        none if none.is_empty() => none,
        some => format!("; not shown at {some}"),
    };
    let last = named.len().saturating_sub(1);
    let words = named.iter().enumerate().map(|(place, p)| {
        let at = p.at.as_ref().zip(s.along);
        let at = at.map_or_else(String::new, |(at, axis)| axis.subject(at));
        let holes = if place == last { &holes } else { "" };
        format!("{} ({at}{holes})", between(&|own| own.at == p.at))
    });
    words.collect_vec().join(" to ") + less
}

/// The weakest and the strongest point of a range, and its ends where they differ from the next of
/// these; in the order of places.
fn named_points<'r>(s: &Situation, range: &'r DecidedRange) -> Vec<&'r DecidedPoint> {
    let place = |p: &DecidedPoint| s.measured.iter().position(|at| Some(at) == p.at.as_ref());
    let in_order = range
        .points
        .iter()
        .sorted_by_key(|p| place(p))
        .collect_vec();
    let Some((weakest, strongest)) = ends(range) else {
        return Vec::new();
    };
    let mut named = vec![weakest, strongest];
    named.sort_by_key(|p| place(p));
    let is_apart = |one: &DecidedPoint, other: &DecidedPoint| {
        one.at != other.at && (strength(one) - strength(other)).abs() > APART.ln()
    };
    if let [first, .., last] = in_order[..] {
        if is_apart(first, named[0]) {
            named.insert(0, first);
        }
        if is_apart(last, named[named.len() - 1]) {
            named.push(last);
        }
    }
    named
}

pub(super) fn places(range: &DecidedRange) -> Vec<String> {
    let at = range.points.iter().filter_map(|p| p.at.clone());
    at.unique().collect()
}

/// The places of a range in parentheses, unless it is all of them or its numbers name them.
pub(super) fn at(s: &Situation, range: &DecidedRange) -> String {
    let at = places(range);
    match s.along {
        Some(axis) if at.len() < s.measured.len() && !is_wide(range) => {
            format!(
                " ({})",
                at.iter().map(|value| axis.subject(value)).join(", ")
            )
        }
        _ => String::new(),
    }
}

/// The places between the ends of a range at which it has no decided finding.
fn holes(s: &Situation, range: &DecidedRange) -> String {
    let at = places(range);
    let place = |value: Option<&String>| s.measured.iter().position(|v| Some(v) == value);
    let (Some(axis), Some(first), Some(last)) = (s.along, place(at.first()), place(at.last()))
    else {
        return String::new();
    };
    let between = s.measured[first..=last].iter().filter(|v| !at.contains(v));
    between.map(|v| axis.subject(v)).join(", ")
}

pub(super) fn transport(value: &str) -> String {
    match value {
        "loopback" => "over loopback TCP".to_owned(),
        "unix" => "over Unix sockets".to_owned(),
        "veth" => "over TCP on veth".to_owned(),
        "wire" => "over TCP on wire, where nobody receives".to_owned(),
        "peer" => OVER_NETWORK.to_owned(),
        other => Axis::Transport.circumstance(other),
    }
}

fn cache(value: &str) -> &'static str {
    match value {
        "warm" => "in the page cache",
        "cold" => "not in the page cache",
        "direct" => "past the page cache (O_DIRECT)",
        _ => "in memory",
    }
}
