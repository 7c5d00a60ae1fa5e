//! Crossovers, explanations, claims and published tables in Markdown.

use bytecost_analysis::{Analysis, Published};

use super::prose;
use crate::audit::ruling;
use crate::crossing::Crossings;
use crate::descriptions;
use crate::overview;
use crate::published_tables::beside;

/// How many times as fast one way of each pair is.
pub(super) fn overview(a: &Analysis, out: &mut Vec<String>) {
    let lines = overview::table(a);
    if lines.is_empty() {
        return;
    }
    out.push("## How many times as fast\n".to_owned());
    let rows = lines
        .into_iter()
        .map(|l| vec![l.pair, l.place, l.times, l.interval, l.published]);
    let header = [
        "Pair",
        "Where",
        "Times as fast",
        "95 % interval",
        "Published",
    ];
    table(&header, rows, out);
}

/// From where on one way is better than another.
pub(super) fn crossovers(a: &Analysis, out: &mut Vec<String>) {
    let all = Crossings::of(a);
    if all.is_empty() {
        return;
    }
    out.push("## From where on one way is better\n".to_owned());
    for c in &all.decided {
        out.push(format!("- {}", prose(&c.sentence)));
    }
    out.extend(all.open_in_words().map(|words| format!("- {words}")));
    out.push(String::new());
    let rows = all.decided.iter().chain(&all.open).map(|c| {
        let interval = if c.interval.is_empty() {
            "–"
        } else {
            &c.interval
        };
        vec![
            format!("{} against {}", c.value, c.baseline),
            c.metric.clone(),
            c.place.clone(),
            format!("{} {}", c.mark, c.from),
            interval.to_owned(),
        ]
    });
    let header = ["What", "Metric", "Where", "Better", "95 % interval"];
    table(&header, rows, out);
}

/// Questions, answers, and what is behind them.
pub(super) fn explanations(a: &Analysis, out: &mut Vec<String>) {
    if a.explanations.is_empty() {
        return;
    }
    out.push("## Why\n".to_owned());
    for e in &a.explanations {
        let answer = match &e.answer {
            Some(answer) => prose(answer),
            None => format!(
                "Not answered by this run: {}",
                prose(descriptions::missing(e))
            ),
        };
        out.push(format!("- **{}** {answer}", prose(&e.question)));
        for n in &e.numbers {
            out.push(format!("  - {}", prose(n)));
        }
        for n in &e.evidence {
            out.push(format!("  - Evidence: {}", prose(n)));
        }
        if let Some(change) = &e.would_change {
            out.push(format!("  - What would change it: {}", prose(change)));
        }
    }
    out.push(String::new());
}

/// What became of claims.
pub(super) fn claims(a: &Analysis, out: &mut Vec<String>) {
    if a.audit.is_empty() {
        return;
    }
    out.push("## What others concluded\n".to_owned());
    for c in &a.audit {
        let row = ruling(c.ruling);
        out.push(format!(
            "- {} **{}**: {} ({}). {}",
            row.sign,
            row.words,
            prose(&c.claim),
            prose(&c.source),
            prose(&c.because)
        ));
        for f in &c.figures {
            let value = |v: &Option<String>| v.as_deref().map_or("–".to_owned(), prose);
            out.push(format!(
                "  - {}: published {}, measured here {}",
                prose(&f.what),
                value(&f.published),
                value(&f.measured)
            ));
        }
    }
    out.push(String::new());
}

/// Published values beside measured ones.
pub(super) fn published(a: &Analysis, out: &mut Vec<String>) {
    let Some(beside) = beside(a) else { return };
    out.push("## Published beside measured\n".to_owned());
    out.push(format!("{}\n", prose(&beside.summary)));
    if !beside.differs.is_empty() {
        let differs = prose(&beside.differs);
        out.push(format!(
            "The measured cells differ from the published in {differs}.\n"
        ));
    }
    for note in &beside.notes {
        out.push(format!("{}\n", prose(note)));
    }
    for t in beside.tables {
        out.push(format!("### {}\n", prose(&t.heading)));
        let header = [
            "Cell",
            &beside.source,
            "Measured here",
            "95 % interval",
            "Here / there",
            "Differs in",
        ];
        let rows = t.rows.into_iter();
        let rows = rows.map(|r| {
            vec![
                r.cell,
                r.published,
                r.measured,
                r.interval,
                r.ratio,
                r.differs,
            ]
        });
        table(&header, rows, out);
    }
}

/// What an imported run is.
pub(super) fn imported(published: &Published, out: &mut Vec<String>) {
    out.push(format!(
        "**{}**\n",
        prose(&descriptions::imported_sentence(published))
    ));
    out.push(format!("{}\n", descriptions::IMPORTED));
    let mut metrics: Vec<_> = published
        .cells
        .iter()
        .flat_map(|c| c.values.keys())
        .collect();
    metrics.sort();
    metrics.dedup();
    let mut header = vec!["Cell".to_owned()];
    header.extend(
        metrics
            .iter()
            .map(|m| crate::published_tables::heading(**m)),
    );
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = published.cells.iter().map(|c| {
        let number = |m: &&bytecost_spec::Metric| {
            let value = c.values.get(*m);
            value.map_or("–".to_owned(), |v| bytecost_spec::units::number(*v))
        };
        let mut row = vec![crate::published_tables::name(published, c)];
        row.extend(metrics.iter().map(number));
        row
    });
    table(&header, rows, out);
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>, out: &mut Vec<String>) {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    out.push(line(header.iter().map(|h| prose(h)).collect()));
    out.push(format!("|{}", " --- |".repeat(header.len())));
    out.extend(rows.map(|row| line(row.iter().map(|c| prose(c)).collect())));
    out.push(String::new());
}
