//! The advice in words: a sentence for each thing that a reader may have, and notes on single ways.

use bytecost_analysis::phrases::{self, Kind, kind};
use bytecost_analysis::{
    Analysis, AvoidWith, Conditional, DecidedPoint, DecidedRange, Finding, Situation, Subject,
    Undecided, UndecidedOf, Use, Verdict, grouped,
};
use bytecost_spec::survey::Condition;
use bytecost_spec::{Axis, Metric, Transport, Unit, units};
use itertools::Itertools as _;

/// How many times the strongest of several ratios is the weakest where each is given with its place.
const WIDE: f64 = 1.5;
/// The most clauses of a sentence.
const MOST_CLAUSES: usize = 3;
/// The most places that a sentence names one by one.
const MOST_PLACES: usize = 2;

/// A sentence of the advice with the ids of the findings that it rests on.
pub(crate) struct Sentence {
    /// What a reader has.
    pub label: String,
    /// What to use then, without the full stop.
    pub text: String,
    pub findings: Vec<String>,
}

/// The advice, most wanted first. A way that has a condition is never in it.
pub(crate) fn sentences(a: &Analysis) -> Vec<Sentence> {
    let bare = |label: &str, text: String| Sentence {
        label: label.to_owned(),
        text,
        findings: Vec::new(),
    };
    if let Some(why) = &a.advice.nothing {
        return vec![bare(
            "Nothing compared",
            why.trim_end_matches('.').to_owned(),
        )];
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
    shared: &[(Axis, String)],
) -> Option<Sentence> {
    let is_choice = situations.iter().any(|s| s.subject.is_choice());
    let claims: Vec<Claim<'_>> = if is_choice {
        (situations.iter())
            .flat_map(|s| Claim::of_uses(s))
            .filter(|claim| !claim.is_weaker_than_another(situations))
            .collect()
    } else {
        situations
            .iter()
            .flat_map(|s| Claim::of_change(s))
            .collect()
    };
    let groups = grouped(claims.into_iter().map(|claim| (claim.key(), claim)));
    let mut findings = Vec::new();
    let mut clauses = Vec::new();
    for (_, claims) in groups.iter().take(MOST_CLAUSES) {
        clauses.push(clause(a, claims, situations, shared, is_choice));
        findings.extend(
            claims
                .iter()
                .flat_map(|c| c.points())
                .map(|p| p.finding.clone()),
        );
    }
    if clauses.is_empty() {
        let conditional = situations.iter().flat_map(|s| {
            let better = s.conditional.iter().map(|c| (&c.gain.value, &c.conditions));
            let used = s.uses.iter().map(|u| (&u.value, &u.conditions));
            let ways = better
                .chain(used)
                .filter(|(_, conditions)| !conditions.is_empty());
            ways.map(|(way, conditions)| format!("{} {}", s.axis.subject(way), only(conditions)))
        });
        let ways: Vec<String> = conditional.unique().take(MOST_CLAUSES).collect();
        return (!ways.is_empty()).then(|| Sentence {
            label: title.to_owned(),
            text: format!("no advice without a condition: {}", ways.join("; ")),
            findings,
        });
    }
    if groups.len() > clauses.len() {
        clauses.push("see the notes for more".to_owned());
    }
    Some(Sentence {
        label: title.to_owned(),
        text: clauses.join("; "),
        findings,
    })
}

/// What is said of one way in one situation.
struct Claim<'s> {
    situation: &'s Situation,
    way: &'s str,
    /// Where along the situation's axis.
    at: Vec<String>,
    /// How much it differs from the baseline; none where it is the baseline, than which nothing was
    /// shown to be better.
    range: Option<&'s DecidedRange>,
    /// Others that are better than the baseline, and were not shown to differ from it.
    ties: &'s [String],
}

impl<'s> Claim<'s> {
    /// What to use without a condition. A way that is named twice without an amount is so once.
    fn of_uses(situation: &'s Situation) -> Vec<Claim<'s>> {
        let mut claims: Vec<Claim<'s>> = Vec::new();
        for used in situation.uses.iter().filter(|u| u.conditions.is_empty()) {
            let mut known = claims.iter_mut();
            let is_same = |claim: &&mut Claim<'_>| {
                claim.way == used.value && claim.range.is_none() && used.gain.is_none()
            };
            match known.find(is_same) {
                Some(claim) => claim.at.extend(used.at.iter().cloned()),
                None => claims.push(Claim {
                    situation,
                    way: &used.value,
                    at: used.at.clone(),
                    range: used.gain.as_ref(),
                    ties: &used.ties,
                }),
            }
        }
        claims
    }

    /// What a circumstance changes, for the worse and for the better.
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
            ties: &[],
        };
        worse.chain(&situation.gains).map(claim).collect()
    }

    /// Claims with the same key make one clause.
    fn key(&self) -> (&'s str, &'s str, Option<(Metric, bool)>, String) {
        let s = self.situation;
        let relation = self.range.map(|range| (s.metric, is_less(range)));
        (self.way, &s.baseline, relation, self.span())
    }

    /// Where along the situation's axis; empty where that is all that was measured, or all of which
    /// anything is decided.
    fn span(&self) -> String {
        let s = self.situation;
        let is_open = |at: &&String| s.undecided.contains(at) || s.withheld.contains(at);
        let others = s.measured.iter().filter(|at| !self.at.contains(at));
        let is_whole = others.clone().next().is_none();
        if is_whole || self.range.is_none() && others.clone().all(|at| is_open(&at)) {
            return String::new();
        }
        span(s, &self.at)
    }

    /// Where nothing is decided, in words after a claim without an amount.
    fn open(&self) -> String {
        let s = self.situation;
        let parts = [("undecided", &s.undecided), ("no verdict", &s.withheld)];
        let parts = parts.into_iter().filter(|(_, at)| !at.is_empty());
        parts
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
            let is_worse_baseline = other.baseline == self.way && gains().any(is_here);
            let mut decided = gains().chain(conditional).chain(worse);
            is_worse_baseline || decided.any(|range| range.value == self.way && is_here(range))
        })
    }
}

/// One way with all of its places.
fn clause(
    a: &Analysis,
    claims: &[Claim<'_>],
    situations: &[&Situation],
    shared: &[(Axis, String)],
    is_choice: bool,
) -> String {
    let first = &claims[0];
    let s = first.situation;
    let place = place(claims, situations, shared, is_choice);
    if !is_choice {
        let way = [subject(s.axis, first.way), first.span()];
        let way = way.into_iter().filter(|part| !part.is_empty()).join(" ");
        return format!("{place}{way}: {}", relation(claims));
    }
    let way = [s.axis.subject(first.way), first.span()];
    let way = way.into_iter().filter(|part| !part.is_empty()).join(" ");
    let has_condition = claims.iter().any(|c| !c.situation.conditional.is_empty());
    let without = if has_condition {
        " without a condition"
    } else {
        ""
    };
    if first.range.is_none() {
        let is_best = claims
            .iter()
            .all(|c| is_alone_the_best(a, c.situation, c.way));
        let what = if is_best {
            "the best"
        } else {
            "nothing better was shown"
        };
        let open = if claims.len() == 1 && first.span().is_empty() {
            first.open()
        } else {
            String::new()
        };
        return format!("{place}use {way}: {what}{without}{open}");
    }
    let verb = match kind(s.metric.measure) {
        Kind::Cost => "takes",
        Kind::Rate => "reaches",
        Kind::Time | Kind::Number => "has",
    };
    let everywhere = claims
        .iter()
        .flat_map(|c| c.ties)
        .map(|tie| (tie.clone(), None));
    let somewhere = claims.iter().flat_map(|c| {
        let rivals = rivals(a, c.situation, c.way, &c.at).into_iter();
        rivals.map(|(rival, at)| (rival, Some(at)))
    });
    let ties = grouped(everywhere.chain(somewhere))
        .into_iter()
        .map(|(tie, at)| {
            let at: Option<Vec<String>> = at.into_iter().collect();
            let at = at.filter(|at| at.len() < first.at.len());
            let all = first.at.len();
            let at = at.map_or_else(String::new, |at| format!(" at {} of {all}", at.len()));
            format!("{}{at}", s.axis.subject(&tie))
        });
    let ties = phrases::list(ties);
    let ties = if ties.is_empty() {
        ties
    } else {
        format!(" (tied with {ties})")
    };
    format!("{place}use {way}{ties}, which {verb} {}", relation(claims))
}

/// A value of an axis where its name stands before it: numbers alone have theirs.
fn subject(axis: Axis, value: &str) -> String {
    if axis == Axis::Background {
        axis.in_words(value)
    } else {
        axis.subject(value)
    }
}

/// How a way differs from its baseline: ``12–25 % less CPU time per byte than `send` ``. Ratios
/// far apart are given with their places.
fn relation(claims: &[Claim<'_>]) -> String {
    let s = claims[0].situation;
    let points = claims
        .iter()
        .flat_map(|c| c.points().iter().map(|p| (c.situation, p)));
    let points: Vec<(&Situation, &DecidedPoint)> = points.collect();
    let less = points.iter().all(|(_, p)| p.high < 1.0);
    let base = baseline(s);
    let noun = phrases::metric(s.metric, s.unit);
    if points.iter().any(|(_, p)| p.has_no_amount) {
        let direction = if less { "less" } else { "more" };
        return format!("{direction} {noun} than {base}");
    }
    let amount = |of: &[&DecidedPoint]| {
        let low = of.iter().map(|p| p.low).fold(f64::INFINITY, f64::min);
        let high = of.iter().map(|p| p.high).fold(0.0, f64::max);
        let less = if less { " less" } else { "" };
        phrases::between(low, high) + less
    };
    let of = if less {
        format!("{noun} than {base}")
    } else {
        format!("the {noun} of {base}")
    };
    let strength = |p: &DecidedPoint| p.ratio.ln().abs();
    let ends = points
        .iter()
        .minmax_by(|x, y| strength(x.1).total_cmp(&strength(y.1)));
    let ends = ends.into_option().filter(|(weakest, strongest)| {
        let is_far = strength(strongest.1) - strength(weakest.1) > WIDE.ln();
        is_far && s.along.is_some() && weakest.1.at != strongest.1.at
    });
    let Some((weakest, strongest)) = ends else {
        let all: Vec<&DecidedPoint> = points.iter().map(|(_, p)| *p).collect();
        return format!("{} {of}", amount(&all));
    };
    let position = |p: &DecidedPoint| s.measured.iter().position(|at| Some(at) == p.at.as_ref());
    let mut ends = [weakest.1, strongest.1];
    ends.sort_by_key(|p| position(p));
    let [from, to] = ends.map(|end| {
        let same = points.iter().map(|(_, p)| *p).filter(|p| p.at == end.at);
        let same: Vec<&DecidedPoint> = same.collect();
        let at = s.along.zip(end.at.as_ref());
        let at = at.map_or_else(String::new, |(axis, at)| axis.circumstance(at));
        (amount(&same), at)
    });
    format!("{} {of} {}, and {} {}", from.0, from.1, to.0, to.1)
}

/// The circumstances in which claims hold; empty for a choice that is good wherever was measured.
fn place(
    claims: &[Claim<'_>],
    situations: &[&Situation],
    shared: &[(Axis, String)],
    is_choice: bool,
) -> String {
    let is_everywhere = is_choice
        && situations.iter().all(|s| {
            let mut own = claims.iter().filter(|c| std::ptr::eq(c.situation, *s));
            own.next().is_some()
        });
    if is_everywhere {
        return String::new();
    }
    let names = claims.iter().map(|c| {
        let unshared = c.situation.place.iter().filter(|at| !shared.contains(at));
        unshared
            .map(|(axis, value)| place_word(*axis, value))
            .join(", ")
    });
    let names: Vec<String> = names.filter(|name| !name.is_empty()).unique().collect();
    match names.len() {
        n if n > MOST_PLACES => format!("in {n} places, "),
        0 => String::new(),
        _ => format!("{}, ", names.join(" and ")),
    }
}

fn place_word(axis: Axis, value: &str) -> String {
    match (axis, value) {
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

/// Some values along the range of a situation: `at 4 KiB and 64 KiB`, `from 4 KiB to 1 MiB`.
pub(crate) fn span(s: &Situation, at: &[String]) -> String {
    let Some(axis) = s.along else {
        return String::new();
    };
    let position = |value: &String| s.measured.iter().position(|v| v == value);
    let follows = |(a, b)| {
        position(a)
            .zip(position(b))
            .is_some_and(|(a, b)| a + 1 == b)
    };
    match at {
        [] => String::new(),
        [first, .., last] if at.len() > 2 && at.iter().tuple_windows().all(follows) => {
            format!("from {} to {}", axis.subject(first), axis.subject(last))
        }
        [first, others @ ..] => {
            let first = axis.circumstance(first);
            let others = others.iter().map(|value| axis.subject(value));
            phrases::list(std::iter::once(first).chain(others))
        }
    }
}

fn places(range: &DecidedRange) -> Vec<String> {
    let at = range.points.iter().filter_map(|p| p.at.clone());
    at.unique().collect()
}

fn is_less(range: &DecidedRange) -> bool {
    range.points.iter().all(|p| p.high < 1.0)
}

/// The baseline, with its block where the others have none, and with what it leaves out where it
/// serves who has something else.
fn baseline(s: &Situation) -> String {
    let block = s.baseline_block.iter();
    let mut words = vec![subject(s.axis, &s.baseline)];
    words.extend(block.map(|value| Axis::Block.circumstance(value)));
    if s.baseline_is_apart {
        words.push("alone, before the cost of reading the file".to_owned());
    }
    words.join(" ")
}

/// What a reader has, as the title of what is said to them.
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

/// What a reader must know of one way in some situations: use, condition, or the reason for its cost.
/// Empty where there is nothing to add to its numbers.
pub(crate) fn note(a: &Analysis, situations: &[&Situation], way: &str) -> String {
    let notes = situations.iter().flat_map(|s| notes(a, s, way));
    // One note with all of its places.
    let by_text = grouped(notes.map(|note| {
        let text = (note.text, note.is_condition);
        (text, (note.at, note.is_everywhere))
    }));
    let notes = by_text.into_iter().map(|((text, is_condition), places)| {
        let is_everywhere = places.len() == situations.len() && places.iter().all(|p| p.1);
        let at = places.into_iter().map(|(at, _)| at);
        let at: Vec<String> = at.filter(|at| !at.is_empty()).unique().collect();
        match at.as_slice() {
            [at] if !is_everywhere && is_condition => format!("{at} {text}"),
            [at] if !is_everywhere => format!("{text} {at}"),
            _ => text,
        }
    });
    notes.unique().join("; ")
}

struct Note {
    text: String,
    /// Where along the range.
    at: String,
    is_everywhere: bool,
    /// Whether it says when a way can be used at all.
    is_condition: bool,
}

fn notes(a: &Analysis, s: &Situation, way: &str) -> Vec<Note> {
    let note = |text: String, at: &[String]| Note {
        text,
        at: span(s, at),
        is_everywhere: at.len() == s.measured.len(),
        is_condition: false,
    };
    let condition = |conditions: &[Condition], at: &[String]| Note {
        is_condition: true,
        ..note(only(conditions), at)
    };
    let mut notes = Vec::new();
    let own = || s.uses.iter().filter(|u| u.value == way);
    for used in own().filter(|u| !u.conditions.is_empty()) {
        notes.push(condition(&used.conditions, &used.at));
    }
    // A baseline that is used at several places is so in one note.
    let (gains, plain): (Vec<&Use>, Vec<&Use>) = own()
        .filter(|u| u.conditions.is_empty())
        .partition(|u| u.gain.is_some());
    let groups = gains.into_iter().map(|used| vec![used]).chain([plain]);
    for uses in groups.filter(|uses| !uses.is_empty()) {
        let at: Vec<String> = uses.iter().flat_map(|u| u.at.clone()).collect();
        let is_better = uses[0].gain.is_some();
        let has_ties = uses.iter().any(|u| !u.ties.is_empty());
        let mut text = match (is_better, has_ties) {
            (true, false) if rivals(a, s, way, &at).is_empty() => "best".to_owned(),
            (true, _) => "among the best".to_owned(),
            (false, _) if is_alone_the_best(a, s, way) => "best".to_owned(),
            (false, _) => "none shown better".to_owned(),
        };
        let is_beaten = |c: &Conditional| {
            let better = places(&c.gain);
            at.is_empty() || at.iter().any(|place| better.contains(place))
        };
        if s.conditional.iter().any(is_beaten) {
            text.push_str(" without a condition");
        }
        let costs = uses.iter().flat_map(|u| &u.but);
        let costs = costs
            .filter(|but| but.verdict == Verdict::Worse)
            .map(|but| {
                let amount = amount(but).map_or_else(String::new, |amount| format!("{amount} "));
                let the = if amount.contains('×') { "the " } else { "" };
                format!("but {amount}{the}{}", phrases::metric(but.metric, s.unit))
            });
        let text = std::iter::once(text).chain(costs).join(", ");
        let is_open = |at: &&String| s.undecided.contains(at) || s.withheld.contains(at);
        let mut others = s.measured.iter().filter(|value| !at.contains(value));
        notes.push(Note {
            is_everywhere: others.all(|at| !is_better && is_open(&at)),
            ..note(text, &at)
        });
    }
    let ties = s
        .uses
        .iter()
        .filter(|u| u.ties.iter().any(|tie| tie == way));
    notes.extend(ties.map(|u| {
        let text = format!("tied with `{}`", u.value);
        note(text, &u.at)
    }));
    for used in s.uses.iter().filter(|u| u.gain.is_some()) {
        let is_tie = used.value == way || used.ties.iter().any(|tie| tie == way);
        let rivals = rivals(a, s, &used.value, &used.at);
        let at = rivals
            .into_iter()
            .filter(|(rival, _)| !is_tie && rival == way);
        let at: Vec<String> = at.map(|(_, at)| at).collect();
        if !at.is_empty() {
            notes.push(note(format!("tied with `{}`", used.value), &at));
        }
    }
    let conditional = s.conditional.iter().filter(|c| c.gain.value == way);
    notes.extend(conditional.map(|c| condition(&c.conditions, &places(&c.gain))));
    let worse = s.avoid.iter().filter(|avoid| avoid.cost.value == way);
    notes.extend(worse.filter_map(|avoid| {
        let with = avoid.with.as_ref()?;
        let (text, at) = reason(s.unit, with);
        Some(note(text, if at.is_empty() { &s.measured } else { at }))
    }));
    notes
}

fn amount(range: &DecidedRange) -> Option<String> {
    if range.points.iter().any(|p| p.has_no_amount) {
        let direction = if is_less(range) { "less" } else { "more" };
        return Some(direction.to_owned());
    }
    let low = range.points.iter().map(|p| p.low).reduce(f64::min)?;
    let high = range.points.iter().map(|p| p.high).reduce(f64::max)?;
    let less = if is_less(range) { " less" } else { "" };
    Some(phrases::between(low, high) + less)
}

/// Returns true if every other way without a condition is shown to be worse wherever one is measured.
fn is_alone_the_best(a: &Analysis, s: &Situation, way: &str) -> bool {
    let mut best = s.may_be_best.iter().filter_map(|id| a.result(id));
    !s.may_be_best.is_empty() && best.all(|cell| cell.cell.value(s.axis) == way)
}

/// Other ways that may be the best at some of these places, each with its place.
fn rivals(a: &Analysis, s: &Situation, way: &str, at: &[String]) -> Vec<(String, String)> {
    let cells = s.may_be_best.iter().filter_map(|id| a.result(id));
    let rivals = cells.filter_map(|cell| {
        let value = cell.cell.value(s.axis);
        let place = s
            .along
            .map(|along| cell.cell.value(along))
            .unwrap_or_default();
        let is_there = at.is_empty() || at.contains(&place);
        (value != way && is_there).then_some((value, place))
    });
    rivals.collect()
}

/// The reason for a higher cost, with the places where it is one; none where that is everywhere.
fn reason(unit: Unit, with: &AvoidWith) -> (String, &[String]) {
    match with {
        AvoidWith::Copied(share) => {
            let share = units::percent(*share);
            (format!("the kernel copied {share}"), &[])
        }
        AvoidWith::Cause { of, from, to, at } => {
            let cause = phrases::cause(*of, [*from, *to], &unit.in_words("a message"));
            (cause, at)
        }
    }
}

/// What a run did not measure that would change a reason: zero-copy over a network card.
pub(crate) fn network_card(a: &Analysis) -> Option<String> {
    let is_copied = |s: &&Situation| {
        let path = s.place.iter().find(|(axis, _)| *axis == Axis::Transport);
        let is_network = path.is_some_and(|(_, value)| value == Transport::Peer.name());
        let copied = |with: &AvoidWith| matches!(with, AvoidWith::Copied(_));
        !is_network && s.avoid.iter().filter_map(|v| v.with.as_ref()).any(copied)
    };
    let mut copied = a.advice.situations.iter().filter(is_copied);
    copied.next().map(|_| {
        let study = &a.study.name;
        format!("a network card, where zero-copy may save: `bytecost run {study} --peer COMMAND`")
    })
}

/// `only with Linux 6.0 or newer`.
fn only(conditions: &[Condition]) -> String {
    format!(
        "only {}",
        phrases::list(conditions.iter().map(|c| condition(*c)))
    )
}

fn condition(condition: Condition) -> String {
    let words = match condition {
        Condition::NeverWrittenAgain => "if never written again",
        Condition::NotWrittenUntilCompletion => "if not written until completion",
        Condition::OneByteOfEachPage => {
            "where one byte of each page is enough: it delivers no data"
        }
        Condition::NoDataNeeded => "where nobody needs the data: it delivers none",
        Condition::Linux(major, minor) => {
            return format!("with Linux {major}.{minor} or newer");
        }
        Condition::Java => "in a Java program",
        Condition::Privilege => "with root or CAP_SYS_NICE",
        Condition::Uring => "where io_uring is permitted",
        Condition::PollingCpu => "with a CPU for its poller",
        Condition::SpinningCpus => "with a CPU for each side, which spins on it",
        Condition::OneFileSystem => "within one file system",
        Condition::CpusAlone => "where nothing else needs these CPUs",
        Condition::ReceiverAsksAgain => "if the receiver sets it again before each read",
        Condition::DescriptorsBelow(most) => {
            return format!(
                "with fewer than {} descriptors",
                units::number(f64::from(most))
            );
        }
        Condition::NoneIdle => "with no idle connections",
        Condition::IdleNotMeasured => {
            "while no connection is idle (`--idle 0,900` measures idle ones)"
        }
        Condition::ThreadEach => "with a thread for each connection",
        Condition::ProcessEach => "with a process for each connection",
        Condition::OneClientAtATime => "with one client at a time",
    };
    words.to_owned()
}

/// Why what the study asks for first has no verdict in a situation, where something else has.
pub(crate) fn open(s: &Situation) -> Option<String> {
    let open = s.open.as_ref()?;
    let noun = phrases::metric(open.metric, s.unit);
    Some(match (open.withheld.as_slice(), open.blocks) {
        ([], Some(blocks)) => {
            format!("{noun} is undecided; the first verdict would take about {blocks} blocks")
        }
        ([], None) => format!("{noun} is undecided, and more blocks would hardly decide it"),
        (reasons, _) => format!("{noun} has no verdict: {}", phrases::list(reasons)),
    })
}

fn nothing_decided(a: &Analysis, undecided: &Undecided) -> String {
    let judged = a
        .findings
        .iter()
        .filter(|f| f.verdict != Verdict::NotJudged);
    let why = phrases::list(judged.filter_map(|f| f.withheld.as_ref()).unique());
    let comparisons: usize = undecided.by_family.iter().map(|own| own.comparisons).sum();
    let all = units::count(comparisons, "comparison");
    let what = format!("none of {all} has a verdict");
    let (remedy, command) = remedy(undecided, false);
    let command = command.map(|command| format!(": {command}"));
    let remedy = format!("{remedy}{}", command.unwrap_or_default());
    match undecided.withheld {
        n if n == comparisons => format!("{what}: {why}"),
        0 => format!("{what}; {remedy}"),
        n => format!("{what}, {n} of them by a caveat ({why}); {remedy}"),
    }
}

/// How many comparisons of each family are undecided, and what would decide more of them.
pub(crate) fn undecided(u: &Undecided, with_command: bool) -> String {
    // Those without a verdict are counted by themselves, with their reasons.
    if u.withheld > 0 && u.by_family.iter().all(|own| own.undecided == 0) {
        let all = u.by_family.iter().map(|own| own.comparisons).sum();
        let of = units::count(all, "comparison");
        return format!("none; {} of {of} have no verdict", u.withheld);
    }
    let family = |(place, own): (usize, &UndecidedOf)| {
        let all = own.comparisons;
        let noun = if place == 0 {
            units::count(all, &format!("{} comparison", own.family.name()))
        } else {
            format!("{all} {} ones", own.family.name())
        };
        format!("{} of {noun}", own.undecided)
    };
    let all = phrases::list(u.by_family.iter().enumerate().map(family));
    let (remedy, command) = remedy(u, u.by_family.len() > 1);
    match command {
        Some(command) if with_command => format!("{all}; {remedy}: {command}"),
        Some(_) => format!("{all}; {remedy}: see the full report"),
        None => format!("{all}; {remedy}"),
    }
}

/// What would decide more, and the command that does.
fn remedy(u: &Undecided, several: bool) -> (String, Option<&str>) {
    let family = u.asks.name();
    let command = u.command.as_deref();
    if command.is_none() {
        let them = if several {
            format!("the {family} ones")
        } else {
            "them".to_owned()
        };
        return (format!("a longer run would hardly decide {them}"), None);
    }
    let of = if several {
        format!(" of the {family} ones")
    } else {
        String::new()
    };
    if u.seconds.is_some() {
        let n = u.would_decide;
        return (format!("a longer run would decide about {n}{of}"), command);
    }
    let apart = phrases::from_run_to_run(u.between_deviation.unwrap_or(0.0));
    let n = u.rounds_prevent;
    let remedy = format!("{apart} for {n}{of}, which several rounds lessen");
    (remedy, command)
}
