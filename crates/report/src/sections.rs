//! Content of a report, section by section; printers lay it out for a medium.
//!
//! A new section is a function that pushes blocks of `document.rs`, and its line in [`body`], at its place
//! in the report. It pushes nothing where the result has nothing for it, then its heading by
//! [`Document::section`], with an anchor that no other section has and a short name for the page's list,
//! then its blocks: all printers print them, texts without those of [`DocBlock::PageOnly`]. A table with a
//! row a cell is a [`CountTable`] among the `counts` of [`body`]. A section with more than a function has a
//! file, as `crossing.rs`. It computes nothing but words: numbers are fields of [`Analysis`]. Its test is
//! in `crates/report/tests`, as `footprint.rs`, and reports of recorded runs show it.

use bytecost_analysis::{Analysis, CaveatEffect, PeerFacts, command_of_run};
use bytecost_spec::host::{Check, Level};
use bytecost_spec::{Host, Unit};
use itertools::Itertools as _;

use crate::answer_table::whole_questions;
use crate::audit::{self, AuditFigure, AuditText};
use crate::books::{self, books};
use crate::caveats::{CaveatText, caveats};
use crate::ceiling;
use crate::comparisons;
use crate::counted::{CountTable, counted, roles};
use crate::crossing;
use crate::descriptions;
use crate::document::{
    DocBlock, DocColumn, DocEntry, DocLine, DocMark, DocRow, DocTable, DocTerm, Document,
    DrawingRef, MarkKind,
};
use crate::explanations::{ExplanationText, explanations};
use crate::footprint;
use crate::heat::heats;
use crate::main_effects;
use crate::overview;
use crate::published_tables;
use crate::question::{axis_in_words, questions};
use crate::run_words;
use crate::stack::stacks;
use crate::style::Ink;
use crate::text::count;

/// Everything below the answer.
pub(crate) fn body(a: &Analysis) -> Document {
    let mut d = Document::default();
    let questions = questions(a);
    let shown = whole_questions(a, &questions);
    comparisons::section(a, &questions, &shown, &mut d);
    run(a, &mut d);
    speed_ups(a, &mut d);
    main_effects::section(a, &mut d);
    crossing::section(a, &mut d);
    let why = ["Why", "why", "Why"];
    cards(&mut d, why, None, &explanations(a), explanation);
    charts(a, &mut d);
    distances(a, &mut d);
    bars(a, &mut d);
    let counts = [
        books(a),
        books::counted(a),
        counted(a),
        roles(a),
        footprint::table(a),
    ];
    for table in counts.into_iter().flatten() {
        count_table(table, a.study.unit, &mut d);
    }
    let claims = ["Published claims", "claims", "Claims"];
    let rulings = audit::texts(a);
    let summary = audit::summary(rulings.iter());
    cards(&mut d, claims, Some(summary), &rulings, audited);
    published_tables::section(a, &mut d);
    let title = ["Caveats", "caveats", "Caveats"];
    cards(&mut d, title, None, &caveats(a), |c| caveat(a, c));
    missing(a, &mut d);
    machine(a, &mut d);
    method(a, &mut d);
    again(a, &mut d);
    d
}

/// A section of cards, one for each item, below an introduction; nothing where there are no items.
fn cards<T>(
    d: &mut Document,
    [title, anchor, short]: [&'static str; 3],
    lead: Option<String>,
    all: &[T],
    card: impl Fn(&T) -> Vec<DocBlock>,
) {
    if all.is_empty() {
        return;
    }
    d.section(title, anchor, short);
    if let Some(lead) = lead {
        d.paragraph(Ink::Faint, lead);
    }
    for item in all {
        d.push(DocBlock::Card(card(item)));
    }
}

fn run(a: &Analysis, d: &mut Document) {
    d.section("This run", "run", "Run");
    let widest = descriptions::widest(a);
    let plan = a.run.plan.as_ref().map(run_words::plan);
    let rounds = a.run.rounds.as_ref().map(run_words::rounds);
    let mut terms = Vec::new();
    for (label, text) in [
        ("Question", a.study.question.clone()),
        ("Expected before the run", a.study.prediction.clone()),
        ("Machine", descriptions::place_line(a)),
        ("Run", descriptions::run(a)),
        ("Widest interval", widest.unwrap_or_default()),
        ("Plan", plan.unwrap_or_default()),
        ("From run to run", rounds.unwrap_or_default()),
    ] {
        DocTerm::push(
            &mut terms,
            label,
            Some(text).filter(|text| !text.is_empty()),
        );
    }
    DocTerm::push(&mut terms, "Limits of the method", descriptions::floors(a));
    DocTerm::push(&mut terms, "Notes", a.run.notes.iter().map(run_words::note));
    d.push(DocBlock::Terms(terms));
    if let Some(hint) = ceiling::hint(a) {
        d.paragraph(Ink::Faint, hint);
    }
}

fn speed_ups(a: &Analysis, d: &mut Document) {
    let table = overview::table(a);
    if table.rows.is_empty() {
        return;
    }
    d.section("Speed-ups", "overview", "Speed-ups");
    d.paragraph(
        Ink::Faint,
        "How many times as fast one way of each pair is as the other: above 1× the first is faster. Bars are 95 % intervals; hollow marks were published by others, without an interval.",
    );
    let as_table = vec![DocBlock::Table(table)];
    d.push(DocBlock::Figure(DrawingRef::SpeedUps, as_table.clone()));
    d.push(DocBlock::PageOnly(vec![as_fold(as_table)]));
}

/// Fold with the table of a drawing, for readers who cannot see it.
fn as_fold(blocks: Vec<DocBlock>) -> DocBlock {
    DocBlock::fold("The same as a table", blocks)
}

/// Blocks of a question: its answer or the missing data, then the numbers and the evidence.
pub(crate) fn explanation(e: &ExplanationText) -> Vec<DocBlock> {
    let answer = match &e.answer {
        Some(answer) => DocLine::from(answer.as_str()),
        None => {
            let missing = e.missing.as_deref().unwrap_or_default();
            DocLine::of(Ink::Faint, format!("No answer in this run: {missing}"))
        }
    };
    let mut terms = Vec::new();
    DocTerm::push(&mut terms, "Numbers", e.numbers.clone());
    DocTerm::push(&mut terms, "Evidence", e.evidence.clone());
    DocTerm::push(&mut terms, "What would change it", e.would_change);
    let mut blocks = vec![
        DocBlock::heading(e.question),
        DocBlock::Paragraph(answer.resting_on(e.findings.clone())),
    ];
    if !terms.is_empty() {
        let terms = vec![DocBlock::Terms(terms)];
        blocks.push(DocBlock::fold("Numbers and evidence", terms));
    }
    blocks
}

fn charts(a: &Analysis, d: &mut Document) {
    if a.figures.is_empty() {
        return;
    }
    let mut figures = Document::default();
    figures.section("Figures", "figures", "Figures");
    for place in 0..a.figures.len() {
        figures.push(DocBlock::Figure(DrawingRef::Chart(place), Vec::new()));
    }
    // Their numbers stand in the tables of the comparisons.
    d.push(DocBlock::PageOnly(figures.blocks));
}

fn distances(a: &Analysis, d: &mut Document) {
    let maps = heats(a);
    if maps.is_empty() {
        return;
    }
    let title = "What the distance between two CPUs costs";
    d.section(title, "distances", "Distances");
    d.paragraph(
        Ink::Faint,
        "Two threads take turns, each on its CPU: the stronger the colour, the longer a turn there and back takes. Each map has a scale of its own.",
    );
    for (place, map) in maps.iter().enumerate() {
        d.push(DocBlock::Figure(DrawingRef::Heat(place), map.as_text()));
    }
    if let Some(by) = &a.host.virtualization {
        let note = format!(
            "Under {by} a hypervisor may move virtual CPUs, and waking one up goes through it."
        );
        d.paragraph(Ink::Faint, note);
    }
}

fn bars(a: &Analysis, d: &mut Document) {
    let mut bars = Document::default();
    for (place, stack) in stacks(a).into_iter().enumerate() {
        bars.section(stack.title, stack.section, stack.short);
        bars.paragraph(Ink::Faint, stack.lead);
        bars.push(DocBlock::Figure(DrawingRef::Stack(place), Vec::new()));
        bars.push(as_fold(vec![DocBlock::Table(stack.table())]));
    }
    d.push(DocBlock::PageOnly(bars.blocks));
}

fn count_table(of: CountTable, unit: Unit, d: &mut Document) {
    d.section(&unit.in_words(of.title), of.section, of.short);
    d.paragraph(Ink::Faint, unit.in_words(of.lead));
    let rows = of.rows.into_iter();
    let mut card = vec![DocBlock::Table(DocTable {
        columns: DocColumn::numbers("cell", of.columns),
        rows: rows.map(|(name, texts)| DocRow::new(name, texts)).collect(),
        ..DocTable::default()
    })];
    let notes = of.notes.into_iter();
    card.extend(notes.map(|n| DocBlock::paragraph(Ink::Faint, n)));
    d.push(DocBlock::Card(card));
}

fn audited(c: &AuditText) -> Vec<DocBlock> {
    let because = DocLine::from(c.because.as_str());
    let mut blocks = vec![
        DocBlock::Paragraph(DocLine {
            mark: Some(audit::mark(c.ruling)),
            ..DocLine::from(c.words.as_str())
        }),
        DocBlock::paragraph(Ink::Strong, format!("{} ({})", c.claim, c.source)),
        DocBlock::Paragraph(because.resting_on(c.findings.clone())),
    ];
    if !c.figures.is_empty() {
        let columns = ["Of what", "Published", "Measured here"].map(DocColumn::left);
        let row = |f: &AuditFigure| {
            let [published, measured] =
                [&f.published, &f.measured].map(|text| DocEntry::or_gap(text.as_deref()));
            vec![f.subject.to_string().into(), published, measured]
        };
        let table = DocTable::of(columns.to_vec(), c.figures.iter().map(row));
        blocks.push(DocBlock::Table(
            table.captioned("Published beside measured"),
        ));
    }
    blocks
}

fn caveat(a: &Analysis, c: &CaveatText) -> Vec<DocBlock> {
    let effect = match c.effect {
        CaveatEffect::Annotates => None,
        CaveatEffect::WithholdsMetric => Some("some verdicts of these cells are withheld"),
        CaveatEffect::WithholdsUnconfirmed => {
            Some("amounts and verdicts that first attempts do not confirm are withheld")
        }
        CaveatEffect::WithholdsAll => Some("every verdict of these cells is withheld"),
    };
    let ids: Vec<&str> = c.cells.iter().map(String::as_str).collect();
    let affects = if ids.is_empty() {
        "the whole run".to_owned()
    } else {
        descriptions::cells(a, &ids)
    };
    let terms = [
        effect.map(|effect| ("Effect", effect.to_owned())),
        Some(("Evidence", c.evidence.clone())),
        Some(("Remedy", c.remedy.clone())),
        Some(("Affects", affects)),
    ];
    vec![
        DocBlock::paragraph(Ink::Warning, &c.text),
        DocBlock::terms(terms.into_iter().flatten()),
    ]
}

fn missing(a: &Analysis, d: &mut Document) {
    let cell = |id: &str| descriptions::cells(a, &[id]);
    let failures = a.failures.iter().map(|f| {
        let trial = if f.for_evidence {
            format!("for evidence, {}", cell(&f.cell))
        } else {
            format!("block {}, {}", f.trial.block + 1, cell(&f.cell))
        };
        (trial, f.reason.clone())
    });
    let left_out = a.left_out.iter().map(|l| {
        let cells = count(l.cells, "cell", "cells");
        (format!("{} ({cells})", l.what), l.why.clone())
    });
    let failed = count(a.failures.len(), "trial failed", "trials failed");
    let parts: [(&str, Vec<(String, String)>); 3] = [
        ("Not available on this machine", descriptions::refusals(a)),
        (&failed, failures.collect()),
        ("Left out of this run", left_out.collect()),
    ];
    if parts.iter().any(|(_, list)| !list.is_empty()) {
        d.section("What is missing", "missing", "Missing");
    }
    for (heading, list) in parts.into_iter().filter(|(_, list)| !list.is_empty()) {
        d.push(DocBlock::heading(heading));
        d.push(DocBlock::terms(list));
    }
}

fn machine(a: &Analysis, d: &mut Document) {
    let mut machine = Document::default();
    machine.section("Machine", "machine", "Machine");
    machine.push(match &a.peer {
        Some(peer) => DocBlock::Table(two_machines(&a.host, peer)),
        None => DocBlock::terms(descriptions::host(&a.host)),
    });
    if !a.host.checks.is_empty() {
        machine.push(DocBlock::heading("Checks"));
        machine.push(DocBlock::Terms(checks(&a.host.checks)));
    }
    d.push(DocBlock::PageOnly(machine.blocks));
}

fn two_machines(host: &Host, peer: &PeerFacts) -> DocTable {
    let here = descriptions::machine(host, &peer.own_cards);
    let there = descriptions::machine(&peer.host, &peer.cards);
    let names = here.iter().chain(&there).map(|(name, _)| *name).unique();
    let fact = |facts: &[(&str, String)], name| {
        facts
            .iter()
            .filter(|(n, _)| *n == name)
            .map(|(_, fact)| fact)
            .join("; ")
    };
    let rows = names.map(|name| vec![name.to_owned(), fact(&here, name), fact(&there, name)]);
    let columns = ["fact", "this machine", &peer.name];
    DocTable::of(columns.map(DocColumn::left).into(), rows)
}

/// Checks of the machine: the reading, its meaning and the remedy.
pub(crate) fn checks(checks: &[Check]) -> Vec<DocTerm> {
    let term = |check: &Check| {
        let mark = match check.level {
            Level::Good => DocMark::new("✓", "as it should be", MarkKind::Better),
            Level::Note => DocMark::new("·", "worth knowing", MarkKind::Same),
            Level::Warning => DocMark::new("!", "weakens results", MarkKind::Open),
        };
        let mut lines = vec![
            DocLine::from(check.found.as_str()),
            DocLine::of(Ink::Faint, check.means.as_str()),
        ];
        if let Some(remedy) = &check.remedy {
            lines.push(DocLine::from(format!("→ {remedy}")));
        }
        DocTerm {
            mark: Some(mark),
            ..DocTerm::new(&check.name, lines)
        }
    };
    checks.iter().map(term).collect()
}

fn method(a: &Analysis, d: &mut Document) {
    let mut method = Document::default();
    method.section("Method", "method", "Method");
    method.push(DocBlock::terms(descriptions::method(a)));
    if !a.study.constants.is_empty() {
        method.push(DocBlock::heading("Held constant"));
        let constants = a.study.constants.iter();
        let mut words = constants.map(|(axis, value)| axis_in_words(*axis, value));
        method.paragraph(Ink::Plain, words.join("; "));
    }
    d.push(DocBlock::PageOnly(method.blocks));
}

fn again(a: &Analysis, d: &mut Document) {
    d.section("Reproduce", "again", "Reproduce");
    d.push(DocBlock::Code(descriptions::command(a)));
    let (run, seed) = (&a.run.id, a.run.seed);
    let report = command_of_run(&["bytecost", "report", run], &a.run.command);
    let text = format!(
        "The order of trials comes from the seed {seed}. Every number is computed from the samples of the run: `{report}` makes this report again, byte for byte."
    );
    d.paragraph(Ink::Plain, text);
}
