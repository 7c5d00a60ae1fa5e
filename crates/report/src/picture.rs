//! A figure as a picture by itself, for papers and other documents that a page does not fit into.

use askama::Template;
use bytecost_analysis::{Analysis, FigureData};

use crate::chart;
use crate::descriptions;
use crate::figure::{DrawnFigure, Palette, STALL_MARKER, STALL_WORDS, figure};
use crate::heat::{Heat, heats};
use crate::overview::{Overview, overview};
use crate::published_series;
use crate::stack::{Stack, stacks};
use crate::text::{clean, wrap};

/// A picture of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// What it shows, as the name of a file without its ending:
    /// `figure-1-throughput_gbit_per_s-over-size-threads-1`.
    pub name: String,
    /// The picture as SVG that stands by itself: on white, and told apart by marks and dashes as
    /// well as by colours, so that print in grey can be read too.
    pub svg: String,
}

/// Room around the drawing.
const MARGIN: f64 = 14.0;
/// Characters of a line of the heading, of what stands below it, and of the foot.
const COLUMNS: (usize, usize, usize) = (60, 84, 92);
/// Height of a line of the heading, and of every other line.
const LINE_HEIGHT: (f64, f64) = (22.0, 17.0);
/// Width of a character of the legend, about, and of what stands before its words.
const LEGEND_WIDTH: (f64, f64) = (7.9, 52.0);

#[derive(Template)]
#[template(path = "picture.svg", escape = "html", whitespace = "minimize")]
struct Drawing {
    f: DrawnFigure,
    headings: Vec<(f64, String)>,
    subtitles: Vec<(f64, String)>,
    legend: Vec<Key>,
    /// Where the drawing begins.
    plot: f64,
    reasons: Vec<(f64, String)>,
    feet: Vec<(f64, String)>,
    height: f64,
    label: String,
    /// What stands above the axis upwards.
    upwards: String,
}

/// An entry of the legend.
struct Key {
    x: f64,
    y: f64,
    words: String,
    color: usize,
    marker: &'static str,
    class: &'static str,
    /// Whether a line goes through the marker.
    line: bool,
}

/// Every figure as a picture.
///
/// # Panics
/// Never: the template writes into memory and asks nothing that could fail.
#[must_use]
pub fn pictures(a: &Analysis) -> Vec<Picture> {
    let figures = published_series::figures(a);
    let palette = Palette::of(a, &figures);
    let numbered = figures.iter().enumerate();
    let drawn = numbered.map(|(number, data)| {
        let drawing = drawing(a, data, figure(a, number, data, &palette));
        Picture::of(name(number, data), &drawing)
    });
    let bars = stacks(a).into_iter().map(|s| stacked(a, s));
    drawn
        .chain(heats(a).into_iter().map(|h| heat(a, h)))
        .chain(bars)
        .chain(speed_ups(a))
        .collect()
}

impl Picture {
    fn of(name: String, drawing: &impl Template) -> Picture {
        let svg = drawing.render().expect("a picture is only text");
        Picture {
            name,
            svg: svg + "\n",
        }
    }
}

/// Lines of text from a place downwards, each with where it stands: the text, its columns, and the
/// height of a line.
fn lines(text: &str, columns: usize, height: f64, y: &mut f64) -> Vec<(f64, String)> {
    let down = |line| {
        *y += height;
        (*y, line)
    };
    wrap(text, columns, "", "").into_iter().map(down).collect()
}

/// What stands below a picture, a text after the other.
fn feet(texts: impl IntoIterator<Item = String>, y: &mut f64) -> Vec<(f64, String)> {
    let texts = texts.into_iter();
    texts
        .flat_map(|text| lines(&text, COLUMNS.2, LINE_HEIGHT.1, y))
        .collect()
}

/// A figure of bars, as a picture.
/// A heat map of what the distance between two CPUs costs.
fn heat(a: &Analysis, h: Heat) -> Picture {
    let mut y = 34.0;
    let plain = |spans: &[crate::text::TextSpan]| -> String {
        spans.iter().map(|span| span.text.as_str()).collect()
    };
    let subtitles = lines(&h.sub, COLUMNS.1, LINE_HEIGHT.1, &mut y);
    let plot = y + 16.0;
    y = plot + h.height + 6.0;
    let words = h.words.iter().map(|words| plain(words));
    let gaps = h
        .gaps
        .iter()
        .map(|gap| format!("No number for {}", plain(gap)));
    let feet = feet(words.chain(gaps).chain([foot(a)]), &mut y);
    let name = slug(&h.id);
    let drawing = HeatDrawing {
        h,
        subtitles,
        plot,
        feet,
        height: y + MARGIN,
    };
    Picture::of(name, &drawing)
}

#[derive(Template)]
#[template(path = "heat_picture.svg", escape = "html", whitespace = "minimize")]
struct HeatDrawing {
    h: Heat,
    subtitles: Vec<(f64, String)>,
    plot: f64,
    feet: Vec<(f64, String)>,
    height: f64,
}

#[derive(Template)]
#[template(path = "stack_picture.svg", escape = "html", whitespace = "minimize")]
struct StackDrawing {
    s: Stack,
    legend: Vec<(f64, f64, crate::stack::Key)>,
    plot: f64,
    feet: Vec<(f64, String)>,
    height: f64,
}

fn stacked(a: &Analysis, s: Stack) -> Picture {
    /// From one column of the legend to the next, and columns.
    const LEGEND: (f64, usize) = (212.0, 3);
    let mut y = 74.0;
    let mut legend = Vec::with_capacity(s.kinds.len());
    for (i, key) in s.kinds.iter().enumerate() {
        let column = i % LEGEND.1;
        if i > 0 && column == 0 {
            y += LINE_HEIGHT.1 + 2.0;
        }
        legend.push((column as f64 * LEGEND.0, y, *key));
    }
    let plot = y + 10.0;
    y = plot + s.height + 8.0;
    let feet = feet(s.notes.iter().cloned().chain([foot(a)]), &mut y);
    let name = s.id.to_owned();
    let drawing = StackDrawing {
        s,
        legend,
        plot,
        feet,
        height: y + MARGIN,
    };
    Picture::of(name, &drawing)
}

/// How many times as fast, as a picture.
#[derive(Template)]
#[template(
    path = "overview_picture.svg",
    escape = "html",
    whitespace = "minimize"
)]
struct OverviewDrawing {
    o: Overview,
    subtitles: Vec<(f64, String)>,
    plot: f64,
    feet: Vec<(f64, String)>,
    height: f64,
}

fn speed_ups(a: &Analysis) -> Option<Picture> {
    let o = overview(a)?;
    let theirs = if o.published {
        "; hollow marks were published by others, without an interval"
    } else {
        ""
    };
    let mut y = 33.0;
    let subtitle = format!("Above 1× the first of a pair is faster; bars: 95 % intervals{theirs}");
    let subtitles = lines(&subtitle, COLUMNS.1, LINE_HEIGHT.1, &mut y);
    let plot = y + 14.0;
    y = plot + o.height + 4.0;
    let feet = feet(o.notes.iter().cloned().chain([foot(a)]), &mut y);
    let drawing = OverviewDrawing {
        o,
        subtitles,
        plot,
        feet,
        height: y + MARGIN,
    };
    Some(Picture::of("speed-ups".to_owned(), &drawing))
}

fn drawing(a: &Analysis, data: &FigureData, f: DrawnFigure) -> Drawing {
    let upwards = match &data.relative_to {
        Some(baseline) => format!(
            "{}, times {}'s",
            data.y.title(a.study.unit),
            clean(baseline)
        ),
        None => descriptions::metric_with_unit(data.y, a.study.unit),
    };
    let mut y = 10.0;
    let headings = lines(&f.title, COLUMNS.0, LINE_HEIGHT.0, &mut y);
    let subtitles = lines(&subtitle(&f), COLUMNS.1, LINE_HEIGHT.1, &mut y);
    y += 6.0;
    let legend = legend(&f, &mut y);
    let plot = y + 26.0;
    y = plot + chart::SIZE.1 + 16.0;
    let feet = feet([foot(a)], &mut y);
    let mut middle = plot + chart::SIZE.1 / 2.0 - 40.0;
    let reasons = match &f.empty {
        Some(why) => lines(why, COLUMNS.1 - 28, LINE_HEIGHT.1, &mut middle),
        None => Vec::new(),
    };
    Drawing {
        label: format!("{}: {} over {}", f.title, f.y, f.x),
        upwards,
        height: y + MARGIN,
        f,
        headings,
        subtitles,
        legend,
        plot,
        reasons,
        feet,
    }
}

fn subtitle(f: &DrawnFigure) -> String {
    let mut parts = vec![f.y.clone()];
    if !f.panel.is_empty() {
        parts.push(f.panel.clone());
    }
    let intervals = |l: &crate::figure::SeriesLine| l.dots.iter().any(|_| !l.hollow);
    if f.lines.iter().any(intervals) {
        parts.push("bands: 95 % intervals".to_owned());
    }
    if let Some(source) = &f.source {
        parts.push(format!("hollow, dotted: published by {source}"));
    }
    if let Some(note) = &f.note {
        parts.push(note.iter().map(|span| span.text.as_str()).collect());
    }
    parts.join("; ")
}

/// The legend, from left to right and on as many lines as it takes.
fn legend(f: &DrawnFigure, y: &mut f64) -> Vec<Key> {
    let mut keys: Vec<Key> = f
        .lines
        .iter()
        .filter(|l| !l.dots.is_empty())
        .map(|l| Key {
            x: 0.0,
            y: 0.0,
            words: l.name.clone(),
            color: l.color,
            marker: l.marker,
            class: match (l.hollow, l.dashed) {
                (true, _) => "theirs",
                (false, true) => "dashed",
                (false, false) => "",
            },
            line: true,
        })
        .collect();
    let sign = |words: &str, marker, class| Key {
        x: 0.0,
        y: 0.0,
        words: words.to_owned(),
        color: 0,
        marker,
        class,
        line: false,
    };
    if let Some(ceiling) = &f.ceiling {
        keys.push(Key {
            line: true,
            ..sign(ceiling, "", "ceiling")
        });
    }
    if f.stalls {
        keys.push(sign(STALL_WORDS, STALL_MARKER, "stall"));
    }
    if !f.gap_marks.is_empty() {
        keys.push(sign(
            "not measured",
            "M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5",
            "missing",
        ));
    }
    let mut x = 0.0;
    if !keys.is_empty() {
        *y += LINE_HEIGHT.1;
    }
    for key in &mut keys {
        let width = LEGEND_WIDTH.0 * key.words.chars().count() as f64 + LEGEND_WIDTH.1;
        if x > 0.0 && x + width > chart::SIZE.0 + MARGIN {
            x = 0.0;
            *y += LINE_HEIGHT.1;
        }
        (key.x, key.y) = (x, *y);
        x += width;
    }
    keys
}

/// What a reader of the picture alone must know: the machine, the version, the day, the study.
fn foot(a: &Analysis) -> String {
    let bytecost = format!("bytecost {}", a.run.bytecost_version);
    let day = a.run.started.get(..10).unwrap_or(&a.run.started);
    if let Some(published) = descriptions::imported(a) {
        return clean(&format!(
            "Published by {}; not measured here · {bytecost}, imported {day}",
            published.source
        ));
    }
    let bare = match &a.host.virtualization {
        Some(_) => "",
        None => " · no hypervisor seen",
    };
    let design = a.study.design.as_deref().unwrap_or("own");
    clean(&format!(
        "{}{bare} · {bytecost}, {day}, study {} ({design} design)",
        descriptions::host_line(&a.host),
        a.study.name
    ))
}

/// The name of a picture's file: its place on the page, and what it shows.
fn name(number: usize, f: &FigureData) -> String {
    let against = f.relative_to.as_ref().map_or("", |_| "-relative");
    let panel: String = f
        .panel
        .iter()
        .map(|(axis, value)| format!("-{}-{}", axis.name(), value))
        .collect();
    let name = format!(
        "figure-{}-{}{against}-over-{}{panel}",
        number + 1,
        f.y,
        f.x.name()
    );
    slug(&name)
}

/// A text as a part of the name of a file, of at most 100 characters.
fn slug(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let text: String = text.chars().map(plain).take(100).collect();
    let words: Vec<&str> = text.split('-').filter(|w| !w.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_a_file() {
        for (text, expected) in [
            (
                "figure-1-cpu_s_per_gb-over-size",
                "figure-1-cpu_s_per_gb-over-size",
            ),
            (
                "figure-2-over-size-placement-0:1",
                "figure-2-over-size-placement-0-1",
            ),
            ("../../etc/passwd\0é", "etc-passwd"),
        ] {
            assert_eq!(slug(text), expected);
        }
        assert_eq!(slug(&"x".repeat(300)).len(), 100);
    }
}
