//! The first screen: what a reader sees who has a minute. At most 30 lines of 100 columns, and no
//! sentence beyond findings: what it says is the advice's, what it shows is the findings'. All of a result begins with it.

use bytecost_analysis::{
    AdviceLine, Analysis, AnswerSentence, Disturbance, Finding, NOTHING_DECIDED, UNDECIDED,
    Verdict, grouped,
};
use bytecost_spec::{Axis, Host, PeerSide, units};
use itertools::Itertools as _;

use crate::asked;
use crate::comparisons::not_judged;
use crate::descriptions;
use crate::document::{
    DocBlock, DocColumn, DocEntry, DocLine, DocMark, DocRow, DocTable, DocTerm, Document,
};
use crate::numbers::{self, bare_ratio, whole};
use crate::question::{QuestionEntry, QuestionRow, QuestionTable, questions};
use crate::sections::{self, findings};
use crate::stalls;
use crate::style::{Ink, Style};
use crate::terminal::print;
use crate::text::{count, joined, shortened};

/// The most lines that it has.
pub const LINES: usize = 30;
/// The most rows of its table, the baseline's included, and the most columns.
const ROWS: usize = 7;
const COLUMNS: usize = 5;
/// The most reasons for which comparisons have no verdict.
const WITHHELD: usize = 5;
const NO_VERDICT: &str = "–";
/// Two lines beside the label.
const DISTURBED_CHARS: usize = 160;
/// Two lines of a reason, and one where there is no room.
const MISSING_CHARS: usize = 160;
const MISSING_CHARS_LEAST: usize = 70;
/// The most reasons for which something is not available.
const REASONS: usize = 2;
/// The kind of the caveat that says that a run has lost trials.
const MISSING_TRIALS: &str = "missing-trials";

/// How much of everything but the advice there is room for.
#[derive(Clone, Copy)]
struct Room {
    rows: usize,
    reasons: usize,
    noise_floor: bool,
    /// Whether lines of the advice that have a brief form have that.
    brief: bool,
    lines: usize,
    /// The most reasons why something has no result.
    missing_reasons: usize,
    /// The most characters of the reason why something has no result.
    missing_chars: usize,
    /// The most characters of what disturbed the run.
    disturbed_chars: usize,
}

const ROOMY: Room = Room {
    rows: usize::MAX,
    reasons: WITHHELD,
    noise_floor: true,
    brief: false,
    lines: usize::MAX,
    missing_reasons: usize::MAX,
    missing_chars: usize::MAX,
    disturbed_chars: usize::MAX,
};

/// The first screen for a terminal. `page` is where the whole report is, `run` the run's name.
pub fn screen(a: &Analysis, style: Style, page: &str, run: &str) -> String {
    let full = format!("{page}; why: bytecost explain {run}");
    let links = [("Full report", full.as_str())];
    let print = |room| print(&within(a, room, run, &links), style);
    let mut room = Room {
        rows: ROWS,
        lines: a.advice.lines.len(),
        missing_reasons: REASONS,
        missing_chars: MISSING_CHARS,
        disturbed_chars: DISTURBED_CHARS,
        ..ROOMY
    };
    let mut text = print(room);
    while text.lines().count() > LINES {
        let Some(less) = room.less() else { break };
        room = less;
        text = print(room);
    }
    text
}

impl Room {
    /// What gives way first: long tables, all reasons but one, the noise floor, all rows but the
    /// baseline's and two, the reasons of what has no result, whose names stay, the words of the last reason; then amounts of what to avoid, and the last
    /// lines of advice. The table and the first line stay.
    fn less(mut self) -> Option<Room> {
        match self {
            Room { rows: 5.., .. } => self.rows -= 1,
            Room { reasons: 2.., .. } => self.reasons -= 1,
            Room {
                noise_floor: true, ..
            } => self.noise_floor = false,
            Room { rows: 4.., .. } => self.rows -= 1,
            Room {
                missing_chars: MISSING_CHARS,
                ..
            } => self.missing_chars = MISSING_CHARS_LEAST,
            Room { reasons: 1.., .. } => self.reasons = 0,
            Room {
                missing_reasons: 1..=REASONS,
                ..
            } => self.missing_reasons -= 1,
            Room { brief: false, .. } => self.brief = true,
            Room { lines: 2.., .. } => self.lines -= 1,
            _ => return None,
        }
        Some(self)
    }
}

pub(crate) fn answer(a: &Analysis) -> Document {
    let mut d = Document::default();
    if a.answers.is_empty() && a.advice.lines.is_empty() {
        d.paragraph(Ink::Strong, "This run gives no answer.");
    }
    d.blocks.extend(within(a, ROOMY, "", &[]).blocks);
    let is_advice = |answer: &&AnswerSentence| {
        let mut advice = a.advice.lines.iter();
        advice.any(|line| answer.sentence.contains(&line.text))
    };
    let others = a.answers.iter().filter(|answer| !is_advice(answer));
    let lines = others.map(|answer| {
        DocLine::from(answer.sentence.as_str()).resting_on(findings(a, &answer.findings))
    });
    d.list(lines.collect(), 0, "more sentences");
    d
}

/// All of it: the answer, then what it rests on.
pub(crate) fn document(a: &Analysis) -> Document {
    let mut document = answer(a);
    document.blocks.extend(sections::body(a).blocks);
    document
}

/// Renders all of a result for a terminal, every line ended and none wider than `style.width`.
pub fn terminal(a: &Analysis, style: Style) -> String {
    print(&document(a), style)
}

fn within(a: &Analysis, room: Room, run: &str, links: &[(&str, &str)]) -> Document {
    let mut document = Document::default();
    let lines = a.advice.lines.iter();
    let lines = lines.flat_map(|line| [line.label.as_str(), line.text.as_str()]);
    let (table, mut shown) = table(a, room.rows).unzip();
    let mut shown: Vec<(Axis, String)> = shown.take().unwrap_or_default();
    shown.extend(in_header(a));
    let unshown = asked::unshown(a, &shown, &lines.collect_vec());
    let (constants, unshown): (Vec<_>, Vec<_>) = unshown
        .into_iter()
        .partition(|(axis, _)| asked::is_constant(a, *axis));
    document.paragraph(Ink::Strong, header(a, &constants));
    if let Some(early) = &a.run.ended_early {
        document.paragraph(Ink::Warning, format!("This run ended early: {early}"));
    }
    for lost in a.caveats.iter().filter(|c| c.kind == MISSING_TRIALS) {
        document.paragraph(Ink::Warning, format!("{} {}", lost.text, lost.evidence));
    }
    let (advice, last): (Vec<_>, Vec<_>) =
        (a.advice.lines.iter()).partition(|line| line.label != UNDECIDED);
    let more = advice.len().saturating_sub(room.lines);
    let told = advice.iter().take(room.lines);
    let by_label = grouped(told.map(|line| (line.label.as_str(), said(a, line, room.brief))));
    let mut terms: Vec<DocTerm> = (by_label.into_iter())
        .map(|(label, lines)| DocTerm::new(label, lines))
        .collect();
    // A wait for a timer is the answer where it is why nothing is decided.
    let stalls = stalls::lines(a);
    let mut stalls = (!stalls.is_empty()).then(|| DocTerm::new("Stalls", stalls));
    if advice
        .first()
        .is_some_and(|line| line.label == NOTHING_DECIDED)
    {
        terms.splice(0..0, stalls.take());
    }
    if more > 0 {
        let lines = count(more, "line of advice", "lines of advice");
        let lines = format!("{lines}: bytecost report {run} --all");
        terms.push(DocTerm::new("More", [lines]));
    }
    document.push(DocBlock::Terms(terms));
    document.blocks.extend(table.map(DocBlock::Table));
    let mut terms = Vec::new();
    let more = unshown.iter().map(|(axis, value)| axis.subject(value));
    if let Some(more) = counted(&more.collect_vec(), run) {
        terms.push(DocTerm::new("Also measured", [more]));
    }
    let disturbed = disturbed(a, room.disturbed_chars);
    if !disturbed.is_empty() {
        terms.push(DocTerm::new("Disturbed", disturbed));
    }
    terms.extend(stalls);
    let withheld = withheld(a, room.reasons, !links.is_empty());
    if !withheld.is_empty() {
        terms.push(DocTerm::new("No verdict", withheld));
    }
    terms.extend(missing(a, room, run));
    let floor = a.noise_floor.iter().filter(|_| room.noise_floor);
    terms.extend(floor.map(|floor| {
        let w = &floor.widest;
        let [value, low, high] = [w.ratio, w.low, w.high].map(bare_ratio);
        let text = format!(
            "a baseline measured twice: {value}× apart at the widest (95 % interval {low} to {high})"
        );
        DocTerm::new("Noise floor", [text])
    }));
    let last = last.iter();
    terms.extend(last.map(|line| DocTerm::new(line.label.as_str(), [said(a, line, false)])));
    let links = links.iter();
    terms.extend(links.map(|(label, link)| DocTerm::new(*label, [*link])));
    document.push(DocBlock::Terms(terms));
    document
}

/// A line of the advice with the findings that it rests on.
fn said(a: &Analysis, line: &AdviceLine, brief: bool) -> DocLine {
    let short = line.brief.as_ref().filter(|_| brief);
    DocLine::from(short.unwrap_or(&line.text).as_str()).resting_on(findings(a, &line.findings))
}

/// `2 CPUs, Linux 6.18, KVM`; `1 of 2 CPUs` where others may not be used.
fn machine(host: &Host) -> String {
    let kernel: String = host.kernel.splitn(3, '.').take(2).join(".");
    let cpus = count(host.cpus.len(), "CPU", "CPUs");
    let allowed = host.cpus_allowed.len();
    let parts = [
        match allowed > 0 && allowed < host.cpus.len() {
            true => format!("{allowed} of {cpus}"),
            false => cpus,
        },
        format!("Linux {kernel}"),
        host.virtualization.clone().unwrap_or_default(),
    ];
    joined(parts, ", ")
}

/// The values that the first line has in words of its own.
fn in_header(a: &Analysis) -> Vec<(Axis, String)> {
    let situations = a.advice.situations.iter().flat_map(|s| s.place.clone());
    let paths = situations.filter(|(axis, _)| *axis == Axis::Transport);
    let shared = a.advice.shared_place().into_iter();
    let pages = shared.filter(|(axis, _)| *axis == Axis::Cache);
    let places = places(a).flat_map(|(axis, values)| values.into_iter().map(move |v| (axis, v)));
    let congestion = congestion(a).map(|(value, _)| (Axis::Congestion, value));
    paths.chain(pages).chain(congestion).chain(places).collect()
}

/// `send-copies · loopback TCP · 2 CPUs, Linux 6.18, KVM · 59 s, 21 blocks`, with what the command
/// line names, is the same in all cells and stands nowhere else.
fn header(a: &Analysis, constants: &[(Axis, &str)]) -> String {
    let places = a.advice.situations.iter().flat_map(|s| &s.place);
    let paths = places.filter(|(axis, _)| *axis == Axis::Transport).unique();
    let paths = paths.map(|(_, path)| match path.as_str() {
        "loopback" => "loopback TCP",
        "peer" => "network TCP",
        "wire" => "wire, where nobody receives",
        other => other,
    });
    let shared = a.advice.shared_place();
    let pages = shared.iter().filter(|(axis, _)| *axis == Axis::Cache);
    let pages = pages.map(|(_, value)| match value.as_str() {
        "warm" => "page cache",
        "cold" => "not in the page cache",
        "direct" => "O_DIRECT",
        other => other,
    });
    let peer = a.peer.as_ref().map(|peer| {
        let there = machine(&peer.host);
        format!("{} ({there}) over {}", peer.name, peer.way)
    });
    let machines = std::iter::once(machine(&a.host)).chain(peer).join(" and ");
    let least = a.run.blocks as usize;
    let most = a.findings.iter().map(|f| f.blocks).max();
    let blocks = match most.filter(|most| *most > least) {
        Some(most) => format!("{least}–{most} blocks"),
        None => count(least, "block", "blocks"),
    };
    let over = a.run.over_budget_s;
    let seconds = |s: f64| format!("{} s", whole(s.round() as u64));
    let budget = over.map_or_else(String::new, |s| format!(" (budget {})", seconds(s)));
    let run = format!("{}{budget}, {blocks}", seconds(a.run.measured_s));
    let ranges = match a.findings.is_empty() {
        true => "",
        false => "95 % intervals",
    };
    let constants = constants.iter().map(|(axis, value)| axis.subject(value));
    let parts = [
        a.study.name.clone(),
        paths.chain(pages).join(", "),
        machines,
        conditions(a).chain(constants).join(", "),
        run,
        ranges.to_owned(),
    ];
    joined(parts, " · ")
}

/// Where cells had their ends, in one way or in two, and what ran beside all of them, where that is
/// not the usual.
fn places(a: &Analysis) -> impl Iterator<Item = (Axis, Vec<String>)> {
    let values = |(axis, most): (Axis, usize)| {
        let values = a.cells.iter().map(|c| c.cell.value(axis)).unique();
        let values = values.collect_vec();
        let is_usual = values.iter().all(|value| value == axis.row().default);
        (!is_usual && values.len() <= most).then_some((axis, values))
    };
    let axes = [(Axis::Placement, 2), (Axis::Background, 1)].into_iter();
    axes.filter_map(values)
}

/// The congestion control of all cells that have one, where it is not the usual one: the value of the
/// axis, and its name.
fn congestion(a: &Analysis) -> Option<(String, String)> {
    if a.study.varied.contains(&Axis::Congestion) {
        return None;
    }
    let cells = a.cells.iter().map(|c| &c.cell);
    let mut by_tcp = cells.filter(|cell| cell.transport.is_tcp());
    // A cell without one has the usual value.
    let cell = by_tcp.find(|cell| cell.congestion != Axis::Congestion.row().default)?;
    let sender = match &a.peer {
        Some(peer) if peer.side == PeerSide::Sender => &peer.host,
        _ => &a.host,
    };
    let name = match (cell.congestion.as_str(), &sender.congestion_default) {
        ("default", Some(name)) => name,
        (name, _) => name,
    };
    Some((
        cell.congestion.clone(),
        format!("congestion control {name}"),
    ))
}

fn conditions(a: &Analysis) -> impl Iterator<Item = String> {
    let places = places(a).map(|(axis, values)| axis.subject(&values.join(" and ")));
    let start = a.host.obstacles.iter().filter(|o| o.kind.is_start());
    let start = start.map(|o| o.found.clone());
    let congestion = congestion(a).map(|(_, name)| name);
    congestion.into_iter().chain(places).chain(start)
}

/// Values that were asked for and have no result, by label, each reason once; the reasons beyond the first
/// few are counted, with the names of what they concern.
fn missing(a: &Analysis, room: Room, run: &str) -> Vec<DocTerm> {
    let all = asked::missing(a).into_iter();
    let by_label = grouped(all.map(|m| (m.label, (m.why, m.subject))));
    let term = |(label, missing): (&'static str, Vec<(String, String)>)| {
        let mut by_reason = grouped(missing);
        let more = by_reason.split_off(by_reason.len().min(room.missing_reasons));
        let shown = by_reason.into_iter().map(|(why, subjects)| {
            let why = shortened(&why, room.missing_chars);
            let subjects = subjects.join(", ");
            // A reason of one value begins with it.
            DocLine::from(match why.starts_with(&format!("{subjects}: ")) {
                true => why,
                false => format!("{subjects}: {why}"),
            })
        });
        let more = more.into_iter().flat_map(|(_, subjects)| subjects);
        let more = counted(&more.collect_vec(), run);
        DocTerm::new(label, shown.chain(more).collect_vec())
    };
    by_label.into_iter().map(term).collect()
}

/// Some names, counted, and the command that has all of each, where the run has a name: none of none.
fn counted(names: &[String], run: &str) -> Option<DocLine> {
    let [_, ..] = names else { return None };
    let counted = format!("{} more: {}", names.len(), names.join(", "));
    Some(DocLine::from(match run {
        "" => counted,
        run => format!("{counted}: bytecost report {run} --all"),
    }))
}

/// What disturbed the run, with what it did to verdicts, in at most so many characters.
fn disturbed(a: &Analysis, most_chars: usize) -> Vec<DocLine> {
    let words = |d: &Disturbance| {
        let counted = [
            (d.verdicts_withheld, ["verdict", "verdicts"]),
            (d.amounts_withheld, ["amount", "amounts"]),
        ];
        let counted = counted.into_iter().filter(|(n, _)| *n > 0);
        let counted = counted
            .map(|(n, [one, many])| count(n, one, many))
            .join(" and ");
        match counted.as_str() {
            "" => d.text.clone(),
            _ => format!("{}: {counted} withheld", d.text),
        }
    };
    let words = a.disturbances.iter().map(words).collect_vec();
    if most_chars == usize::MAX {
        return words.into_iter().map(DocLine::from).collect();
    }
    let mut shown = words.len();
    let more = |left: usize| match left {
        0 => String::new(),
        _ => format!("; {left} more: see the full report"),
    };
    let text = |shown: usize| words[..shown].join("; ") + &more(words.len() - shown);
    let is_short = |text: &str| text.chars().count() <= most_chars;
    while shown > 1 && !is_short(&text(shown)) {
        shown -= 1;
    }
    let mut line = text(shown);
    if !is_short(&line) {
        line = line.chars().take(most_chars - 1).collect::<String>() + "…";
    }
    match words.is_empty() {
        true => Vec::new(),
        false => vec![DocLine::from(line)],
    }
}

/// How many comparisons have no verdict, by reason, and how many trials failed.
fn withheld(a: &Analysis, most: usize, short: bool) -> Vec<DocLine> {
    let judged = (a.findings.iter()).filter(|f| f.verdict != Verdict::NotJudged);
    let of = judged.clone().count();
    let reasons = judged.filter_map(|f| f.withheld.as_deref()).counts();
    let all: usize = reasons.values().sum();
    let left = reasons.len().saturating_sub(most);
    let reasons = (reasons.into_iter()).sorted_by_key(|(why, n)| (std::cmp::Reverse(*n), *why));
    let told = reasons.take(most).map(|(why, n)| match n == all {
        true => why.to_owned(),
        false => format!("{why} ({n})"),
    });
    let more = (left > 0).then(|| match most {
        0 => count(left, "reason", "reasons"),
        _ => count(left, "more reason", "more reasons"),
    });
    let why = told.chain(more).join("; ");
    let see = if short { "see the full report" } else { "" };
    let of = count(of, "comparison", "comparisons");
    let counted = (all > 0).then(|| match most {
        0 => format!("{all} of {of}, for {why}"),
        _ => joined([&format!("{all} of {of}: {why}"), see], "; "),
    });
    let failed = a.failures.iter().filter(|f| !f.stood_still()).count();
    let failed = (failed > 0).then(|| {
        let trials = count(a.run.trials + a.run.failed, "trial", "trials");
        format!("{failed} of {trials} failed")
    });
    let mut lines: Vec<String> = counted.into_iter().chain(failed).collect();
    if most == 0 && all > 0 {
        lines = vec![format!("{}: {see}", lines.join("; "))];
    }
    lines.into_iter().map(DocLine::from).collect()
}

/// The table of the first finding that the advice rests on, with the ways that it names first above;
/// and the values that it shows.
fn table(a: &Analysis, rows: usize) -> Option<(DocTable, Vec<(Axis, String)>)> {
    let all = questions(a);
    let has = |q: &&QuestionTable<'_>, id: &str| {
        let mut entries = q.rows.iter().flat_map(|row| &row.entries);
        entries.any(|e| e.finding().is_some_and(|f| f.id == id))
    };
    let mut told = a.advice.lines.iter().flat_map(|line| &line.findings);
    let of_first = || {
        let first = a.advice.situations.first()?;
        all.iter().find(|q| {
            q.metric == first.metric && q.axis == first.axis && q.baseline == first.baseline
        })
    };
    let q = told.find_map(|id| all.iter().find(|q| has(q, id)));
    let q = q.or_else(of_first)?;
    let named: Vec<&str> = named(a).collect();
    let rank = |name: &str| named.iter().position(|n| *n == name).unwrap_or(usize::MAX);
    let mut order: Vec<_> = q.rows.iter().collect();
    order.sort_by_key(|row| (!row.is_baseline, rank(&row.name)));
    order.truncate(rows);
    let shown = spread(q.columns.len().max(1));
    let corner =
        q.x.map_or_else(String::new, |x| format!("{} by {x}", q.axis));
    let mut columns = vec![DocColumn::names(corner)];
    columns.extend(shown.iter().map(|&i| {
        let heading = q.x.zip(q.columns.get(i));
        DocColumn::right(heading.map_or_else(String::new, |(x, c)| x.in_words(c)))
    }));
    let rows = order.iter().map(|row| {
        let name = DocEntry::from(row.name.clone());
        let entries = shown.iter().map(|&i| shown_entry(a, q, row, i));
        DocRow {
            entries: std::iter::once(name).chain(entries).collect(),
            is_baseline: row.is_baseline,
            finding: None,
        }
    });
    let rows: Vec<DocRow> = rows.collect();
    let mut told = rows.iter().flat_map(|row| &row.entries);
    let missing = match told.any(|entry| entry.text == NO_VERDICT) {
        true => format!(", {NO_VERDICT} no verdict"),
        false => String::new(),
    };
    let shown_findings = order.iter().flat_map(|row| {
        let entries = shown.iter().filter_map(|&i| row.entries.get(i));
        entries.filter_map(QuestionEntry::finding)
    });
    let stalled = match shown_findings.clone().any(|f| is_stalled(a, f)) {
        true => ", an amount with its unit: not compared, since one side stalls",
        false => "",
    };
    let place = match descriptions::panel(&q.panel) {
        none if none.is_empty() => none,
        place => format!(", {place}"),
    };
    let caption = format!(
        "{} relative to {}{place}: ▲ better, ▼ worse, = within {}, ? undecided{}{missing}{stalled}",
        descriptions::metric_with_unit(q.metric, a.study.unit),
        q.baseline,
        numbers::percent(a.study.smallest_effect),
        not_judged(shown_findings)
    );
    let on_x = q.x.into_iter().flat_map(|x| {
        let columns = shown.iter().filter_map(|&i| q.columns.get(i));
        columns.map(move |value| (x, value.clone()))
    });
    let names = order.iter().map(|row| (q.axis, row.name.clone()));
    let values = names.chain(on_x).chain(q.panel.clone()).collect();
    let table = DocTable {
        caption,
        columns,
        rows,
    };
    Some((table, values))
}

/// The ways in the order in which the advice speaks of them.
fn named(a: &Analysis) -> impl Iterator<Item = &str> {
    let situations = || a.advice.situations.iter();
    let used = situations().flat_map(|s| s.uses.iter().map(|u| u.value.as_str()));
    let conditional = situations().flat_map(|s| s.conditional.iter().map(|c| &*c.gain.value));
    let worse = situations().flat_map(|s| s.avoid.iter().map(|w| &*w.cost.value));
    used.chain(conditional).chain(worse)
}

/// Some of so many columns: the ends, and what lies evenly between.
fn spread(count: usize) -> Vec<usize> {
    let shown = count.min(COLUMNS);
    let steps = shown.saturating_sub(1).max(1);
    (0..shown).map(|i| i * (count - 1) / steps).collect()
}

/// Returns true if a finding has no verdict and one of its sides waits for a timer.
fn is_stalled(a: &Analysis, finding: &Finding) -> bool {
    let sides = [&finding.baseline, &finding.cell];
    finding.withheld.is_some() && sides.iter().any(|id| stalls::waits(a, id))
}

/// What stands in a column of a row. A baseline out of place has what the others are compared with.
fn shown_entry(a: &Analysis, q: &QuestionTable<'_>, row: &QuestionRow<'_>, i: usize) -> DocEntry {
    match row.entries.get(i) {
        Some(QuestionEntry::Measured(e, _)) if row.is_baseline => {
            numbers::amount(q.metric, e.value).into()
        }
        // A ratio to a wait is no comparison of ways.
        Some(QuestionEntry::Measured(e, Some(f))) if is_stalled(a, f) => {
            numbers::amount_with_unit(q.metric, e.value).into()
        }
        Some(QuestionEntry::Measured(_, Some(f))) if f.withheld.is_none() => {
            let ratio = match f.amount_withheld {
                Some(_) => String::new(),
                None => numbers::ratio(f.ratio),
            };
            DocEntry::from(ratio).marked(DocMark::of(f.verdict))
        }
        // Nothing is there to compare it with.
        Some(QuestionEntry::Measured(e, None)) => units::number(e.value).into(),
        _ if row.is_baseline => {
            let mut here = q.rows.iter().filter_map(|r| r.entries.get(i)?.finding());
            let of = here.find_map(|f| a.result(&f.baseline));
            let estimate = of.and_then(|c| c.estimates.get(&q.metric));
            let groups = of.and_then(|c| c.two_groups.iter().find(|g| g.metric == q.metric));
            match (estimate, groups) {
                (Some(estimate), _) => numbers::amount(q.metric, estimate.value).into(),
                (None, Some(groups)) => groups.values_in_words().into(),
                (None, None) => NO_VERDICT.into(),
            }
        }
        _ => NO_VERDICT.into(),
    }
}
