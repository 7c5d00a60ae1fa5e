//! What a terminal shows of crossovers, explanations, claims and published tables: a line each.

use bytecost_analysis::{Analysis, FigureData, Point, Published};
use bytecost_spec::units;

use super::{Page, fitting};
use crate::audit::ruling;
use crate::crossing::Crossings;
use crate::descriptions;
use crate::grid::TextGrid;
use crate::overview;
use crate::published_series;
use crate::published_tables::{beside, heading};
use crate::question::value_in_words;
use crate::style::Ink;
use crate::text::{clean, columns};

/// The most lines of each part; the page has the others.
const LINES_MOST: usize = 12;
/// The most crossovers, which take two lines or three.
const CROSSOVERS_MOST: usize = 6;

impl Page {
    /// How many times as fast one way of each pair is.
    pub(super) fn overview(&mut self, a: &Analysis) {
        let lines = overview::table(a);
        if lines.is_empty() {
            return;
        }
        self.heading("How many times as fast");
        let mut pair = "";
        for line in &lines {
            if line.pair != pair {
                pair = &line.pair;
                let theirs = match line.published.as_str() {
                    "" => String::new(),
                    times => format!(" (published {times})"),
                };
                self.prose(None, &format!("{pair}{theirs}"), "• ", "  ");
            }
            let text = format!("{}: {} ({})", line.place, line.times, line.interval);
            self.prose(None, &text, "    ", "      ");
        }
    }

    /// From where on one way is better than another.
    pub(super) fn crossovers(&mut self, a: &Analysis) {
        let all = Crossings::of(a);
        if all.is_empty() {
            return;
        }
        self.heading("From where on one way is better");
        for c in all.decided.iter().take(CROSSOVERS_MOST) {
            self.prose(None, &c.sentence, "• ", "  ");
        }
        self.more(all.decided.len(), CROSSOVERS_MOST);
        if let Some(words) = all.open_in_words() {
            self.prose(None, &words, "• ", "  ");
        }
    }

    /// Questions and their answers.
    pub(super) fn explanations(&mut self, a: &Analysis) {
        if a.explanations.is_empty() {
            return;
        }
        self.heading("Why (the numbers behind it: `bytecost explain`)");
        for e in a.explanations.iter().take(LINES_MOST) {
            match &e.answer {
                Some(answer) => self.prose(None, &format!("{} {answer}", e.question), "• ", "  "),
                None => {
                    let text = format!("{} Not answered: {}", e.question, descriptions::missing(e));
                    self.prose(Some(Ink::Faint), &text, "• ", "  ");
                }
            }
        }
        self.more(a.explanations.len(), LINES_MOST);
    }

    /// What became of claims, and how far published numbers are from these.
    pub(super) fn claims(&mut self, a: &Analysis) {
        if !a.audit.is_empty() {
            self.heading("What others concluded (why it is judged so: `bytecost audit`)");
            let widest = a.audit.iter().map(|c| columns(ruling(c.ruling).words));
            let widest = widest.max().unwrap_or(0);
            for c in a.audit.iter().take(LINES_MOST) {
                let row = ruling(c.ruling);
                let head = format!("{} {:widest$}  ", row.sign, row.words);
                let room = self.style.columns().saturating_sub(columns(&head));
                let claim = cut(&format!("{}: {}", c.source, c.claim), room);
                let line = self.style.paint(row.ink, &head) + &claim;
                self.line(&line);
            }
            self.more(a.audit.len(), LINES_MOST);
        }
        if let Some(beside) = beside(a) {
            self.gap();
            self.prose(None, &beside.summary, "", "  ");
            for note in &beside.notes {
                self.prose(Some(Ink::Faint), note, "  ", "  ");
            }
        }
    }

    /// An imported table: what it is, and its first metric.
    pub(super) fn imported(&mut self, a: &Analysis, published: &Published) {
        self.prose(
            Some(Ink::Strong),
            &descriptions::imported_sentence(published),
            "",
            "",
        );
        self.prose(None, descriptions::IMPORTED, "", "");
        let figures = published_series::figures(a);
        let first = figures.first().map(|f| f.y);
        for f in figures.iter().filter(|f| Some(f.y) == first) {
            self.heading(&heading(f.y));
            self.prose(Some(Ink::Faint), &descriptions::panel(&f.panel), "  ", "  ");
            self.numbers(&published_series::overlaid(a, f));
        }
    }

    /// The numbers of a figure without its intervals.
    fn numbers(&mut self, overlaid: &published_series::Overlaid) {
        let f: &FigureData = &overlaid.data;
        let headings: Vec<String> = f.x_values.iter().map(|v| value_in_words(f.x, v)).collect();
        let rows: Vec<Vec<String>> = f
            .series
            .iter()
            .map(|s| {
                let number = |p: &Point| match p {
                    Point::Measured(e) => units::number(e.value),
                    Point::Gap(_) => "–".to_owned(),
                };
                s.points.iter().map(number).collect()
            })
            .collect();
        let names: Vec<String> = overlaid.lines.iter().map(|l| cut(&l.of, 24)).collect();
        let label = names.iter().map(|n| columns(n)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..headings.len())
            .map(|i| {
                let entries = rows
                    .iter()
                    .filter_map(|r| r.get(i))
                    .map(|t| columns(t))
                    .max();
                entries.unwrap_or(0).max(columns(&headings[i]))
            })
            .collect();
        let room = self.style.columns().saturating_sub(label + 4);
        for range in fitting(&widths, room) {
            let mut header = vec![String::new()];
            header.extend_from_slice(&headings[range.clone()]);
            let body = names.iter().zip(&rows).map(|(name, row)| {
                let mut cells = vec![name.clone()];
                cells.extend(row.iter().take(range.end).skip(range.start).cloned());
                cells
            });
            let layout = TextGrid {
                width: self.style.columns() + 2,
                indent: "  ",
                most: &[label.max(1), 16],
                right: true,
            };
            for line in layout.lines(&header, &body.collect::<Vec<_>>()) {
                self.line(&line);
            }
        }
    }

    pub(super) fn more(&mut self, all: usize, shown: usize) {
        if all > shown {
            let text = format!("… and {} more on the page.", all - shown);
            self.prose(Some(Ink::Faint), &text, "  ", "  ");
        }
    }
}

/// A text on one line of at most so many columns.
fn cut(text: &str, room: usize) -> String {
    let text = clean(text);
    if columns(&text) <= room {
        return text;
    }
    let mut out = String::new();
    for c in text.chars() {
        let mut longer = out.clone();
        longer.push(c);
        if columns(&longer) + 1 > room {
            break;
        }
        out = longer;
    }
    out.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_it_has_no_room() {
        for (text, room, expected) in [
            ("sendmsg wins", 12, "sendmsg wins"),
            ("sendmsg wins", 11, "sendmsg wi…"),
            ("sendmsg wins", 9, "sendmsg…"),
            ("a\nb", 3, "a b"),
        ] {
            assert_eq!(cut(text, room), expected);
        }
    }
}
