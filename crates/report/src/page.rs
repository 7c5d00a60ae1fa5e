//! The result as one page that needs nothing else: HTML with its own style, figures and script.

use std::collections::BTreeMap;

use askama::Template;
use bytecost_analysis::{Analysis, Finding, Twin, Verdict};
use bytecost_spec::units;

use crate::books::{self, books};
use crate::counted::{CountTable, counted, roles};
use crate::descriptions;
use crate::figure::{DrawnFigure, EntryText, Palette, figure};
use crate::footprint::{self, FootprintTable};
use crate::heat::{self, Heat, heats};
use crate::numbers::{self, mark, p_value, ratio, ratio_interval, verdict};
use crate::overview::{self, Overview, overview};
use crate::published_series;
use crate::question::{QuestionEntry, QuestionTable, cell_of, questions, value_in_words};
use crate::stack::{Stack, stacks};
use crate::terminal::note;
use crate::text::{TextSpan, clean, count, spans};

mod reasons;

use reasons::Reasons;

/// Renders a result as one HTML page: no request goes out from it, and without its script it
/// still shows every figure and every table.
///
/// # Panics
/// Never: the template writes into memory and asks nothing that could fail.
#[must_use]
pub fn html(a: &Analysis) -> String {
    let mut page = Page::of(a).render().expect("a page is only text");
    page.push('\n');
    page
}

#[derive(Template)]
#[template(path = "page.html", whitespace = "minimize")]
struct Page {
    css: &'static str,
    script: &'static str,
    title: String,
    question: Vec<TextSpan>,
    prediction: Vec<TextSpan>,
    ended_early: Option<String>,
    headline: Option<AnswerText>,
    answers: Vec<AnswerText>,
    /// Those of a long answer that are folded away.
    more_answers: Vec<AnswerText>,
    why: Reasons,
    numbers: Vec<(&'static str, String)>,
    figures: Vec<DrawnFigure>,
    heats: Vec<Heat>,
    stacks: Vec<Stack>,
    counted: Vec<CountTable>,
    footprint: Option<FootprintTable>,
    overview: Option<Overview>,
    speed_ups: Vec<overview::OverviewLine>,
    tables: Vec<TableText>,
    notes: Vec<Vec<TextSpan>>,
    verdicts: Vec<VerdictText>,
    within: String,
    comparisons: Vec<ComparisonText>,
    caveats: Vec<CaveatText>,
    refusals: Vec<(Vec<TextSpan>, Vec<TextSpan>)>,
    failures: Vec<(u32, String, Vec<TextSpan>)>,
    left_out: Vec<(Vec<TextSpan>, String, Vec<TextSpan>)>,
    host: Vec<(&'static str, String)>,
    checks: Vec<CheckText>,
    constants: Vec<(String, String)>,
    method: Vec<(&'static str, String)>,
    command: String,
    run: RunText,
}

struct RunText {
    id: String,
    started: String,
    version: String,
    seed: u64,
}

struct AnswerText {
    sentence: Vec<TextSpan>,
    /// Rows of the table of comparisons.
    rests_on: Vec<usize>,
}

struct VerdictText {
    class: &'static str,
    mark: &'static str,
    words: &'static str,
    count: usize,
}

struct TableText {
    heading: String,
    panel: String,
    axis: &'static str,
    columns: Vec<String>,
    rows: Vec<(String, bool, Vec<CellText>)>,
}

enum CellText {
    Gap(usize),
    Baseline(String),
    Compared {
        value: String,
        ratio: String,
        mark: &'static str,
        class: &'static str,
        tells: String,
    },
}

struct ComparisonText {
    number: usize,
    metric: String,
    what: String,
    baseline: String,
    place: String,
    ratio: String,
    interval: String,
    p: String,
    mark: &'static str,
    class: &'static str,
    verdict: String,
    blocks: usize,
    detectable: String,
}

struct CaveatText {
    text: Vec<TextSpan>,
    evidence: Vec<TextSpan>,
    remedy: Vec<TextSpan>,
    affects: String,
}

struct CheckText {
    class: &'static str,
    mark: &'static str,
    level: &'static str,
    name: String,
    found: String,
    means: String,
    remedy: Option<String>,
}

impl Page {
    fn of(a: &Analysis) -> Page {
        let drawn = published_series::figures(a);
        let palette = Palette::of(a, &drawn);
        let mut answers = answers(a);
        let rest = answers.split_off(answers.len().min(1));
        let (told, folded) = descriptions::told_at_once(rest);
        let figures = drawn.iter().enumerate();
        let mut notes = Vec::new();
        let tables = questions(a).iter().map(|q| table(q, &mut notes)).collect();
        Page {
            css: include_str!("../templates/page.css"),
            script: include_str!("../templates/page.js"),
            title: clean(&a.study.title),
            question: spans(&a.study.question),
            prediction: spans(&a.study.prediction),
            ended_early: a.run.ended_early.as_deref().map(clean),
            headline: answers.pop(),
            answers: told,
            more_answers: folded,
            why: Reasons::of(a),
            numbers: key_numbers(a),
            figures: figures.map(|(i, f)| figure(a, i, f, &palette)).collect(),
            heats: heats(a),
            stacks: stacks(a),
            counted: [books(a), books::counted(a), counted(a), roles(a)]
                .into_iter()
                .flatten()
                .collect(),
            footprint: footprint::table(a),
            overview: overview(a),
            speed_ups: overview::table(a),
            tables,
            notes: notes.iter().map(|why| spans(why)).collect(),
            verdicts: verdicts(a),
            within: numbers::percent(a.study.smallest_effect),
            comparisons: comparisons(a),
            caveats: caveats(a),
            refusals: descriptions::refusals(a)
                .iter()
                .map(|(what, why)| (spans(what), spans(why)))
                .collect(),
            failures: a
                .failures
                .iter()
                .map(|f| {
                    let cell = descriptions::cells(&[&f.cell], &a.study.varied);
                    (f.trial.block, clean(&cell), spans(&f.reason))
                })
                .collect(),
            left_out: a
                .left_out
                .iter()
                .map(|l| {
                    (
                        spans(&l.what),
                        count(l.cells, "cell", "cells"),
                        spans(&l.why),
                    )
                })
                .collect(),
            host: descriptions::host(&a.host),
            checks: checks(a),
            constants: a
                .study
                .constants
                .iter()
                .map(|(axis, value)| (axis.name().to_owned(), value_in_words(*axis, value)))
                .collect(),
            method: descriptions::method(a),
            command: clean(&descriptions::command(a)),
            run: RunText {
                id: clean(&a.run.id),
                started: clean(&a.run.started),
                version: clean(&a.run.bytecost_version),
                seed: a.run.seed,
            },
        }
    }
}

fn answers(a: &Analysis) -> Vec<AnswerText> {
    a.answers
        .iter()
        .map(|answer| AnswerText {
            sentence: spans(&answer.sentence),
            rests_on: rests_on(a, &answer.findings),
        })
        .collect()
}

/// Rows of the table of comparisons, from 1, of the findings with these ids.
fn rests_on(a: &Analysis, ids: &[String]) -> Vec<usize> {
    let numbers: BTreeMap<&str, usize> = a
        .findings
        .iter()
        .enumerate()
        .map(|(i, f)| (f.id.as_str(), i + 1))
        .collect();
    let known = ids.iter().filter_map(|id| numbers.get(id.as_str()));
    known.copied().collect()
}

/// The numbers at the top of the page.
fn key_numbers(a: &Analysis) -> Vec<(&'static str, String)> {
    if descriptions::imported(a).is_some() {
        return Vec::new();
    }
    let mut numbers = vec![
        ("Machine", clean(&descriptions::place_line(a))),
        ("Run", descriptions::run(a)),
    ];
    if let Some(widest) = a.run.widest_interval {
        let asked = numbers::percent(a.study.precision);
        numbers.push((
            "Widest interval",
            format!("±{} (asked: ±{asked})", numbers::percent(widest)),
        ));
    }
    if let Some(floor) = &a.loop_floor_ns_per_message {
        numbers.push((
            "Cost of the measuring loop",
            format!("{} ns a message", units::number(floor.value)),
        ));
    }
    if let Some(cost) = descriptions::counters_cost(a) {
        numbers.push(("Cost of hardware counters", cost));
    }
    if let Some(floor) = &a.noise_floor {
        let Twin {
            ratio, low, high, ..
        } = floor.widest;
        numbers.push((
            "Noise floor",
            format!(
                "{} ({} to {}); {} of {} different",
                numbers::ratio(ratio),
                numbers::bare_ratio(low),
                numbers::bare_ratio(high),
                floor.different,
                count(floor.twins, "twin", "twins")
            ),
        ));
    }
    numbers
}

fn class(v: Verdict) -> &'static str {
    match v {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifferenceThatMatters => "same",
        Verdict::NotDecided => "open",
    }
}

fn verdicts(a: &Analysis) -> Vec<VerdictText> {
    descriptions::verdicts(a)
        .into_iter()
        .map(|(v, count)| VerdictText {
            class: class(v),
            mark: mark(v),
            words: verdict(v),
            count,
        })
        .collect()
}

fn table(q: &QuestionTable<'_>, notes: &mut Vec<String>) -> TableText {
    let mut cell = |entry: &QuestionEntry<'_>| match entry {
        QuestionEntry::Gap(why) => CellText::Gap(note(notes, why)),
        QuestionEntry::Measured(e, None) => CellText::Baseline(units::number(e.value)),
        QuestionEntry::Measured(e, Some(f)) => CellText::Compared {
            value: units::number(e.value),
            ratio: ratio(f.ratio),
            mark: mark(f.verdict),
            class: class(f.verdict),
            tells: format!(
                "{}: {} {} (95 % interval {}), {}",
                f.value,
                ratio(f.ratio),
                f.baseline_value,
                ratio_interval(f),
                said(f)
            ),
        },
    };
    TableText {
        heading: descriptions::metric_heading(q),
        panel: descriptions::panel_heading(q),
        axis: q.axis.name(),
        columns: match q.x {
            Some(x) => q.columns.iter().map(|c| value_in_words(x, c)).collect(),
            None => vec![q.metric.measure.row().unit.to_owned()],
        },
        rows: q
            .rows
            .iter()
            .map(|row| {
                let cells = row.entries.iter().map(&mut cell).collect();
                (clean(&row.name), row.is_baseline, cells)
            })
            .collect(),
    }
}

/// The verdict in words, with what it would take where there is none.
fn said(f: &Finding) -> String {
    match (f.verdict, f.blocks_needed) {
        (Verdict::NotDecided, Some(needed)) => {
            format!("not decided; about {needed} blocks would decide")
        }
        _ => verdict(f.verdict).to_owned(),
    }
}

fn comparisons(a: &Analysis) -> Vec<ComparisonText> {
    let place = |f: &Finding| {
        let Some(cell) = cell_of(&f.cell) else {
            return clean(&f.cell);
        };
        let others = a.study.varied.iter().filter(|axis| **axis != f.axis);
        let parts: Vec<String> = others
            .map(|&axis| match axis {
                bytecost_spec::Axis::Size => value_in_words(axis, &cell.value(axis)),
                _ => format!(
                    "{} {}",
                    axis.name(),
                    value_in_words(axis, &cell.value(axis))
                ),
            })
            .collect();
        parts.join(", ")
    };
    a.findings
        .iter()
        .enumerate()
        .map(|(i, f)| ComparisonText {
            number: i + 1,
            metric: f.metric.title(),
            what: clean(&f.value),
            baseline: clean(&f.baseline_value),
            place: place(f),
            ratio: ratio(f.ratio),
            interval: ratio_interval(f),
            p: p_value(f.p_holm),
            mark: mark(f.verdict),
            class: class(f.verdict),
            verdict: said(f),
            blocks: f.blocks,
            detectable: format!("±{}", numbers::percent(f.detectable)),
        })
        .collect()
}

fn caveats(a: &Analysis) -> Vec<CaveatText> {
    a.caveats
        .iter()
        .map(|d| {
            let ids: Vec<&str> = d.cells.iter().map(String::as_str).collect();
            CaveatText {
                text: spans(&d.text),
                evidence: spans(&d.evidence),
                remedy: spans(&d.remedy),
                affects: match ids.is_empty() {
                    true => "the whole run".to_owned(),
                    false => clean(&descriptions::cells(&ids, &a.study.varied)),
                },
            }
        })
        .collect()
}

fn checks(a: &Analysis) -> Vec<CheckText> {
    use bytecost_spec::host::Level;
    a.host
        .checks
        .iter()
        .map(|c| {
            let (class, mark, level) = match c.level {
                Level::Good => ("good", "✓", "as it should be"),
                Level::Note => ("note", "i", "worth knowing"),
                Level::Warning => ("warning", "!", "weakens results"),
            };
            CheckText {
                class,
                mark,
                level,
                name: clean(&c.name),
                found: clean(&c.found),
                means: clean(&c.means),
                remedy: c.remedy.as_deref().map(clean),
            }
        })
        .collect()
}
