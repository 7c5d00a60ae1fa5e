//! What a machine reaches at most, for a terminal.

use bytecost_analysis::ceiling::STUDY;
use bytecost_analysis::{Analysis, Ceiling, CeilingKind, CeilingRate};
use bytecost_spec::{Measure, Metric, units};

use crate::descriptions;
use crate::grid::TextGrid;
use crate::numbers;
use crate::style::{Ink, Style};
use crate::text::wrap;

/// What is said where no ceiling of this machine is known.
const HINT: &str = "`bytecost ceiling` measures once, in under a minute, what this machine can copy at all; reports then say what share of it is reached.";

/// What is said where nothing is known of what this machine reaches at most, though rates were
/// measured that could be held against it.
pub(crate) fn hint(a: &Analysis) -> Option<&'static str> {
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    let unknown = a.ceiling.is_none() && a.study.name != STUDY;
    let rates = || {
        a.cells
            .iter()
            .any(|c| c.estimates.contains_key(&throughput))
    };
    (unknown && descriptions::imported(a).is_none() && rates()).then_some(HINT)
}

/// Renders a ceiling: the copies by working set, the disk, and where they are from. No line is
/// wider than `style.width`.
#[must_use]
pub fn ceiling(c: &Ceiling, a: &Analysis, style: Style) -> String {
    let mut page = Page {
        style,
        out: String::new(),
    };
    page.prose(
        Some(Ink::Strong),
        "What this machine reaches at most, in Gbit/s (95 % intervals)",
        "",
        "",
    );
    page.copies(c);
    page.disk(c);
    page.out.push('\n');
    for refusal in &a.refusals {
        // Counters are not what this is about.
        if bytecost_spec::Cell::from_id(&refusal.what).is_some() {
            let what = descriptions::cells(&[&refusal.what], &a.study.varied);
            page.prose(None, &format!("{what}: {}", refusal.why), "- ", "  ");
        }
    }
    for failure in &a.failures {
        let what = descriptions::cells(&[&failure.cell], &a.study.varied);
        let text = format!("{what}: {}", failure.reason);
        page.prose(Some(Ink::Bad), &text, "✗ ", "  ");
    }
    for caveat in a.caveats.iter().filter(|d| d.kind == "other-processes") {
        page.prose(Some(Ink::Warn), &caveat.text, "! ", "  ");
        let evidence = format!("Evidence: {}", caveat.evidence);
        page.prose(None, &evidence, "  ", "  ");
    }
    let about = [descriptions::run(a), descriptions::place_line(a)].join("; ");
    page.prose(Some(Ink::Faint), &about, "", "  ");
    let used = format!(
        "Reports on other runs beside {} say what share of these they reach; a copy counts once, by one core.",
        c.run
    );
    page.prose(Some(Ink::Faint), &used, "", "  ");
    page.out
}

struct Page {
    style: Style,
    out: String,
}

impl Page {
    fn prose(&mut self, ink: Option<Ink>, text: &str, first: &str, rest: &str) {
        for line in wrap(text, self.style.columns(), first, rest) {
            match ink {
                Some(ink) => self.out.push_str(&self.style.paint(ink, &line)),
                None => self.out.push_str(&line),
            }
            self.out.push('\n');
        }
    }

    fn copies(&mut self, c: &Ceiling) {
        let columns = [
            CeilingKind::UserCopy,
            CeilingKind::KernelRead,
            CeilingKind::KernelWrite,
        ];
        let of = |kind: CeilingKind| c.rates.iter().filter(move |r| r.kind == kind);
        let mut sets: Vec<u64> = columns
            .iter()
            .flat_map(|k| of(*k).map(|r| r.working_set_bytes))
            .collect();
        sets.sort_unstable();
        sets.dedup();
        if sets.is_empty() {
            return;
        }
        let header = ["working set", "memcpy", "out of a file", "into a file"];
        let rows: Vec<Vec<String>> = sets
            .into_iter()
            .map(|set| {
                let at = |kind| of(kind).find(|r| r.working_set_bytes == set);
                let mut row = vec![units::bytes_in_words(set)];
                row.extend(columns.map(|kind| at(kind).map_or("–".to_owned(), value)));
                row
            })
            .collect();
        self.out.push('\n');
        self.prose(
            Some(Ink::Faint),
            "One core's copy, by itself and in the kernel",
            "  ",
            "  ",
        );
        self.table(&header, &rows);
    }

    fn disk(&mut self, c: &Ceiling) {
        let own = c.rates.iter().filter(|r| r.kind.is_of_disk());
        let rows: Vec<Vec<String>> = own
            .map(|r| {
                let order = match r.kind {
                    CeilingKind::DiskRandom => "random",
                    _ => "sequential",
                };
                vec![
                    format!("{} {order}", units::bytes_in_words(r.size_bytes)),
                    r.depth.to_string(),
                    value(r),
                    r.mover.clone(),
                ]
            })
            .collect();
        if rows.is_empty() {
            return;
        }
        self.out.push('\n');
        let place = c
            .dir
            .as_deref()
            .map_or(String::new(), |d| format!(", in {d}"));
        let heading = format!("The disk past the page cache{place}");
        self.prose(Some(Ink::Faint), &heading, "  ", "  ");
        self.table(&["requests", "in flight", "reading", "by"], &rows);
    }

    fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
        let layout = TextGrid {
            width: self.style.columns() + 2,
            indent: "  ",
            most: &[18, 26, 26, 26],
            right: true,
        };
        for (i, line) in layout.lines(&header, rows).iter().enumerate() {
            match i {
                0 => self.out.push_str(&self.style.paint(Ink::Faint, line)),
                _ => self.out.push_str(line),
            }
            self.out.push('\n');
        }
    }
}

/// `159 (155 to 163)`, on one line.
fn value(rate: &CeilingRate) -> String {
    let e = &rate.gbit_per_s;
    let interval = numbers::interval(e).map_or(String::new(), |i| format!(" ({i})"));
    format!("{}{interval}", units::number(e.value)).replace(' ', "\u{a0}")
}
