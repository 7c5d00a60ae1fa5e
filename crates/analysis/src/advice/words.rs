//! The sentences of the answer: all of them are written here, from the facts alone.

use bytecost_spec::survey::Condition;
use bytecost_spec::{Axis, Better, Metric, Transport, units};
use itertools::Itertools as _;

use super::sentence::{
    OVER_NETWORK, Part, Said, amount, at, has_amounts, is_less, merged, merged_by_place, places,
    transport,
};
use super::undecided::measured;
use crate::grid;
use crate::grouping::grouped;
use crate::phrases::{self, Kind, kind};
use crate::result::{
    Advice, AdviceLine, Avoid, AvoidWith, Conditional, DecidedRange, Finding, Situation, Subject,
    Undecided, UndecidedOf, Use, Verdict,
};
use crate::view::View;

const AVOID: &str = "Avoid";
/// What follows a baseline that serves somebody else: it sends memory, and a file is read first.
const ALONE: &str = " alone, before the cost of reading the file";
/// What the line of the answer about undecided comparisons stands under.
pub const UNDECIDED: &str = "Undecided";
/// What the line of the answer stands under where no comparison has a verdict.
pub const NOTHING_DECIDED: &str = "Nothing decided";
const TWO_GROUPS: &str = "Two groups";
/// Cells in two groups that are shown.
const MOST_PARTED: usize = 2;

pub(super) fn lines(view: &View<'_>, advice: &Advice) -> Vec<AdviceLine> {
    let line = |label: &str, text: &str| AdviceLine {
        label: label.to_owned(),
        text: text.trim_end_matches('.').to_owned(),
        brief: None,
        findings: Vec::new(),
    };
    let mut lines = Vec::new();
    if let Some(why) = &advice.nothing {
        let numbers = measured(view).into_iter();
        lines.extend(numbers.map(|(who, numbers)| line(&phrases::capital(&who), &numbers)));
        let why = why.strip_prefix("Nothing was compared: ").unwrap_or(why);
        lines.push(line("Nothing compared", why));
        return lines;
    }
    let situations = &advice.situations;
    let shared = advice.shared_place();
    let merged = |said: Vec<Said<'_>>| merged(said.into_iter(), &shared);
    let used = gains_first(situations).flat_map(|s| used(s, situations));
    lines.extend(merged_by_place(used, &shared));
    lines.extend(merged(situations.iter().flat_map(changed).collect()));
    let avoided = situations.iter().filter_map(|s| avoided(s, situations));
    lines.extend(merged(avoided.collect()));
    lines.extend(two_groups(view, situations));
    match &advice.undecided {
        Some(undecided) if lines.is_empty() => {
            lines.push(line(NOTHING_DECIDED, &nothing(view, undecided)));
        }
        Some(undecided) => {
            lines.extend(merged(not_decided(situations)));
            lines.push(line(UNDECIDED, &open(undecided)));
        }
        None if lines.is_empty() => lines.extend(merged(situations.iter().map(no_other).collect())),
        None => {}
    }
    if let Some(peer) = &view.input.manifest.peer {
        let there = format!("{OVER_NETWORK} to {}", peer.name);
        let named = |text: &String| text.replace(OVER_NETWORK, &there);
        for line in &mut lines {
            line.text = named(&line.text);
            line.brief = line.brief.as_ref().map(named);
        }
    }
    lines
}

/// What has something better than its baseline comes first of all that a reader has alike.
fn gains_first(situations: &[Situation]) -> impl Iterator<Item = &Situation> {
    let alike = grouped(situations.iter().map(|s| ((s.subject, s.axis), s)));
    alike.into_iter().flat_map(|(_, mut alike)| {
        alike.sort_by_key(|s| s.uses.iter().all(|u| u.gain.is_none()));
        alike
    })
}

fn used<'s>(s: &'s Situation, situations: &[Situation]) -> Vec<Said<'s>> {
    let uses = s
        .uses
        .iter()
        .filter(|u| !is_said_elsewhere(s, u, situations));
    let uses = uses.map(|u| said(s, one_use(s, u), u.gain.iter().chain(&u.but)));
    let mut told: Vec<Said<'_>> = uses.collect();
    if s.baseline_is_apart && s.subject.is_choice() {
        told.extend(apart(s));
    }
    let conditional = s.conditional.iter().sorted_by_key(|c| c.conditions.len());
    told.extend(conditional.map(|c| of_conditional(s, c)));
    told
}

/// Returns true if a way than which nothing was shown to be better need not be named: another line
/// of the same reader says it with an amount or says that it is worse than another, or it has a condition
/// and those that are better say more.
fn is_said_elsewhere(s: &Situation, u: &Use, situations: &[Situation]) -> bool {
    if u.gain.is_some() {
        return false;
    }
    let is_at = |range: &DecidedRange| {
        let at = places(range);
        u.at.is_empty() || u.at.iter().any(|place| at.contains(place))
    };
    let is_better = s.conditional.iter().any(|c| is_at(&c.gain));
    let mut alike = situations.iter().filter(|other| s.is_alike(other));
    let is_decided = |other: &Situation| {
        let worse = other.avoid.iter().map(|avoid| &avoid.cost);
        let mut decided = gains(other).chain(worse);
        let mut free = other.uses.iter().filter_map(|u| u.gain.as_ref());
        let is_worse_baseline = other.baseline == u.value && free.any(is_at);
        is_worse_baseline || decided.any(|range| range.value == u.value && is_at(range))
    };
    is_better && !u.conditions.is_empty() || alike.any(is_decided)
}

/// What is better than the baseline, with a condition or without one.
fn gains(s: &Situation) -> impl Iterator<Item = &DecidedRange> {
    let free = s.uses.iter().filter_map(|u| u.gain.as_ref());
    free.chain(s.conditional.iter().map(|c| &c.gain))
}

/// A way that is better with its conditions. Where they say that no connection is idle, its place
/// does not say it again.
fn of_conditional<'s>(s: &'s Situation, c: &Conditional) -> Said<'s> {
    let of_idle = [Condition::NoneIdle, Condition::IdleNotMeasured];
    let is_named = s.along == Some(Axis::Idle) && of_idle.iter().any(|i| c.conditions.contains(i));
    let at = match is_named && places(&c.gain) == ["0"] {
        true => String::new(),
        false => span(s, &places(&c.gain)),
    };
    let way = s.axis.subject(&c.gain.value);
    let mut text = against(s, format!("{way}{at}: "), &c.gain);
    text.push(only(&c.conditions).into());
    said(s, text, [&c.gain])
}

/// `, but only with Linux 6.0 or newer`; nothing where there is no condition.
fn only(conditions: &[Condition]) -> String {
    match conditions {
        [] => String::new(),
        all => format!(
            ", but only {}",
            phrases::list(all.iter().map(|c| condition(*c)))
        ),
    }
}

fn of_way<'s>(s: &'s Situation, range: &DecidedRange, but: String) -> Said<'s> {
    let (way, at) = (s.axis.subject(&range.value), span(s, &places(range)));
    let mut text = against(s, format!("{way}{at}: "), range);
    text.push(but.into());
    said(s, text, [range])
}

fn one_use(s: &Situation, u: &Use) -> Vec<Part> {
    let verb = if u.conditions.is_empty() { "use " } else { "" };
    let way = format!("{verb}{}", s.axis.subject(&u.value));
    let span = span(s, &u.at);
    let mut told = match &u.gain {
        None => {
            let is_here = |c: &Conditional| places(&c.gain).iter().any(|at| u.at.contains(at));
            let better = (s.conditional.iter()).any(|c| s.along.is_none() || is_here(c));
            let free = match (better, u.conditions.is_empty()) {
                (true, true) => " without a condition",
                (true, false) => " without a further condition",
                (false, _) => "",
            };
            let need = need(s);
            let nothing = format!(": nothing{free} was shown to {need}");
            let nothing = match better {
                true => Part::Alone(nothing),
                false => nothing.into(),
            };
            vec![format!("{way}{span}").into(), nothing]
        }
        Some(gain) => against(s, format!("{way}{span}: "), gain),
    };
    let mut text = String::new();
    if s.baseline_is_apart {
        text.push_str(ALONE);
        let own = s.avoid.iter().filter(|avoid| avoid.cost.value == u.value);
        for cost in own.map(|avoid| &avoid.cost) {
            let at = names(s, &places(cost));
            text.push_str(&format!("; {} at {at}", amount(s, cost)));
        }
    }
    if !u.ties.is_empty() {
        let ties = phrases::list(u.ties.iter().map(|t| s.axis.subject(t)));
        let was = if u.ties.len() > 1 { "were" } else { "was" };
        text.push_str(&format!("; {ties} {was} not shown to differ from it"));
    }
    let by_way = grouped(u.but.iter().map(|but| ((&but.value, but.verdict), but)));
    for ((way, verdict), all) in by_way {
        let who = match verdict {
            Verdict::Better => s.axis.subject(way),
            _ => "it".to_owned(),
        };
        let of = |but: &&DecidedRange| {
            let is_bare = is_less(but) || !has_amounts(but);
            let the = if is_bare { "" } else { "the " };
            let at = match places(but) == u.at {
                true => String::new(),
                false => at(s, but),
            };
            let noun = phrases::metric(but.metric, s.unit);
            format!("{} {the}{noun}{at}", amount(s, but))
        };
        let buts = phrases::list(all.iter().map(of));
        text.push_str(&format!("; but {who} has {buts}"));
    }
    text.push_str(&only(&u.conditions));
    let is_last = s.uses.last() == Some(u);
    for (what, at) in [("undecided", &s.undecided), ("no verdict", &s.withheld)] {
        if is_last && !at.is_empty() {
            text.push_str(&format!("; {what} at {}", names(s, at)));
        }
    }
    told.push(text.into());
    told
}

/// Of ways not to be used whose baseline serves somebody else: where they cost more than it.
fn apart(s: &Situation) -> Vec<Said<'_>> {
    let mut told = Vec::new();
    let base = baseline(s);
    if s.uses.is_empty() && s.avoid.is_empty() && s.open.is_none() {
        let text = format!("no way was shown to {} than {base} alone", need(s));
        told.push(said(s, words(text), []));
    }
    let is_used = |avoid: &Avoid| s.uses.iter().any(|u| u.value == avoid.cost.value);
    let unused = s.avoid.iter().filter(|avoid| !is_used(avoid));
    told.extend(unused.map(|avoid| of_way(s, &avoid.cost, ALONE.to_owned())));
    told
}

fn no_other(s: &Situation) -> Said<'_> {
    let base = baseline(s);
    let noun = phrases::metric(s.metric, s.unit);
    let text = format!("no other {noun} than with {base} was shown");
    said(s, words(text), [])
}

/// Situations in which what the study asks for first is open: why, or what would decide it.
fn not_decided(situations: &[Situation]) -> Vec<Said<'_>> {
    let open = situations.iter().filter_map(|s| {
        let open = s.open.as_ref()?;
        let alike = situations.iter().filter(|other| s.is_alike(other));
        let alike = alike.filter_map(|s| Some((s, s.open.as_ref()?)));
        let alike = alike.filter(|(_, own)| own.withheld == open.withheld);
        let nouns = alike.map(|(s, own)| phrases::metric(own.metric, s.unit));
        let what = (
            label(s.subject, s.axis),
            nouns.unique().collect_vec(),
            &open.withheld,
        );
        Some((what, (s, open.blocks)))
    });
    let groups = grouped(open).into_iter();
    let told = groups.flat_map(|((_, nouns, reasons), members)| {
        let is_one = nouns.len() == 1;
        let (is, has) = if is_one {
            ("is", "has")
        } else {
            ("are", "have")
        };
        let noun = phrases::list(nouns);
        let needed: Option<Vec<u32>> = members.iter().map(|(_, blocks)| *blocks).collect();
        let ends = needed.and_then(|all| all.into_iter().minmax().into_option());
        let text = match (reasons.as_slice(), ends) {
            ([], Some((least, most))) => {
                let blocks = phrases::from_to([least, most].map(|n| n.to_string()));
                format!("{is} undecided; the first verdict would take about {blocks} blocks")
            }
            ([], None) => {
                let them = if is_one { "it" } else { "them" };
                format!("{is} undecided, and more blocks would hardly decide {them}")
            }
            (reasons, _) => format!("{has} no verdict: {}", phrases::list(reasons)),
        };
        members.into_iter().map(move |(s, _)| {
            // What was measured at one value alone is said of that.
            let at = match s.measured.len() {
                1 => span(s, &s.measured),
                _ => String::new(),
            };
            said(s, words(format!("{noun}{at} {text}")), [])
        })
    });
    told.collect()
}

/// The answer of a run in which nothing is decided: why, and what would decide it.
fn nothing(view: &View<'_>, undecided: &Undecided) -> String {
    let judged = view.known.findings.iter();
    let judged = judged.filter(|f| f.verdict != Verdict::NotJudged);
    let why = phrases::list(judged.filter_map(|f| f.withheld.as_ref()).unique());
    let comparisons = undecided.by_family.iter().map(|own| own.comparisons).sum();
    let all = phrases::count(comparisons, "comparison");
    let what = format!("none of {all} has a verdict");
    let remedy = remedy(undecided, false);
    match undecided.withheld {
        n if n == comparisons => format!("{what}: {why}"),
        0 => format!("{what}; {remedy}"),
        n => format!("{what}, {n} of them by a caveat ({why}); {remedy}"),
    }
}

fn changed(s: &Situation) -> Vec<Said<'_>> {
    if s.subject != Subject::Circumstance {
        return Vec::new();
    }
    let costs = s.avoid.iter().map(|avoid| &avoid.cost);
    let ranges = costs.chain(&s.gains);
    ranges
        .map(|range| of_way(s, range, String::new()))
        .collect()
}

fn avoided<'s>(s: &'s Situation, situations: &[Situation]) -> Option<Said<'s>> {
    // The same seen from the other way is said once.
    let is_gain_of = |avoid: &Avoid, other: &Situation| {
        let is_of = |gain: &DecidedRange| {
            gain.value == s.baseline && gain.metric == avoid.cost.metric && {
                let at = places(gain);
                places(&avoid.cost).iter().all(|place| at.contains(place))
            }
        };
        other.baseline == avoid.cost.value && s.is_alike(other) && gains(other).any(is_of)
    };
    let is_new = |avoid: &&Avoid| !situations.iter().any(|other| is_gain_of(avoid, other));
    let worse = s.avoid.iter().filter(is_new).collect_vec();
    if s.subject == Subject::Circumstance || s.baseline_is_apart || worse.is_empty() {
        return None;
    }
    let why = |with: &Option<AvoidWith>| with.as_ref().map(|with| reason(s, with));
    let by_reason = grouped(worse.iter().map(|avoid| (why(&avoid.with), &avoid.cost)));
    let baseline = baseline(s);
    let metric = phrases::metric(s.metric, s.unit);
    let mut text = words(format!("compared with {baseline} in {metric}: "));
    let mut between = "";
    for (why, costs) in by_reason {
        for cost in costs {
            let way = s.axis.subject(&cost.value);
            text.push(format!("{between}{way} ").into());
            text.push(Part::Amount {
                range: cost.clone(),
                with_places: true,
            });
            between = ", ";
        }
        text.extend(why.iter().map(|why| format!(": {why}").into()));
        between = "; ";
    }
    let ways = worse.iter().map(|a| s.axis.subject(&a.cost.value));
    let ways = phrases::list(ways.unique());
    let copied = |avoid: &&Avoid| matches!(avoid.with, Some(AvoidWith::Copied(_)));
    let no_card = match worse.iter().any(copied) {
        true => no_card(s),
        false => "",
    };
    Some(Said {
        label: AVOID.to_owned(),
        brief: Some(format!(
            "worse than {baseline} in {metric} in at least one comparison: {ways}{no_card}"
        )),
        ..said(s, text, worse.iter().map(|avoid| &avoid.cost))
    })
}

/// Of what is compared first, cells without one value: their trials fall into two groups far apart,
/// and a comparison has no verdict for that.
fn two_groups(view: &View<'_>, situations: &[Situation]) -> Vec<AdviceLine> {
    let varied = view.varied();
    let is_first = |metric: Metric| {
        let mut compared = situations.iter().map(|s| s.metric);
        metric == view.main_metric() || compared.any(|first| first == metric)
    };
    let parted = view.known.cells.iter().filter_map(|cell| {
        let mut groups = cell.two_groups.iter();
        let groups = groups.find(|g| is_first(g.metric) && g.are_far_apart())?;
        let is_of_cell = |f: &&Finding| [&f.cell, &f.baseline].contains(&&cell.id);
        let findings = view.known.findings.iter().filter(is_of_cell);
        let withheld = findings.filter(|f| f.metric == groups.metric && f.withheld.is_some());
        let findings: Vec<String> = withheld.map(|f| f.id.clone()).collect();
        let place = phrases::circumstances(&grid::coordinates(&cell.cell, varied));
        let noun = view.words(groups.metric);
        let text = format!("{place}, {noun}: {}", groups.in_words());
        (!findings.is_empty()).then_some((text, findings))
    });
    let parted: Vec<(String, Vec<String>)> = parted.collect();
    let more = parted.len().saturating_sub(MOST_PARTED);
    let line = |text: String, findings: Vec<String>| AdviceLine {
        label: TWO_GROUPS.to_owned(),
        text,
        brief: None,
        findings,
    };
    let mut lines: Vec<AdviceLine> = (parted.into_iter().take(MOST_PARTED))
        .map(|(text, findings)| line(text, findings))
        .collect();
    if more > 0 {
        let text = format!("{} more: see the caveats", phrases::count(more, "cell"));
        lines.push(line(text, Vec::new()));
    }
    lines
}

fn no_card(s: &Situation) -> &'static str {
    match path(s) {
        Some(path) if path == Transport::Peer.name() => "",
        _ => "; a network card was not measured",
    }
}

fn path(s: &Situation) -> Option<&String> {
    let mut place = s.place.iter();
    Some(&place.find(|(axis, _)| *axis == Axis::Transport)?.1)
}

fn reason(s: &Situation, with: &AvoidWith) -> String {
    match with {
        AvoidWith::Copied(share) => {
            let told = path(s).map_or_else(String::new, |path| format!(" {}", transport(path)));
            let (share, no_card) = (phrases::percent(*share), no_card(s));
            format!("the kernel copied {share} of the buffers{told}{no_card}")
        }
        AvoidWith::Cause { of, from, to, at } => {
            let cause = phrases::cause(*of, [*from, *to], &s.unit.in_words("a message"));
            match at.as_slice() {
                [] => cause,
                some => format!("{cause} at {}", names(s, some)),
            }
        }
    }
}

fn condition(condition: Condition) -> String {
    let words = match condition {
        Condition::NeverWrittenAgain => "for buffers that are never written again",
        Condition::NotWrittenUntilCompletion => {
            "for buffers that are not written before their completion"
        }
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
            "with all connections busy: idle ones were not measured (`--idle 0,900`)"
        }
        Condition::ThreadEach => "with a thread for each connection",
        Condition::ProcessEach => "with a process for each connection",
        Condition::OneClientAtATime => "with one client at a time",
    };
    words.to_owned()
}

fn open(u: &Undecided) -> String {
    // Those without a verdict are counted by themselves, with their reasons.
    if u.withheld > 0 && u.by_family.iter().all(|own| own.undecided == 0) {
        let all = u.by_family.iter().map(|own| own.comparisons).sum();
        let of = phrases::count(all, "comparison");
        return format!("none; {} of {of} have no verdict", u.withheld);
    }
    let family = |(place, own): (usize, &UndecidedOf)| {
        let all = own.comparisons;
        let noun = match place {
            0 => phrases::count(all, &format!("{} comparison", own.family.name())),
            _ => format!("{all} {} ones", own.family.name()),
        };
        format!("{} of {noun}", own.undecided)
    };
    let all = phrases::list(u.by_family.iter().enumerate().map(family));
    format!("{all}; {}", remedy(u, u.by_family.len() > 1))
}

fn remedy(u: &Undecided, several: bool) -> String {
    let of = match several {
        true => format!(" of the {} ones", u.asks.name()),
        false => String::new(),
    };
    let Some(command) = &u.command else {
        return match several {
            true => format!(
                "a longer run would hardly decide the {} ones",
                u.asks.name()
            ),
            false => "a longer run would hardly decide them".to_owned(),
        };
    };
    if u.seconds.is_some() {
        let n = u.would_decide;
        return format!("a longer run would decide about {n}{of}: {command}");
    }
    let apart = phrases::from_run_to_run(u.between_deviation.unwrap_or(0.0));
    let n = u.rounds_prevent;
    format!("{apart} for {n}{of}, which several rounds lessen: {command}")
}

fn words(words: String) -> Vec<Part> {
    vec![words.into()]
}

/// After a head: a way's numbers, what they are of, and what they are compared with:
/// ``27–44 % less CPU time per byte than `send` ``.
fn against(s: &Situation, head: String, range: &DecidedRange) -> Vec<Part> {
    let base = baseline(s);
    let noun = phrases::metric(range.metric, s.unit);
    let of = match is_less(range) || !has_amounts(range) {
        true => format!(" {noun} than {base}"),
        false => format!(" the {noun} of {base}"),
    };
    let amount = Part::Amount {
        range: range.clone(),
        with_places: false,
    };
    vec![head.into(), amount, Part::Than(of)]
}

/// The baseline, with its block where the others have none.
fn baseline(s: &Situation) -> String {
    let block = s.baseline_block.iter();
    let block = block.map(|value| format!(" {}", Axis::Block.circumstance(value)));
    std::iter::once(s.axis.subject(&s.baseline))
        .chain(block)
        .collect()
}

fn need(s: &Situation) -> String {
    let noun = phrases::metric(s.metric, s.unit);
    match (s.metric.better(), kind(s.metric.measure) == Kind::Cost) {
        (Better::Lower, true) => format!("need less {noun}"),
        (Better::Lower, false) => format!("have a lower {noun}"),
        (Better::Higher, _) => format!("reach a higher {noun}"),
    }
}

fn names(s: &Situation, at: &[String]) -> String {
    let name = |value: &String| s.along.map_or_else(String::new, |axis| axis.subject(value));
    phrases::list(at.iter().map(name))
}

/// Where along the range, with the sizes that were measured: ` from 16 KiB to 1 MiB`.
fn span(s: &Situation, at: &[String]) -> String {
    let Some(axis) = s.along else {
        return String::new();
    };
    let with = |value: &String| axis.circumstance(value);
    let name = |value: &String| axis.subject(value);
    let place = |value: &String| s.measured.iter().position(|v| v == value);
    if axis == Axis::Idle && at == ["0"] {
        return " with all connections busy".to_owned();
    }
    // One value that is the usual one is no range; connections are always named.
    let is_named = [Axis::Size, Axis::Connections, Axis::Idle].contains(&axis);
    let usual = |value: &String| value == axis.row().default && !is_named;
    if s.measured.len() == 1 && s.measured.iter().all(usual) {
        return String::new();
    }
    let [first, .., last] = at else {
        return at.iter().map(|one| format!(" {}", with(one))).collect();
    };
    let follows = |(a, b)| place(a).zip(place(b)).is_some_and(|(a, b)| a + 1 == b);
    let is_whole = at.iter().tuple_windows().all(follows);
    if !is_whole || at.len() == 2 {
        let names = std::iter::once(with(first)).chain(at.iter().skip(1).map(name));
        return format!(" {}", phrases::list(names));
    }
    let every = match at.len() == s.measured.len() && axis == Axis::Size {
        true => " at every size",
        false => "",
    };
    format!("{every} from {} to {}", name(first), name(last))
}

fn said<'s, 'r>(
    s: &'s Situation,
    text: Vec<Part>,
    of: impl IntoIterator<Item = &'r DecidedRange>,
) -> Said<'s> {
    let points = of.into_iter().flat_map(|range| &range.points);
    Said {
        situations: vec![s],
        label: label(s.subject, s.axis),
        text,
        brief: None,
        findings: points.map(|p| p.finding.clone()).collect(),
    }
}

fn label(subject: Subject, axis: Axis) -> String {
    let told = match (subject, axis) {
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
    told.to_owned()
}
