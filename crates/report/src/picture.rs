//! A figure as a picture by itself, for documents that a page does not fit into.

use askama::Template;
use bytecost_analysis::{Analysis, FigureData};

use crate::figure::{Figure, Palette, figure};

#[derive(Template)]
#[template(path = "picture.svg", escape = "html", whitespace = "minimize")]
struct Picture {
    f: Figure,
}

/// Every figure as an SVG file that stands by itself, light and dark: file name and text.
///
/// # Panics
/// Never: the template writes into memory and asks nothing that could fail.
#[must_use]
pub fn pictures(a: &Analysis) -> Vec<(String, String)> {
    let palette = Palette::of(a);
    let numbered = a.figures.iter().enumerate();
    numbered
        .map(|(number, data)| {
            let f = figure(a, number, data, &palette);
            let text = Picture { f }.render().expect("a picture is only text");
            (file_name(number, data), text + "\n")
        })
        .collect()
}

/// `figure-1-cpu_s_per_gb-over-size.svg`: its place on the page, and what it shows.
fn file_name(number: usize, f: &FigureData) -> String {
    let against = f.relative_to.as_ref().map_or("", |_| "-relative");
    format!(
        "figure-{}-{}{against}-over-{}.svg",
        number + 1,
        f.y,
        f.x.name()
    )
}
