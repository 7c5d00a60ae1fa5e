//! A figure as a picture by itself, for papers and other documents that a page does not fit into.

use askama::Template;
use bytecost_analysis::{Analysis, FigureData};
use bytecost_spec::{Axis, Value};

use crate::chart;
use crate::descriptions;
use crate::figure::{DrawnFigure, STALL_MARKER, STALL_WORDS, SeriesLine, figures};
use crate::heat::{Heat, heats};
use crate::overview::{Overview, overview};
use crate::stack::{Stack, stacks};
use crate::text::{TextSpan, clean, joined, wrap};

/// A picture of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Name of the picture's file without its ending:
    /// `figure-1-throughput_gbit_per_s-over-size-threads-1`.
    pub name: String,
    /// Stand-alone SVG on white; series differ in marks and dashes as well as in colour, for print
    /// in grey.
    pub svg: String,
}

/// Room around the drawing.
const MARGIN: f64 = 14.0;
/// The most characters of a line of the heading, of a subtitle, and of the foot.
const COLUMNS: (usize, usize, usize) = (60, 84, 92);
/// Height of a line of the heading, and of every other line.
const LINE_HEIGHT: (f64, f64) = (22.0, 17.0);
/// Width of a character of the legend, about, and of the marker before a name.
const LEGEND_WIDTH: (f64, f64) = (7.9, 52.0);

/// Frame of a drawing: lines of text with their offsets, and the top of the drawing.
struct Frame {
    subtitles: Vec<(f64, String)>,
    plot: f64,
    feet: Vec<(f64, String)>,
    height: f64,
}

impl Frame {
    /// A frame around a drawing of so much height, with the room above and below it.
    fn new(
        subtitles: Vec<(f64, String)>,
        [top, above, drawing, below]: [f64; 4],
        feet: impl IntoIterator<Item = String>,
    ) -> Frame {
        let plot = top + above;
        let mut y = plot + drawing + below;
        let mut foot_lines = Vec::new();
        for text in feet {
            foot_lines.extend(lines(&text, COLUMNS.2, LINE_HEIGHT.1, &mut y));
        }
        Frame {
            subtitles,
            plot,
            feet: foot_lines,
            height: y + MARGIN,
        }
    }
}

#[derive(Template)]
#[template(path = "picture.svg", escape = "html", whitespace = "minimize")]
struct ChartSvg {
    f: DrawnFigure,
    frame: Frame,
    headings: Vec<(f64, String)>,
    legend: Vec<Key>,
    reasons: Vec<(f64, String)>,
    label: String,
    upwards: String,
}

#[derive(Template)]
#[template(path = "heat_picture.svg", escape = "html", whitespace = "minimize")]
struct HeatSvg {
    h: Heat,
    frame: Frame,
}

#[derive(Template)]
#[template(path = "stack_picture.svg", escape = "html", whitespace = "minimize")]
struct StackSvg {
    s: Stack,
    frame: Frame,
    legend: Vec<(f64, f64, crate::stack::Key)>,
}

#[derive(Template)]
#[template(
    path = "overview_picture.svg",
    escape = "html",
    whitespace = "minimize"
)]
struct SpeedUpsSvg {
    o: Overview,
    frame: Frame,
}

#[derive(Default)]
struct Key {
    x: f64,
    y: f64,
    words: String,
    color: usize,
    marker: &'static str,
    class: &'static str,
    /// True if the key's marker has a line through it.
    line: bool,
}

/// Every figure as a picture.
pub fn pictures(a: &Analysis) -> Vec<Picture> {
    let figures = figures(a).into_iter().zip(&a.figures).enumerate();
    let charts = figures.map(|(number, (figure, data))| {
        Picture::new(name(number, data), &drawing(a, data, figure))
    });
    let bars = stacks(a).into_iter().map(|s| stacked(a, s));
    let maps = heats(a).into_iter().map(|h| heat(a, h));
    charts.chain(maps).chain(bars).chain(speed_ups(a)).collect()
}

impl Picture {
    fn new(name: String, drawing: &impl Template) -> Picture {
        let svg = drawing.render().expect("a picture is only text");
        Picture {
            name,
            svg: svg + "\n",
        }
    }
}

/// A text wrapped at `columns`, as lines with their offsets; moves `y` to the last.
fn lines(text: &str, columns: usize, height: f64, y: &mut f64) -> Vec<(f64, String)> {
    let below = |line| {
        *y += height;
        (*y, line)
    };
    wrap(text, columns, "", "").into_iter().map(below).collect()
}

fn plain(spans: &[TextSpan]) -> String {
    spans.iter().map(|span| span.text.as_str()).collect()
}

fn heat(a: &Analysis, h: Heat) -> Picture {
    let mut y = 34.0;
    let subtitles = lines(&h.sub, COLUMNS.1, LINE_HEIGHT.1, &mut y);
    let words = h.words.iter().map(|words| plain(words));
    let gaps = h
        .gaps
        .iter()
        .map(|gap| format!("No number for {}", plain(gap)));
    let feet = words.chain(gaps).chain([foot(a)]);
    let frame = Frame::new(subtitles, [y, 16.0, h.height, 6.0], feet);
    Picture::new(slug(&h.id), &HeatSvg { h, frame })
}

fn stacked(a: &Analysis, s: Stack) -> Picture {
    /// Distance between columns of the legend, and number of columns.
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
    let feet = s.notes.iter().cloned().chain([foot(a)]);
    let frame = Frame::new(Vec::new(), [y, 10.0, s.height, 8.0], feet);
    Picture::new(s.id.to_owned(), &StackSvg { s, frame, legend })
}

fn speed_ups(a: &Analysis) -> Option<Picture> {
    let o = overview(a)?;
    let theirs = if o.published {
        "; hollow marks were published by others, without an interval"
    } else {
        ""
    };
    let sub = format!("Above 1× the first of a pair is faster; bars: 95 % intervals{theirs}");
    let mut y = 33.0;
    let subtitles = lines(&sub, COLUMNS.1, LINE_HEIGHT.1, &mut y);
    let feet = o.notes.iter().cloned().chain([foot(a)]);
    let frame = Frame::new(subtitles, [y, 14.0, o.height, 4.0], feet);
    let drawing = SpeedUpsSvg { o, frame };
    Some(Picture::new("speed-ups".to_owned(), &drawing))
}

fn drawing(a: &Analysis, data: &FigureData, f: DrawnFigure) -> ChartSvg {
    let unit = a.study.unit;
    let upwards = match &data.relative_to {
        Some(baseline) => {
            let baseline = clean(&baseline.to_string());
            format!("{}, times {baseline}'s", data.y.title(unit))
        }
        None => descriptions::metric_with_unit(data.y, unit),
    };
    let mut y = 10.0;
    let headings = lines(&f.title, COLUMNS.0, LINE_HEIGHT.0, &mut y);
    let subtitles = lines(&subtitle(&f), COLUMNS.1, LINE_HEIGHT.1, &mut y);
    y += 6.0;
    let legend = legend(&f, &mut y);
    let frame = Frame::new(subtitles, [y, 26.0, chart::SIZE.1, 16.0], [foot(a)]);
    let mut middle = frame.plot + chart::SIZE.1 / 2.0 - 40.0;
    let reasons = f
        .empty
        .iter()
        .flat_map(|why| lines(why, COLUMNS.1 - 28, LINE_HEIGHT.1, &mut middle));
    ChartSvg {
        label: format!("{}: {} over {}", f.title, f.y, f.x),
        upwards,
        reasons: reasons.collect(),
        frame,
        f,
        headings,
        legend,
    }
}

fn subtitle(f: &DrawnFigure) -> String {
    let has_interval = |line: &SeriesLine| !line.hollow && !line.dots.is_empty();
    let has_intervals = f.lines.iter().any(has_interval);
    let source = f.source.as_ref();
    let parts = [f.y.clone(), f.panel.clone()]
        .into_iter()
        .chain(has_intervals.then(|| "bands: 95 % intervals".to_owned()))
        .chain(source.map(|name| format!("hollow, dotted: published by {name}")))
        .chain(f.note.as_deref().map(plain));
    joined(parts, "; ")
}

/// The legend, from left to right and on as many lines as it takes.
fn legend(f: &DrawnFigure, y: &mut f64) -> Vec<Key> {
    let legend_key = |words: &str, marker, class| Key {
        words: words.to_owned(),
        marker,
        class,
        ..Key::default()
    };
    let mut keys = Vec::new();
    for l in f.lines.iter().filter(|l| !l.dots.is_empty()) {
        let class = match (l.hollow, l.dashed) {
            (true, _) => "theirs",
            (false, true) => "dashed",
            (false, false) => "",
        };
        keys.push(Key {
            color: l.color,
            line: true,
            ..legend_key(&l.name, l.marker, class)
        });
    }
    keys.extend(f.ceiling.iter().map(|ceiling| Key {
        line: true,
        ..legend_key(ceiling, "", "ceiling")
    }));
    if f.stalls {
        keys.push(legend_key(STALL_WORDS, STALL_MARKER, "stall"));
    }
    if !f.gap_marks.is_empty() {
        let cross = "M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5";
        keys.push(legend_key("not measured", cross, "missing"));
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

/// Foot of a picture: the machine, the version, the day and the study.
fn foot(a: &Analysis) -> String {
    let bytecost = format!("bytecost {}", a.run.bytecost_version);
    let day = a.run.started.get(..10).unwrap_or(&a.run.started);
    let bare = match &a.host.virtualization {
        Some(_) => "",
        None => " · no hypervisor seen",
    };
    let (host, study) = (descriptions::host_line(&a.host), &a.study.name);
    let design = a.study.design.as_deref().unwrap_or("own");
    clean(&format!(
        "{host}{bare} · {bytecost}, {day}, study {study} ({design} design)"
    ))
}

/// The name of a picture's file: its number on the page, its metric and its axes.
fn name(number: usize, f: &FigureData) -> String {
    let against = f.relative_to.as_ref().map_or("", |_| "-relative");
    let place = |(axis, value): &(Axis, Value)| format!("-{axis}-{value}");
    let panel: String = f.panel.iter().map(place).collect();
    let (number, y, x) = (number + 1, f.y, f.x);
    slug(&format!("figure-{number}-{y}{against}-over-{x}{panel}"))
}

/// A text as a part of the name of a file, of at most 100 characters.
fn slug(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let start: String = text.chars().take(100).collect();
    joined(start.split(|c: char| !is_plain(c)), "-")
}
