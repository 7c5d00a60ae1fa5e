//! What a figure does not show, and why.

use bytecost_analysis::{FigureData, Point, grouped};
use bytecost_spec::Axis;
use itertools::Itertools as _;

use crate::published_series::NOT_PUBLISHED;
use crate::text::clean;

/// The most reasons that are told at one place.
const REASONS_MOST: usize = 3;

/// Why a figure has no point at all: the reason of most of its gaps.
pub(crate) fn why_empty(f: &FigureData) -> String {
    let points = f.series.iter().flat_map(|s| &s.points);
    let reasons = grouped(points.filter_map(|point| match point {
        Point::Gap(why) => Some((clean(why), ())),
        Point::Measured(_) => None,
    }));
    // The first of equals.
    let reasons = reasons.into_iter().rev();
    match reasons.max_by_key(|(_, times)| times.len()) {
        Some((why, _)) if why.starts_with("not measured") => why,
        Some((why, _)) => format!("not measured here: {why}"),
        None => "not measured here".to_owned(),
    }
}

/// What is missing in a column, but for what others did not publish: `splice, vmsplice: why`.
pub(crate) fn at_column(f: &FigureData, column: usize) -> Option<String> {
    let missing = f.series.iter().filter_map(|s| match s.points.get(column) {
        Some(Point::Gap(why)) if why != NOT_PUBLISHED => Some((clean(why), clean(&s.name))),
        _ => None,
    });
    let reasons = grouped(missing);
    if reasons.is_empty() {
        return None;
    }
    let more = reasons.len().checked_sub(REASONS_MOST + 1);
    let more = more.map(|more| format!("{} more below", more + 1));
    let told = reasons.iter().take(REASONS_MOST);
    let told = told.map(|(why, names)| format!("{}: {why}", names.join(", ")));
    let told = told.chain(more).join("; ");
    let x = f.x_values.get(column)?;
    Some(format!("No point at {}: {told}", clean(&f.x.in_words(x))))
}

/// The gaps to tell below a figure, those with the same reason together: `splice, vmsplice at 256 B,
/// 4 KiB: why`. An empty figure tells its only reason itself.
pub(crate) fn told(f: &FigureData, empty: bool) -> Vec<String> {
    let of_series = f.series.iter().flat_map(|series| {
        let points = f.x_values.iter().zip(&series.points);
        let gaps = grouped(points.filter_map(|(x, point)| match point {
            Point::Gap(why) if why != NOT_PUBLISHED => Some((clean(why), f.x.in_words(x))),
            _ => None,
        }));
        gaps.into_iter().map(|gap| (gap, clean(&series.name)))
    });
    let gaps = grouped(of_series);
    if empty && gaps.len() == 1 {
        return Vec::new();
    }
    let axis = match f.x {
        Axis::Size => String::new(),
        axis => format!("{} ", axis.name()),
    };
    let told = gaps.into_iter().map(|((why, xs), names)| {
        format!("{} at {axis}{}: {why}", names.join(", "), xs.join(", "))
    });
    told.collect()
}
