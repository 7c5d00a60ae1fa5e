//! A document as one page that needs nothing else: HTML with its own style, figures and script.

use askama::Template;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytecost_analysis::{Analysis, Verdict};
use sha2::{Digest as _, Sha256};

use crate::document::{
    Align, ColumnKind, DocBlock, DocColumn, DocEntry, DocLine, DocMark, DocRow, DocTable, DocTerm,
    DrawingRef,
};
use crate::figure::{DrawnFigure, figures};
use crate::heat::{Heat, heats};
use crate::missing_points::has_points;
use crate::overview::{Overview, overview};
use crate::stack::{Stack, stacks};
use crate::style::Ink;
use crate::text::{TextSpan, clean, count, spans};

/// Renders blocks as a page: the answer with the leading drawing next to it, and everything below.
pub(crate) fn drawn(
    drawings: &Drawings,
    title: &str,
    answer: &[DocBlock],
    body: &[DocBlock],
    foot: &str,
) -> String {
    let leading = drawings.leading;
    let figure = leading.map_or_else(String::new, |which| drawings.html(which));
    page(drawings, title, answer, figure, body, foot)
}

/// Renders blocks as a page without drawings in its sections: the answer, a drawing next to it (HTML, or empty), and everything
/// below.
pub(crate) fn plain(
    title: &str,
    answer: &[DocBlock],
    figure: String,
    body: &[DocBlock],
    foot: &str,
) -> String {
    page(&Drawings::default(), title, answer, figure, body, foot)
}

fn page(
    drawings: &Drawings,
    title: &str,
    answer: &[DocBlock],
    figure: String,
    body: &[DocBlock],
    foot: &str,
) -> String {
    let page = PageHtml {
        css: include_str!("../templates/page.css"),
        first_script: FIRST_SCRIPT,
        script: SCRIPT,
        scripts: [FIRST_SCRIPT, SCRIPT].map(source).join(" "),
        title: clean(title),
        sections: sections_of(body),
        answer: Printer::new(drawings).print(answer),
        figure,
        body: Printer::new(drawings).print(body),
        foot: clean(foot),
    };
    page.render().expect("a page is only text") + "\n"
}

/// Script in the head that gives the page its style for scripts before it is drawn.
const FIRST_SCRIPT: &str = "document.documentElement.classList.add('js');";
const SCRIPT: &str = include_str!("../templates/page.js");

/// The source expression of a script by its hash (Content Security Policy Level 3, 2.3.1).
fn source(script: &str) -> String {
    format!(
        "'sha256-{}'",
        BASE64_STANDARD.encode(Sha256::digest(script))
    )
}

#[derive(Template)]
#[template(path = "page.html", whitespace = "minimize")]
struct PageHtml {
    css: &'static str,
    first_script: &'static str,
    script: &'static str,
    /// The sources of scripts that may run.
    scripts: String,
    title: String,
    sections: Vec<(&'static str, &'static str)>,
    answer: String,
    figure: String,
    body: String,
    foot: String,
}

fn sections_of(blocks: &[DocBlock]) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for block in blocks {
        match block {
            DocBlock::Heading(h) if !h.short.is_empty() => found.push((h.anchor, h.short)),
            DocBlock::PageOnly(own) => found.extend(sections_of(own)),
            _ => {}
        }
    }
    found
}

/// The drawings of a result.
#[derive(Default)]
pub(crate) struct Drawings {
    charts: Vec<DrawnFigure>,
    heats: Vec<Heat>,
    stacks: Vec<Stack>,
    speed_ups: Option<Overview>,
    /// The drawing next to the answer, which is drawn nowhere else.
    leading: Option<DrawingRef>,
}

impl Drawings {
    pub(crate) fn new(a: &Analysis) -> Drawings {
        Drawings {
            charts: figures(a),
            heats: heats(a),
            stacks: stacks(a),
            speed_ups: overview(a),
            leading: leading(a),
        }
    }

    fn html(&self, which: DrawingRef) -> String {
        let drawn = match which {
            DrawingRef::Chart(i) => self.charts.get(i).map(Template::render),
            DrawingRef::Heat(i) => self.heats.get(i).map(Template::render),
            DrawingRef::Stack(i) => self.stacks.get(i).map(Template::render),
            DrawingRef::SpeedUps => self.speed_ups.as_ref().map(Template::render),
        };
        drawn.map_or_else(String::new, |text| text.expect("a drawing is only text"))
    }
}

/// The drawing next to the answer: the first figure with points for the answer's metric, else the
/// first with any points, else the first heat map.
fn leading(a: &Analysis) -> Option<DrawingRef> {
    let metric = a.advice.situations.first().map(|s| s.metric);
    let figures = || a.figures.iter().enumerate();
    let drawn = || figures().filter(|(_, f)| f.series.iter().any(has_points));
    let chart = drawn()
        .find(|(_, f)| Some(f.y) == metric)
        .or(drawn().next());
    let map = (!a.matrices.is_empty()).then_some(DrawingRef::Heat(0));
    chart.map(|(place, _)| DrawingRef::Chart(place)).or(map)
}

struct Printer<'a> {
    drawings: &'a Drawings,
    /// Number of lists of footnotes so far.
    notes: usize,
    out: String,
    /// The last heading, which labels the tables below it.
    heading: String,
    is_in_section: bool,
}

impl<'a> Printer<'a> {
    fn new(drawings: &'a Drawings) -> Printer<'a> {
        Printer {
            drawings,
            notes: 0,
            out: String::new(),
            heading: "Answer".to_owned(),
            is_in_section: false,
        }
    }

    fn print(mut self, blocks: &[DocBlock]) -> String {
        self.blocks(blocks);
        self.end_section();
        self.out
    }

    fn put(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
    }

    fn end_section(&mut self) {
        if self.is_in_section {
            self.put("</section>\n");
        }
        self.is_in_section = false;
    }

    /// Prints blocks; figures and cards that follow each other stand side by side.
    fn blocks(&mut self, blocks: &[DocBlock]) {
        let leading = self.drawings.leading;
        let is_leading = |b: &DocBlock| matches!(b, DocBlock::Figure(f, _) if Some(*f) == leading);
        let shown: Vec<&DocBlock> = blocks.iter().filter(|b| !is_leading(b)).collect();
        for run in shown.chunk_by(|a, b| group(a).is_some() && group(a) == group(b)) {
            let class = run.first().and_then(|block| group(block));
            if let Some(class) = class {
                self.put(format!("<div class=\"{class}\">\n"));
            }
            for block in run {
                self.block(block);
            }
            if class.is_some() {
                self.put("</div>\n");
            }
        }
    }

    fn block(&mut self, block: &DocBlock) {
        match block {
            DocBlock::Heading(heading) => {
                let text = prose(&heading.text);
                self.heading = escaped(&clean(&heading.text));
                if heading.level == 2 {
                    self.end_section();
                    let id = heading.anchor;
                    self.put(format!("<section id=\"{id}\">\n<h2>{text}</h2>\n"));
                    self.is_in_section = true;
                } else {
                    self.put(format!("<h3>{text}</h3>\n"));
                }
            }
            DocBlock::Paragraph(line) => self.put(element("p", line) + "\n"),
            DocBlock::List(lines) => {
                self.put("<ul>\n");
                for line in lines {
                    self.put(element("li", line) + "\n");
                }
                self.put("</ul>\n");
            }
            DocBlock::Terms(terms) => self.terms(terms),
            DocBlock::Table(table) => self.table(table),
            DocBlock::Notes(notes) => {
                self.notes += 1;
                self.put("<ol class=\"notes\">\n");
                for (i, why) in (1..).zip(notes) {
                    let (list, why) = (self.notes, prose(why));
                    self.put(format!("<li id=\"note-{list}-{i}\">{why}</li>\n"));
                }
                self.put("</ol>\n");
            }
            DocBlock::Figure(drawing, _) => self.put(self.drawings.html(*drawing)),
            DocBlock::Card(blocks) => {
                self.put("<div class=\"card\">\n");
                self.blocks(blocks);
                self.put("</div>\n");
            }
            DocBlock::Fold { title, blocks, .. } => {
                let has_findings = |t: &&DocTable| t.rows.iter().any(|r| r.finding.is_some());
                let findings = blocks.iter().find_map(|folded| match folded {
                    DocBlock::Table(table) => Some(table).filter(has_findings),
                    _ => None,
                });
                let id = findings.map_or("", |_| " id=\"all\"");
                let title = prose(title);
                self.put(format!("<details{id}><summary>{title}</summary>\n"));
                self.out.extend(findings.map(filter));
                self.blocks(blocks);
                self.put("</details>\n");
            }
            DocBlock::Code(text) => {
                self.put("<pre class=\"scroll\" tabindex=\"0\">");
                self.put(escaped(&clean(text)) + "</pre>\n");
            }
            DocBlock::PageOnly(blocks) => self.blocks(blocks),
        }
    }

    fn terms(&mut self, terms: &[DocTerm]) {
        self.put("<dl class=\"terms\">\n");
        for term in terms {
            let mark = term.mark.map_or_else(String::new, sign);
            let label = prose(&term.label);
            self.put(format!("<div><dt>{mark}{label}</dt>"));
            for line in &term.lines {
                self.put(element("dd", line));
            }
            self.put("</div>\n");
        }
        self.put("</dl>\n");
    }

    fn table(&mut self, table: &DocTable) {
        let is_matrix = table.is_matrix();
        let kind = if is_matrix { "matrix" } else { "list" };
        let label = match table.caption.as_str() {
            "" => self.heading.clone(),
            caption => escaped(&clean(caption)),
        };
        if !table.caption.is_empty() {
            self.put(format!("<p class=\"faint\">{label}</p>\n"));
        }
        self.put(format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n<table class=\"{kind}\">\n<thead><tr>"
        ));
        for column in &table.columns {
            let class = if is_matrix && column.kind == ColumnKind::Notes {
                " class=\"note\""
            } else {
                number_class(is_matrix, column.align)
            };
            let heading = prose(&column.heading);
            self.put(format!("<th scope=\"col\"{class}>{heading}</th>"));
        }
        self.put("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            self.put(self.row(table, row, is_matrix));
        }
        self.put("</tbody>\n</table>\n</div>\n");
    }

    fn row(&self, table: &DocTable, row: &DocRow, is_matrix: bool) -> String {
        let mut out = "<tr".to_owned();
        if row.is_baseline {
            out += " class=\"baseline\"";
        }
        if let Some(finding) = row.finding {
            let (id, verdict) = (finding + 1, verdict_of(row));
            out += &format!(" id=\"c{id}\" data-verdict=\"{verdict}\"");
        }
        out.push('>');
        // The heading of a part spans all columns of numbers.
        let is_number = |c: &&DocColumn| c.align == Align::Right;
        let number_columns = table.columns.iter().skip(1).take_while(is_number);
        let span = 1 + number_columns.count();
        let is_empty = |entry: &DocEntry| entry.text.is_empty() && entry.mark.is_none();
        let is_heading = match row.entries.get(..span) {
            Some([_, numbers @ ..]) if is_matrix && !numbers.is_empty() => {
                numbers.iter().all(is_empty)
            }
            _ => false,
        };
        if is_heading {
            let name = prose(&row.entries[0].text);
            out += &format!("<th scope=\"row\" colspan=\"{span}\">{name}</th>");
        }
        let skipped = if is_heading { span } else { 0 };
        for (i, entry) in row.entries.iter().enumerate().skip(skipped) {
            let align = table.columns.get(i).map_or(Align::Left, |c| c.align);
            let text = prose(&entry.text);
            out += &match (i, is_matrix) {
                (0, true) if row.is_baseline => {
                    format!("<th scope=\"row\">{text} <small>baseline</small></th>")
                }
                (0, true) => format!("<th scope=\"row\">{text}</th>"),
                (_, true) if align == Align::Left => format!("<td class=\"note\">{text}</td>"),
                (_, true) => self.number(entry),
                (_, false) => {
                    let class = number_class(false, align);
                    let mark = entry.mark.map_or_else(String::new, sign);
                    format!("<td{class}>{mark}{text}{}</td>", self.note(entry))
                }
            };
        }
        out + "</tr>\n"
    }

    fn note(&self, entry: &DocEntry) -> String {
        entry.note.map_or_else(String::new, |note| {
            let to = format!("note-{}-{note}", self.notes + 1);
            format!("<sup><a href=\"#{to}\" aria-label=\"note {note}\">{note}</a></sup>")
        })
    }

    /// An entry of a table of numbers: the value, its ratio to the baseline, and the verdict.
    fn number(&self, entry: &DocEntry) -> String {
        let note = self.note(entry);
        let class = match entry.mark {
            Some(mark) => format!(" class=\"verdict {}\"", mark.kind.class()),
            None if entry.is_gap => " class=\"gap\"".to_owned(),
            None => String::new(),
        };
        let title = match entry.description.as_str() {
            "" => String::new(),
            description => format!(" title=\"{}\"", escaped(&clean(description))),
        };
        let ratio = match (entry.ratio.as_str(), entry.mark) {
            (_, None) => String::new(),
            ("", Some(mark)) => format!(" {}", sign(mark)),
            (ratio, Some(mark)) => format!(" <span>{ratio} {}</span>", sign(mark)),
        };
        let text = match prose(&entry.text) {
            // Next to a ratio or a verdict the number is the louder of the two.
            text if entry.mark.is_some() || !entry.ratio.is_empty() => format!("<b>{text}</b>"),
            text => text,
        };
        format!("<td{class}{title}>{text}{note}{ratio}</td>")
    }
}

/// The class of the element that holds blocks side by side; none for other blocks.
fn group(block: &DocBlock) -> Option<&'static str> {
    match block {
        DocBlock::Card(_) => Some("cards"),
        DocBlock::Figure(DrawingRef::Chart(_) | DrawingRef::Heat(_), _) => Some("figures"),
        _ => None,
    }
}

/// Buttons that narrow the list of comparisons to a verdict.
fn filter(table: &DocTable) -> String {
    let mut out = format!(
        "<div class=\"filter js-only\" role=\"group\" aria-label=\"Show comparisons by verdict\">\n<button type=\"button\" aria-pressed=\"true\" data-filter=\"\">all {}</button>\n",
        table.rows.len()
    );
    for verdict in VERDICTS {
        let DocMark { sign, words, kind } = DocMark::from(verdict);
        let class = kind.class();
        let rows = table.rows.iter().filter(|row| verdict_of(row) == class);
        out += &format!(
            "<button type=\"button\" aria-pressed=\"false\" data-filter=\"{class}\"><i class=\"mark {class}\" aria-hidden=\"true\">{sign}</i> {words} {}</button>\n",
            rows.count()
        );
    }
    out + "</div>\n"
}

const VERDICTS: [Verdict; 5] = [
    Verdict::Better,
    Verdict::Worse,
    Verdict::NoDifferenceThatMatters,
    Verdict::NotDecided,
    Verdict::NotJudged,
];

fn verdict_of(row: &DocRow) -> &'static str {
    let mark = row.entries.iter().find_map(|entry| entry.mark);
    mark.map_or("", |mark| mark.kind.class())
}

fn number_class(is_matrix: bool, align: Align) -> &'static str {
    match (is_matrix, align) {
        (false, Align::Right) => " class=\"n\"",
        _ => "",
    }
}

fn class(line: &DocLine) -> String {
    match (line.mark, line.ink) {
        (Some(mark), _) => format!(" class=\"ruling {}\"", mark.kind.class()),
        (None, Ink::Plain) => String::new(),
        (None, ink) => format!(" class=\"{}\"", <&str>::from(ink)),
    }
}

/// An element with a line, and a link to the comparisons that it rests on.
fn element(name: &str, line: &DocLine) -> String {
    let class = class(line);
    let mark = line.mark.map_or_else(String::new, |mark| {
        format!("<span aria-hidden=\"true\">{}</span> ", mark.sign)
    });
    let text = prose(&line.text);
    let ids: Vec<String> = (line.rests_on.iter())
        .map(|place| format!("c{}", place + 1))
        .collect();
    let evidence = ids.first().map_or_else(String::new, |first| {
        let words = count(ids.len(), "comparison", "comparisons");
        let rows = ids.join(" ");
        format!(" <a class=\"evidence\" href=\"#{first}\" data-rows=\"{rows}\">{words}</a>")
    });
    format!("<{name}{class}>{mark}{text}{evidence}</{name}>")
}

/// A sign that is read out by its meaning.
fn sign(mark: DocMark) -> String {
    let DocMark { sign, words, kind } = mark;
    let class = kind.class();
    format!("<i class=\"mark {class}\" role=\"img\" aria-label=\"{words}\">{sign}</i> ")
}

fn prose(text: &str) -> String {
    let html = |span: TextSpan| {
        let shown = escaped(&span.text);
        if span.code {
            format!("<code>{shown}</code>")
        } else {
            shown
        }
    };
    spans(text).into_iter().map(html).collect()
}

/// A text with the characters escaped that HTML reserves, for content and attributes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
