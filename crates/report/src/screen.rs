//! The first screen, for a reader who has a minute: at most 30 lines of 100 columns, with the advice and
//! the findings and nothing else. Each medium begins with it.

use bytecost_analysis::result::NoiseFloor;
use bytecost_analysis::{Analysis, Finding, Verdict, grouped};
use bytecost_spec::{Axis, Cell, Host, PeerSide, Value};
use itertools::Itertools as _;

use crate::advice::{self, Sentence};
use crate::answer_table::{TableRoom, answer_tables};
use crate::asked;
use crate::caveats::{self, DisturbanceText, withholding_reason};
use crate::document::{DocBlock, DocLine, DocTerm, Document};
use crate::numbers::{bare_ratio, whole};
use crate::phrases;
use crate::question::{QuestionTable, place_in_words, questions};
use crate::run_words;
use crate::stalls;
use crate::style::{Ink, Style};
use crate::terminal::print;
use crate::text::{columns, count, joined, nonzero, shortened, wrap};
use crate::two_groups;

/// The most lines that it has.
pub const LINES: usize = 30;
/// The most lines of the advice.
const ADVICE_LINES: usize = 3;
/// The most and the fewest rows of the tables, with those of the baselines.
const ROWS: usize = 16;
const FEWEST_ROWS: usize = 3;
/// The most characters of a note, and of one where there is no room.
const NOTE_CHARS: usize = 90;
const NOTE_CHARS_LEAST: usize = 36;
/// The most reasons for which comparisons have no verdict.
const WITHHELD: usize = 2;
/// The most characters of a disturbance: two lines next to the label.
const DISTURBED_CHARS: usize = 160;
/// Two lines of a reason, and one where there is no room.
const MISSING_CHARS: usize = 160;
const MISSING_CHARS_LEAST: usize = 70;
/// The most reasons for which something is not available.
const REASONS: usize = 2;
/// Cells in two groups that are shown.
const TWO_GROUPS: usize = 2;
/// The kind of the caveat of a run that has lost trials.
const MISSING_TRIALS: &str = "missing-trials";

/// Limits on each part of the first screen.
#[derive(Clone, Copy)]
struct Room {
    table: TableRoom,
    reasons: usize,
    noise_floor: bool,
    /// True if cells in two groups have lines of their own.
    two_groups: bool,
    /// True if the command that would decide more is shown.
    command: bool,
    /// The most sentences of the advice.
    sentences: usize,
    /// The most reasons why something has no result.
    missing_reasons: usize,
    /// The most characters of the reason why something has no result.
    missing_chars: usize,
    /// The most characters of a disturbance.
    disturbed_chars: usize,
}

/// Content of the first screen that does not depend on its room.
struct Content<'a> {
    /// The advice, brief where it has to be.
    advice: Vec<Sentence>,
    /// Number of all sentences, with those for which there is no room.
    sentences: usize,
    questions: Vec<QuestionTable<'a>>,
}

const ROOMY: Room = Room {
    table: TableRoom {
        rows: usize::MAX,
        note_chars: usize::MAX,
        line_columns: None,
    },
    reasons: usize::MAX,
    noise_floor: true,
    two_groups: true,
    command: true,
    sentences: usize::MAX,
    missing_reasons: usize::MAX,
    missing_chars: usize::MAX,
    disturbed_chars: usize::MAX,
};

/// The first screen for a terminal. `page` is where the whole report is, `run` the run as commands
/// name it; empty for the newest, which they take without a name.
pub fn screen(a: &Analysis, style: Style, page: &str, run: &str) -> String {
    let run = if run.is_empty() {
        String::new()
    } else {
        format!(" {run}")
    };
    let full = format!("{page}; explanations: bytecost explain{run}");
    let all = format!("bytecost report{run} --all");
    let links = [("Full report", full.as_str())];
    let all_advice = advice::sentences(a);
    let sentences = all_advice.len();
    let content = Content {
        advice: advice_within(all_advice, ADVICE_LINES, style),
        sentences,
        questions: questions(a),
    };
    let print = |room| print(&within(a, room, Some(&all), &links, &content), style);
    let mut room = ROOMY;
    room.table.rows = ROWS;
    room.table.note_chars = NOTE_CHARS;
    room.reasons = WITHHELD;
    room.sentences = content.advice.len();
    room.missing_reasons = REASONS;
    room.missing_chars = MISSING_CHARS;
    room.disturbed_chars = DISTURBED_CHARS;
    let mut text = print(room);
    while text.lines().count() > LINES {
        let Some(less) = room.less(style.columns()) else {
            break;
        };
        room = less;
        text = print(room);
    }
    // Whole rows may have left room for words.
    let mut with_words = room;
    with_words.table.note_chars = NOTE_CHARS;
    with_words.table.line_columns = None;
    let mut with_command = room;
    with_command.command = true;
    for roomier in [with_words, with_command] {
        let roomy = print(roomier);
        if roomy.lines().count() <= LINES {
            text = roomy;
            break;
        }
    }
    text
}

/// The advice in at most `lines` lines: amounts are left out first, from the last sentence on, then
/// sentences.
fn advice_within(mut sentences: Vec<Sentence>, lines: usize, style: Style) -> Vec<Sentence> {
    let labels = sentences.iter().map(|s| columns(&s.label));
    let label = labels.max().unwrap_or(0) + 2;
    let width = style.columns().saturating_sub(label);
    let length = |s: &Sentence| wrap(&s.text, width, "", "").len();
    let is_long = |shown: &[Sentence]| shown.iter().map(length).sum::<usize>() > lines;
    for place in (0..sentences.len()).rev() {
        if is_long(&sentences) {
            let brief = sentences[place].brief.clone();
            sentences[place].text = brief;
        }
    }
    while sentences.len() > 1 && is_long(&sentences) {
        sentences.pop();
    }
    sentences
}

impl Room {
    /// The next smaller room; none below the least. Reasons shrink first, then the noise floor, the
    /// words of notes, and rows of the table last.
    fn less(mut self, line_columns: usize) -> Option<Room> {
        if self.reasons > 1 {
            self.reasons -= 1;
        } else if self.noise_floor {
            self.noise_floor = false;
        } else if self.missing_chars > MISSING_CHARS_LEAST {
            self.missing_chars = MISSING_CHARS_LEAST;
        } else if self.missing_reasons > 0 {
            self.missing_reasons -= 1;
        } else if self.table.note_chars > NOTE_CHARS_LEAST {
            self.table.note_chars -= 18;
        } else if self.reasons > 0 {
            self.reasons = 0;
        } else if self.two_groups {
            self.two_groups = false;
        } else if self.command {
            self.command = false;
        } else if self.table.line_columns.is_none() {
            // The indent of a table.
            self.table.line_columns = Some(line_columns.saturating_sub(2));
        } else if self.table.rows > FEWEST_ROWS {
            self.table.rows -= 1;
        } else if self.sentences > 1 {
            self.sentences -= 1;
        } else {
            return None;
        }
        Some(self)
    }
}

/// The first screen without limits on room.
pub(crate) fn answer(a: &Analysis) -> Document {
    let advice = advice::sentences(a);
    let content = Content {
        sentences: advice.len(),
        advice,
        questions: questions(a),
    };
    within(a, ROOMY, None, &[], &content)
}

/// `all` is the command that prints all of a result.
fn within(
    a: &Analysis,
    room: Room,
    all: Option<&str>,
    links: &[(&str, &str)],
    content: &Content<'_>,
) -> Document {
    let mut document = Document::default();
    let advice = &content.advice[..room.sentences.min(content.advice.len())];
    let sentences_left = content.sentences - advice.len();
    let table = answer_tables(a, &content.questions, room.table);
    let shown = [table.values, in_header(a)].concat();
    let texts = advice.iter().map(|s| &s.text).chain(&table.texts);
    let unshown = asked::unshown(a, &shown, &texts.map(String::as_str).collect_vec());
    let (constants, unshown): (Vec<_>, Vec<_>) = unshown
        .into_iter()
        .partition(|(axis, _)| asked::is_constant(a, *axis));
    document.paragraph(Ink::Strong, header(a, &constants));
    if let Some(early) = &a.run.ended_early {
        document.paragraph(Ink::Warning, format!("This run ended early: {early}"));
    }
    for lost in a.caveats.iter().filter(|c| c.kind == MISSING_TRIALS) {
        let words = caveats::caveat(a, lost);
        document.paragraph(Ink::Warning, format!("{} {}", words.text, words.evidence));
    }
    if content.sentences == 0 && table.tables.is_empty() {
        document.paragraph(Ink::Strong, "This run gives no answer.");
    }
    let mut answers = Vec::new();
    // A wait for a timer is the answer where there is one.
    DocTerm::push(&mut answers, "Stalls", stalls::lines(a));
    for s in advice {
        let line = DocLine::from(s.text.as_str()).resting_on(s.findings.clone());
        answers.push(DocTerm::new(s.label.as_str(), [line]));
    }
    document.push(DocBlock::Terms(answers));
    let tables = table.tables.into_iter().map(DocBlock::Table);
    document.blocks.extend(tables);
    let more = unshown.iter().map(|(axis, value)| axis.subject(value));
    let mut terms = Vec::new();
    DocTerm::push(
        &mut terms,
        "Also measured",
        counted(&more.collect_vec(), all),
    );
    DocTerm::push(
        &mut terms,
        "More",
        left_out(table.rows_left, sentences_left, all),
    );
    terms.extend(limits(a, room, all, !links.is_empty()));
    for (label, link) in links {
        terms.push(DocTerm::new(*label, [*link]));
    }
    document.push(DocBlock::Terms(terms));
    document
}

/// Terms about the limits of the answer: disturbances, verdicts that are withheld, points that were not
/// measured, the noise floor and the undecided comparisons. `has_links` is true if they may refer to the
/// full report.
fn limits(a: &Analysis, room: Room, all: Option<&str>, has_links: bool) -> Vec<DocTerm> {
    let groups = if room.two_groups {
        two_groups(a)
    } else {
        Vec::new()
    };
    let floor = (a.noise_floor.iter().filter(|_| room.noise_floor)).map(noise_floor);
    let undecided = a.advice.undecided.iter().filter(|open| {
        a.advice.nothing.is_none() && open.by_family.iter().any(|family| family.undecided > 0)
    });
    let mut terms = Vec::new();
    DocTerm::push(&mut terms, "Disturbed", disturbed(a, room.disturbed_chars));
    DocTerm::push(&mut terms, "Two groups", groups);
    DocTerm::push(
        &mut terms,
        "No verdict",
        withheld(a, room.reasons, has_links),
    );
    terms.extend(missing(a, room, all));
    DocTerm::push(&mut terms, "Not measured", advice::network_card(a));
    DocTerm::push(&mut terms, "Noise floor", floor);
    DocTerm::push(
        &mut terms,
        "Undecided",
        undecided.map(|open| advice::undecided(open, room.command)),
    );
    terms
}

/// The widest ratio of a baseline and its twin.
fn noise_floor(floor: &NoiseFloor) -> String {
    let w = &floor.widest;
    let [ratio, low, high] = [w.ratio, w.low, w.high].map(bare_ratio);
    format!(
        "a baseline measured twice: ratio {ratio} at the widest (95 % interval {low} to {high})"
    )
}

/// The rows and sentences for which there was no room, counted, and the command that has them; none
/// where all are shown.
fn left_out(rows: usize, sentences: usize, command: Option<&str>) -> Option<String> {
    let sentences = nonzero(sentences, ["sentence of advice", "sentences of advice"]);
    let more = joined([nonzero(rows, ["row", "rows"]), sentences], ", ");
    (!more.is_empty()).then(|| format!("{more}: {}", command.unwrap_or_default()))
}

/// Lines about cells of the first comparison whose trials fall into two groups far apart, so that
/// it has no verdict.
fn two_groups(a: &Analysis) -> Vec<DocLine> {
    let is_compared = |metric| a.advice.situations.iter().any(|s| s.metric == metric);
    let in_groups = a.cells.iter().filter_map(|cell| {
        let mut groups = cell.two_groups.iter();
        let groups = groups.find(|g| is_compared(g.metric) && g.are_far_apart())?;
        let is_withheld = |f: &&Finding| {
            let is_of_cell = [&f.cell, &f.baseline].contains(&&cell.id);
            is_of_cell && f.metric == groups.metric && f.withheld.is_some()
        };
        let withheld = a.findings.iter().filter(is_withheld).map(|f| f.number);
        let varied = a.study.varied.iter();
        let place = place_in_words(varied.map(|axis| (*axis, cell.cell.value(*axis))));
        let noun = phrases::metric(groups.metric, a.study.unit);
        let line = DocLine::from(format!("{place}, {noun}: {}", two_groups::ranges(groups)));
        Some(line.resting_on(withheld.collect())).filter(|line| !line.rests_on.is_empty())
    });
    let mut lines: Vec<DocLine> = in_groups.collect();
    let more = lines.split_off(lines.len().min(TWO_GROUPS));
    if !more.is_empty() {
        let cells = count(more.len(), "more cell", "more cells");
        lines.push(DocLine::from(format!("{cells}: see the caveats")));
    }
    lines
}

/// `2 CPUs, Linux 6.18, KVM`; `1 of 2 CPUs` where others may not be used.
fn machine(host: &Host) -> String {
    let kernel: String = host.kernel.splitn(3, '.').take(2).join(".");
    let cpus = count(host.cpus.len(), "CPU", "CPUs");
    let allowed = host.cpus_allowed.len();
    let is_part = allowed > 0 && allowed < host.cpus.len();
    let parts = [
        if is_part {
            format!("{allowed} of {cpus}")
        } else {
            cpus
        },
        format!("Linux {kernel}"),
        host.virtualization.clone().unwrap_or_default(),
    ];
    joined(parts, ", ")
}

/// Values that the first line of the screen has already.
fn in_header(a: &Analysis) -> Vec<(Axis, Value)> {
    let places = places(a).flat_map(|(axis, values)| values.into_iter().map(move |v| (axis, v)));
    let congestion = congestion(a).map(|(value, _)| (Axis::Congestion, Value::Word(value)));
    paths(a)
        .chain(pages(a))
        .chain(congestion)
        .chain(places)
        .collect()
}

/// The transports of the advice.
fn paths(a: &Analysis) -> impl Iterator<Item = (Axis, Value)> {
    let places = a.advice.situations.iter().flat_map(|s| s.place.clone());
    places.filter(|(axis, _)| *axis == Axis::Transport).unique()
}

/// State of the page cache in all of the advice.
fn pages(a: &Analysis) -> impl Iterator<Item = (Axis, Value)> {
    let shared = a.advice.shared_place().into_iter();
    shared.filter(|(axis, _)| *axis == Axis::Cache)
}

/// `send-copies · loopback TCP · 2 CPUs, Linux 6.18, KVM · 59 s, 21 blocks`, with what the command
/// line names, is the same in all cells and stands nowhere else.
fn header(a: &Analysis, constants: &[(Axis, &Value)]) -> String {
    let mut data = paths(a).chain(pages(a)).map(|(axis, value)| {
        let words = match (axis, value.word()) {
            (Axis::Transport, "loopback") => "loopback TCP",
            (Axis::Transport, "peer") => "network TCP",
            (Axis::Transport, "wire") => "wire, where nobody receives",
            (Axis::Cache, "warm") => "page cache",
            (Axis::Cache, "cold") => "not in the page cache",
            (Axis::Cache, "direct") => "O_DIRECT",
            (_, other) => other,
        };
        words.to_owned()
    });
    let peer = a.peer.as_ref().map(|peer| {
        let there = machine(&peer.host);
        format!("{} ({there}) over {}", peer.name, run_words::path(peer))
    });
    let machines = std::iter::once(machine(&a.host)).chain(peer).join(" and ");
    let least = a.run.blocks as usize;
    let most = a.findings.iter().map(|f| f.blocks).max();
    let blocks = match most.filter(|most| *most > least) {
        Some(most) => format!("{least}–{most} blocks"),
        None => count(least, "block", "blocks"),
    };
    let seconds = |s: f64| format!("{} s", whole(s.round() as u64));
    let budget = match a.run.over_budget_s {
        Some(s) => format!(" (budget {})", seconds(s)),
        None => String::new(),
    };
    let has_intervals = !a.findings.is_empty();
    let constants = constants.iter().map(|(axis, value)| axis.subject(value));
    let parts = [
        a.study.name.clone(),
        data.join(", "),
        machines,
        conditions(a).chain(constants).join(", "),
        format!("{}{budget}, {blocks}", seconds(a.run.measured_s)),
        if has_intervals { "95 % intervals" } else { "" }.to_owned(),
    ];
    joined(parts, " · ")
}

/// Placements of all cells, up to two, and the background load of all, where they are not the
/// default.
fn places(a: &Analysis) -> impl Iterator<Item = (Axis, Vec<Value>)> {
    let axes = [(Axis::Placement, 2), (Axis::Background, 1)];
    axes.into_iter().filter_map(|(axis, most)| {
        let values = a.cells.iter().map(|c| c.cell.value(axis));
        let values: Vec<Value> = values.unique().collect();
        let is_usual = values.iter().all(|value| value == axis.row().default);
        (!is_usual && values.len() <= most).then_some((axis, values))
    })
}

/// The congestion control of all cells that have one, where it is not the usual one: the value of the
/// axis, and its name.
fn congestion(a: &Analysis) -> Option<(String, String)> {
    if a.study.varied.contains(&Axis::Congestion) {
        return None;
    }
    // A cell without one has the usual value.
    let is_usual = |cell: &Cell| cell.congestion == Axis::Congestion.row().default;
    let mut cells = a.cells.iter().map(|c| &c.cell);
    let cell = cells.find(|cell| cell.transport.is_tcp() && !is_usual(cell))?;
    let sender = match &a.peer {
        Some(peer) if peer.side == PeerSide::Sender => &peer.host,
        _ => &a.host,
    };
    let name = match (cell.congestion.as_str(), &sender.congestion_default) {
        ("default", Some(name)) => name,
        (name, _) => name,
    };
    let words = format!("congestion control {name}");
    Some((cell.congestion.clone(), words))
}

fn conditions(a: &Analysis) -> impl Iterator<Item = String> {
    let words = |values: Vec<Value>| Value::Word(values.iter().join(" and "));
    let places = places(a).map(move |(axis, values)| axis.subject(&words(values)));
    let start = a.host.obstacles.iter().filter(|o| o.kind.is_start());
    let congestion = congestion(a).into_iter().map(|(_, name)| name);
    congestion
        .chain(places)
        .chain(start.map(|o| o.found.clone()))
}

/// Values that were asked for and have no result, by label, each reason once; the reasons beyond the first
/// few are counted, with the names of what they concern.
fn missing(a: &Analysis, room: Room, command: Option<&str>) -> Vec<DocTerm> {
    let unmeasured = asked::missing(a).into_iter();
    let by_label = grouped(unmeasured.map(|m| (m.label, (m.why, m.subject))));
    let term = |(label, missing): (&'static str, Vec<(String, String)>)| {
        let mut by_reason = grouped(missing);
        let rest = by_reason.split_off(by_reason.len().min(room.missing_reasons));
        let shown = by_reason.into_iter().map(|(why, subjects)| {
            let why = shortened(&why, room.missing_chars);
            let subjects = subjects.join(", ");
            DocLine::from(format!("{subjects}: {why}"))
        });
        let others = rest.into_iter().flat_map(|(_, subjects)| subjects);
        let more = counted(&others.collect_vec(), command);
        DocTerm::new(label, shown.chain(more))
    };
    by_label.into_iter().map(term).collect()
}

/// Line with the number of some names, the names, and the command that shows each in full; none
/// without names.
fn counted(names: &[String], command: Option<&str>) -> Option<DocLine> {
    let counted = format!("{} more: {}", names.len(), names.join(", "));
    let line = joined([&*counted, command.unwrap_or_default()], ": ");
    (!names.is_empty()).then(|| DocLine::from(line))
}

/// Lines about the disturbances of the run and the verdicts that they withheld, in at most
/// `most_chars`.
fn disturbed(a: &Analysis, most_chars: usize) -> Vec<String> {
    let words = |d: &DisturbanceText| {
        let verdicts = nonzero(d.verdicts_withheld, ["verdict", "verdicts"]);
        let amounts = nonzero(d.amounts_withheld, ["amount", "amounts"]);
        match joined([verdicts, amounts], " and ").as_str() {
            "" => d.text.clone(),
            counted => format!("{}: {counted} withheld", d.text),
        }
    };
    let words = caveats::disturbances(a).iter().map(words).collect_vec();
    if most_chars == usize::MAX || words.is_empty() {
        return words;
    }
    let text = |shown: usize| match words.len() - shown {
        0 => words.join("; "),
        left => format!(
            "{}; {left} more: see the full report",
            words[..shown].join("; ")
        ),
    };
    let is_short = |shown: &usize| text(*shown).chars().count() <= most_chars;
    let shown = (1..=words.len()).rev().find(is_short).unwrap_or(1);
    vec![shortened(&text(shown), most_chars)]
}

/// Lines about comparisons without a verdict, by reason, and about failed trials.
fn withheld(a: &Analysis, most: usize, short: bool) -> Vec<String> {
    let judged = a
        .findings
        .iter()
        .filter(|f| f.verdict != Verdict::NotJudged);
    let compared = count(judged.clone().count(), "comparison", "comparisons");
    let reasons = judged.filter_map(|f| f.withheld.map(withholding_reason));
    let reasons = reasons.counts();
    let all: usize = reasons.values().sum();
    let left = reasons.len().saturating_sub(most);
    let reasons = (reasons.into_iter()).sorted_by_key(|(why, n)| (std::cmp::Reverse(*n), *why));
    let shown = reasons.take(most).map(|(why, n)| match n {
        n if n == all => why.to_owned(),
        n => format!("{why} ({n})"),
    });
    let see = if short { "see the full report" } else { "" };
    let counted = if most == 0 {
        let how_many = count(left, "reason", "reasons");
        format!("{all} of {compared}, for {how_many}")
    } else {
        let more = nonzero(left, ["more reason", "more reasons"]);
        let why = joined(shown.chain([more, see.to_owned()]), "; ");
        format!("{all} of {compared}: {why}")
    };
    let failed = a.failures.iter().filter(|f| !f.stood_still()).count();
    let trials = count(a.run.trials + a.run.failed, "trial", "trials");
    let failed = (failed > 0).then(|| format!("{failed} of {trials} failed"));
    let counted = (all > 0).then_some(counted);
    let lines = counted.into_iter().chain(failed).collect_vec();
    if most == 0 && all > 0 {
        return vec![format!("{}: {see}", lines.join("; "))];
    }
    lines
}
