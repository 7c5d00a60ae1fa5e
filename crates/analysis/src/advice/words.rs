//! The sentences of the answer: all of them are written here, from the facts alone.

use bytecost_spec::survey::Condition;
use bytecost_spec::{Axis, Better, Metric};
use itertools::Itertools as _;

use super::undecided::measured;
use crate::grouping::grouped;
use crate::phrases;
use crate::result::{
    Advice, AdviceLine, AvoidWith, DecidedRange, Situation, Subject, Undecided, Use, Verdict,
};
use crate::view::View;

/// How far the strongest of several ratios lies from the weakest where each is told with its place.
const WIDE: f64 = 1.5;
/// Places that are told one by one where many have the same advice.
const PLACES: usize = 4;
/// What the lines of what is worse stand under.
const AVOID: &str = "Avoid";
/// What the line of the answer about undecided comparisons stands under.
pub const UNDECIDED: &str = "Undecided";

/// A sentence about one place, which others may share.
struct Said {
    label: String,
    place: String,
    text: String,
    findings: Vec<String>,
}

/// The lines of an answer: what to use, what circumstances change, what to avoid, what is undecided.
pub(super) fn lines(view: &View<'_>, advice: &Advice, varied: &[Axis]) -> Vec<AdviceLine> {
    let line = |label: &str, text: &str| AdviceLine {
        label: label.to_owned(),
        text: text.trim_end_matches('.').to_owned(),
        findings: Vec::new(),
    };
    let mut lines = Vec::new();
    if let Some(why) = &advice.nothing {
        lines.push(line("Nothing compared", why));
        let numbers = measured(view, varied).into_iter();
        lines.extend(numbers.map(|(who, numbers)| line(&phrases::capital(&who), &numbers)));
        return lines;
    }
    let situations = &advice.situations;
    lines.extend(merged(situations.iter().flat_map(used)));
    lines.extend(merged(situations.iter().flat_map(changed)));
    lines.extend(merged(situations.iter().flat_map(avoided)));
    if lines.is_empty() {
        lines.extend(merged(situations.iter().map(nothing_decided)));
    }
    if let Some(undecided) = &advice.undecided {
        lines.push(line(UNDECIDED, &open(undecided)));
    }
    lines
}

/// Sentences that differ in nothing but the place, said once.
fn merged(said: impl Iterator<Item = Said>) -> Vec<AdviceLine> {
    let keyed = said.map(|s| ((s.label, s.text), (s.place, s.findings)));
    let lines = grouped(keyed).into_iter().map(|((label, text), places)| {
        let (names, findings): (Vec<String>, Vec<Vec<String>>) = places.into_iter().unzip();
        let names: Vec<String> = names
            .into_iter()
            .filter(|n| !n.is_empty())
            .unique()
            .collect();
        let more = names.len().saturating_sub(PLACES);
        let mut place = names.into_iter().take(PLACES).join("; ");
        if more > 0 {
            place = format!("{place}; {more} more");
        }
        let text = if place.is_empty() {
            text
        } else {
            format!("{place}: {text}")
        };
        AdviceLine {
            label,
            text,
            findings: findings.concat(),
        }
    });
    lines.collect()
}

/// What to use in a situation, and what else under a condition.
fn used(s: &Situation) -> Vec<Said> {
    let mut told: Vec<Said> = (s.uses.iter())
        .map(|u| said(s, one_use(s, u), u.gain.iter().chain(&u.but)))
        .collect();
    if s.baseline_is_apart && s.subject != Subject::Circumstance {
        told.extend(apart(s));
    }
    for c in &s.conditional {
        let way = s.axis.subject(&c.gain.value);
        let text = format!(
            "{way}{}: {}, but only {}",
            span(s, &places(&c.gain)),
            against(s, &c.gain),
            condition(c.condition)
        );
        told.push(said(s, text, [&c.gain]));
    }
    told
}

fn one_use(s: &Situation, u: &Use) -> String {
    let way = s.axis.subject(&u.value);
    let span = span(s, &u.at);
    let mut text = match &u.gain {
        None => format!("use {way}{span}: nothing was shown to {}", need(s.metric)),
        Some(gain) => format!("use {way}{span}: {}", against(s, gain)),
    };
    if s.baseline_is_apart {
        text.push_str(" alone, before the cost of reading the file");
    }
    if !u.ties.is_empty() {
        let ties: Vec<String> = u.ties.iter().map(|t| s.axis.subject(t)).collect();
        text.push_str(&format!(
            "; {} was not shown to differ from it",
            phrases::list(&ties)
        ));
    }
    let by_way = grouped(u.but.iter().map(|but| ((&but.value, but.verdict), but)));
    for ((way, verdict), all) in by_way {
        let who = match verdict {
            Verdict::Better => s.axis.subject(way),
            _ => "it".to_owned(),
        };
        let of = |but: &&DecidedRange| format!("{}{}", against(s, but), at(s, but));
        let all: Vec<String> = all.iter().map(of).collect();
        text.push_str(&format!("; but {who} has {}", phrases::list(&all)));
    }
    text
}

/// Of ways whose baseline serves somebody else: where they cost more than it, and where nothing is
/// decided.
fn apart(s: &Situation) -> Vec<Said> {
    let mut told = Vec::new();
    let base = s.axis.subject(&s.baseline);
    if s.uses.is_empty() && s.avoid.is_empty() {
        let text = format!("no way was shown to {} than {base} alone", need(s.metric));
        told.push(said(s, text, []));
    }
    for avoid in &s.avoid {
        let way = s.axis.subject(&avoid.cost.value);
        let at = span(s, &places(&avoid.cost));
        told.push(said(
            s,
            format!("{way}{at}: {}", against(s, &avoid.cost)),
            [&avoid.cost],
        ));
    }
    told
}

/// What is said of circumstances where nothing else is said at all.
fn nothing_decided(s: &Situation) -> Said {
    let base = s.axis.subject(&s.baseline);
    let text = format!(
        "no other {} than with {base} was shown",
        phrases::metric(s.metric)
    );
    said(s, text, [])
}

/// What circumstances change.
fn changed(s: &Situation) -> Vec<Said> {
    if s.subject != Subject::Circumstance {
        return Vec::new();
    }
    let costs = s.avoid.iter().map(|avoid| &avoid.cost);
    let told = costs.chain(&s.gains).map(|range| {
        let way = s.axis.subject(&range.value);
        let at = span(s, &places(range));
        said(s, format!("{way}{at}: {}", against(s, range)), [range])
    });
    told.collect()
}

/// What to avoid: ways with one and the same property together, the others in a row.
fn avoided(s: &Situation) -> Vec<Said> {
    if s.subject == Subject::Circumstance || s.baseline_is_apart {
        return Vec::new();
    }
    let kind = |with: Option<AvoidWith>| match with {
        Some(AvoidWith::Copied(share)) => Some((0, format!("{share:.2}"))),
        Some(AvoidWith::Calls(own, base)) => Some((1, format!("{own:.1} {base:.1}"))),
        None => None,
    };
    let by_kind = grouped(s.avoid.iter().map(|avoid| (kind(avoid.with), avoid)));
    let told = by_kind.into_iter().map(|(_, all)| {
        let each = all.iter().map(|avoid| {
            let way = s.axis.subject(&avoid.cost.value);
            format!("{way} {}{}", numbers(s, &avoid.cost), at(s, &avoid.cost))
        });
        let noun = of_base(s, &all[0].cost);
        let each: Vec<String> = each.collect();
        let why = all[0]
            .with
            .map_or_else(String::new, |with| format!("; {}", reason(s, with)));
        let mut line = said(
            s,
            format!("{} {noun}{why}", each.join(", ")),
            all.iter().map(|a| &a.cost),
        );
        AVOID.clone_into(&mut line.label);
        line
    });
    told.collect()
}

fn reason(s: &Situation, with: AvoidWith) -> String {
    match with {
        AvoidWith::Copied(share) => {
            let path = s.place.iter().find(|(axis, _)| *axis == Axis::Transport);
            let path = path.map_or_else(String::new, |(_, path)| format!(" {}", transport(path)));
            format!(
                "the kernel copied {} of the buffers{path}; a network card was not measured",
                phrases::percent(share)
            )
        }
        AvoidWith::Calls(own, base) => format!(
            "{} system calls a message instead of {}",
            (own * 10.0).round() / 10.0,
            (base * 10.0).round() / 10.0
        ),
    }
}

fn condition(condition: Condition) -> String {
    match condition {
        Condition::NeverWrittenAgain => "for buffers that are never written again".to_owned(),
        Condition::Linux(major, minor) => format!("with Linux {major}.{minor} or newer"),
        Condition::Privilege => "with root or CAP_SYS_NICE".to_owned(),
    }
}

fn open(u: &Undecided) -> String {
    let mut text = format!(
        "{} of {}",
        u.undecided,
        phrases::count(u.comparisons, "comparison")
    );
    if u.withheld > 0 {
        text.push_str(&format!(
            ", {} more without a verdict (see the caveats)",
            u.withheld
        ));
    }
    match &u.command {
        Some(command) => {
            text.push_str(&format!(
                "; a longer run would decide about {}: {command}",
                u.would_decide
            ));
        }
        None if u.undecided > 0 => text.push_str("; a longer run would hardly decide them"),
        None => {}
    }
    text
}

/// A way's numbers, what they are of, and what they are compared with:
/// ``27–44 % less CPU time per byte than `send` ``.
fn against(s: &Situation, range: &DecidedRange) -> String {
    format!("{} {}", numbers(s, range), of_base(s, range))
}

/// Whether the ratios of a range lie so far apart that each end needs its place.
fn is_wide(range: &DecidedRange) -> bool {
    let strength = range.points.iter().map(|p| p.ratio.ln().abs());
    let (least, most) = strength.minmax().into_option().unwrap_or_default();
    most - least > WIDE.ln()
}

/// `27–44 %`, or `4.3× (2 KiB) to 1.6× (512 KiB)` where they lie far apart.
fn numbers(s: &Situation, range: &DecidedRange) -> String {
    let strength = |i: &usize| range.points[*i].ratio.ln().abs();
    let order = (0..range.points.len()).sorted_by(|a, b| strength(a).total_cmp(&strength(b)));
    let order: Vec<usize> = order.collect();
    let (Some(&weakest), Some(&strongest)) = (order.first(), order.last()) else {
        return String::new();
    };
    let told = |i: usize| phrases::change(range.points[i].ratio);
    let (first, last) = (weakest.min(strongest), weakest.max(strongest));
    if told(first) == told(last) {
        return told(first);
    }
    let at = |i: usize| {
        let at = range.points[i].at.as_ref().zip(s.along);
        at.map_or_else(String::new, |(at, axis)| format!(" ({})", axis.subject(at)))
    };
    match is_wide(range) && s.along.is_some() {
        true => {
            let ends = format!("{}{} to {}{}", told(first), at(first), told(last), at(last));
            let holes = holes(s, range);
            if holes.is_empty() {
                ends
            } else {
                format!("{ends}, undecided at {holes},")
            }
        }
        false => {
            let end = told(strongest);
            let unit = |t: &str| {
                t.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                    .to_owned()
            };
            let start = told(weakest);
            let start = start.strip_suffix(&unit(&end)).unwrap_or(&start);
            format!("{start}–{end}")
        }
    }
}

/// ``less CPU time per byte than `send` ``, ``the throughput of `send` ``.
fn of_base(s: &Situation, range: &DecidedRange) -> String {
    let base = s.axis.subject(&s.baseline);
    let noun = phrases::metric(range.metric);
    let less = range.points.first().is_some_and(|p| p.ratio < 1.0);
    match less {
        true => format!("less {noun} than {base}"),
        false => format!("the {noun} of {base}"),
    }
}

fn need(metric: Metric) -> String {
    let noun = phrases::metric(metric);
    match metric.better() {
        Better::Lower => format!("need less {noun}"),
        Better::Higher => format!("reach more {noun}"),
    }
}

fn places(range: &DecidedRange) -> Vec<String> {
    range.points.iter().filter_map(|p| p.at.clone()).collect()
}

/// Where along the range, with the sizes that were measured: ` from 16 KiB to 1 MiB`.
fn span(s: &Situation, at: &[String]) -> String {
    let Some(axis) = s.along else {
        return String::new();
    };
    let with = |value: &String| axis.circumstance(value);
    let name = |value: &String| axis.subject(value);
    let place = |value: &String| s.measured.iter().position(|v| v == value);
    let [first, .., last] = at else {
        return at
            .first()
            .map_or_else(String::new, |one| format!(" {}", with(one)));
    };
    let is_whole = at
        .iter()
        .tuple_windows()
        .all(|(a, b)| place(a).zip(place(b)).is_some_and(|(a, b)| a + 1 == b));
    if !is_whole {
        let names: Vec<String> = at.iter().skip(1).map(name).collect();
        return format!(" {}, {}", with(first), phrases::list(&names));
    }
    let every = at.len() == s.measured.len() && axis == Axis::Size;
    format!(
        "{} from {} to {}",
        if every { " at every size" } else { "" },
        name(first),
        name(last)
    )
}

/// The places of a range in parentheses: nothing where it is all that was measured, or where its
/// numbers name them.
fn at(s: &Situation, range: &DecidedRange) -> String {
    let at = places(range);
    match s.along {
        Some(axis) if at.len() < s.measured.len() && !is_wide(range) => {
            let names: Vec<String> = at.iter().map(|value| axis.subject(value)).collect();
            format!(" ({})", names.join(", "))
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
    phrases::list(&between.map(|v| axis.subject(v)).collect::<Vec<_>>())
}

fn place(s: &Situation) -> String {
    let told = s.place.iter().map(|(axis, value)| match axis {
        Axis::Transport => transport(value),
        Axis::Cache => cache(value).to_owned(),
        Axis::Pattern => "request and response".to_owned(),
        _ => axis.circumstance(value),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn transport(value: &str) -> String {
    match value {
        "loopback" => "over loopback TCP".to_owned(),
        "unix" => "over Unix sockets".to_owned(),
        "veth" => "over TCP on veth".to_owned(),
        "wire" => "over TCP on wire, where nobody receives".to_owned(),
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

fn said<'r>(s: &Situation, text: String, of: impl IntoIterator<Item = &'r DecidedRange>) -> Said {
    let points = of.into_iter().flat_map(|range| &range.points);
    Said {
        label: label(s.subject, s.axis),
        place: place(s),
        text,
        findings: points.map(|p| p.finding.clone()).collect(),
    }
}

/// What a line stands under.
fn label(subject: Subject, axis: Axis) -> String {
    let told = match (subject, axis) {
        (Subject::DataInMemory, _) => "Data in memory",
        (Subject::DataInFile, _) => "Data in a file",
        (Subject::ReadFile, _) => "Reading a file",
        (Subject::WriteFile, _) => "Writing a file",
        (Subject::CopyFile, _) => "Copying a file",
        (Subject::FileToNull, _) => "A file to nowhere",
        (Subject::Connections, _) => "Many connections",
        (_, Axis::Placement) => "Where threads run",
        (_, Axis::Class) => "Scheduler class",
        (_, Axis::Cgroup) => "Control group",
        (_, Axis::Neighbour) => "Background load",
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
    told.to_owned()
}
