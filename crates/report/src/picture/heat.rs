//! Heat maps of what the distance between two CPUs costs, as pictures.

use askama::Template;
use bytecost_analysis::Analysis;

use super::{COLUMNS, LINE_HEIGHT, MARGIN, Picture, feet, foot, lines, slug};
use crate::heat::{Heat, heats};

#[derive(Template)]
#[template(path = "heat_picture.svg", escape = "html", whitespace = "minimize")]
struct Drawing {
    h: Heat,
    subtitles: Vec<(f64, String)>,
    plot: f64,
    feet: Vec<(f64, String)>,
    height: f64,
}

pub(super) fn pictures(a: &Analysis) -> Vec<Picture> {
    heats(a).into_iter().map(|h| picture(a, h)).collect()
}

fn picture(a: &Analysis, h: Heat) -> Picture {
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
    let drawing = Drawing {
        h,
        subtitles,
        plot,
        feet,
        height: y + MARGIN,
    };
    Picture::of(name, &drawing)
}
