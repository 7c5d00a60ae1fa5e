//! The ceiling of a machine, for a terminal.

use bytecost_analysis::ceiling::STUDY;
use bytecost_analysis::{Analysis, Ceiling, CeilingKind, CeilingRate};
use bytecost_spec::{CircumstanceKind, Measure, Metric, units};
use itertools::Itertools as _;

use crate::document::{DocBlock, DocColumn, DocEntry, DocLine, DocTable, Document};
use crate::style::{Ink, Style};
use crate::{caveats, descriptions, numbers, terminal};

const HINT: &str = "`bytecost ceiling` measures once, in under a minute, what this machine can copy at all; reports then say what share of it is reached.";

/// Hint to measure the ceiling, where throughput was measured and no ceiling is known.
pub(crate) fn hint(a: &Analysis) -> Option<&'static str> {
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    let is_known = a.ceiling.is_some() || a.study.name == STUDY;
    let mut cells = a.cells.iter();
    let measured = cells.any(|c| c.estimates.contains_key(&throughput));
    (!is_known && measured).then_some(HINT)
}

/// Renders a ceiling: the copies by working set, the disk, and where they are from. No line is
/// wider than `style.width`.
pub fn ceiling(c: &Ceiling, a: &Analysis, style: Style) -> String {
    let mut d = Document::default();
    let heading = "What this machine reaches at most, in Gbit/s (95 % intervals)";
    d.paragraph(Ink::Strong, heading);
    for table in [copies(c), disk(c)] {
        if !table.rows.is_empty() {
            d.push(DocBlock::Table(table));
        }
    }
    let cell = |id: &str| descriptions::cells(a, &[id]);
    let mut lines: Vec<DocLine> = Vec::new();
    for r in &a.refused_cells {
        lines.push(format!("{}: {}", cell(&r.cell.id()), r.why).into());
    }
    for f in &a.failures {
        let text = format!("{}: {}", cell(&f.cell), f.reason);
        lines.push(DocLine::of(Ink::Warning, text));
    }
    let others = CircumstanceKind::OtherProcesses.row().name;
    for busy in a.caveats.iter().filter(|caveat| caveat.kind == others) {
        let words = caveats::caveat(a, busy);
        let text = format!("{} {}", words.text, words.evidence);
        lines.push(DocLine::of(Ink::Warning, text));
    }
    d.push(DocBlock::List(lines));
    let about = [descriptions::run(a), descriptions::place_line(a)].join("; ");
    let used = format!(
        "Reports on other runs beside {} say what share of these they reach; a copy counts once, by one core.",
        c.run
    );
    let foot = [about, used].map(|text| DocBlock::paragraph(Ink::Faint, text));
    d.push(DocBlock::Card(foot.to_vec()));
    terminal::print(&d, style)
}

fn copies(c: &Ceiling) -> DocTable {
    let kinds = [
        CeilingKind::UserCopy,
        CeilingKind::KernelRead,
        CeilingKind::KernelWrite,
    ];
    let copies = c.rates.iter().filter(|r| kinds.contains(&r.kind));
    let sets = copies.map(|r| r.working_set_bytes).sorted().dedup();
    let rows = sets.map(|set| {
        let is_at = |r: &&CeilingRate| r.working_set_bytes == set;
        let at = |kind| c.rates.iter().filter(is_at).find(|r| r.kind == kind);
        let rates = kinds.map(|kind| DocEntry::or_gap(at(kind).map(value)));
        let mut entries = vec![DocEntry::from(units::bytes_in_words(set))];
        entries.extend(rates);
        entries
    });
    let columns = DocColumn::numbers("working set", ["memcpy", "out of a file", "into a file"]);
    DocTable::of(columns, rows).captioned("One core's copy, by itself and in the kernel")
}

fn disk(c: &Ceiling) -> DocTable {
    let rates = c.rates.iter().filter(|r| r.kind.is_of_disk());
    let rows = rates.map(|r| {
        let order = match r.kind {
            CeilingKind::DiskRandom => "random",
            _ => "sequential",
        };
        let requests = format!("{} {order}", units::bytes_in_words(r.size_bytes));
        vec![requests, r.depth.to_string(), value(r), r.mover.clone()]
    });
    let columns = DocColumn::numbers("requests", ["in flight", "reading", "by"]);
    let caption = match &c.dir {
        Some(dir) => format!("The disk past the page cache, in {dir}"),
        None => "The disk past the page cache".to_owned(),
    };
    DocTable::of(columns, rows).captioned(caption)
}

/// `159 (155 to 163)`.
fn value(rate: &CeilingRate) -> String {
    let e = &rate.gbit_per_s;
    let interval = numbers::interval(e).map_or(String::new(), |i| format!(" ({i})"));
    format!("{}{interval}", units::number(e.value))
}
