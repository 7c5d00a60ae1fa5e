//! What a figure does not show, and why.

use bytecost_analysis::{FigureData, Point, grouped};

use crate::published_series::NOT_PUBLISHED;
use crate::question::value_in_words;
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
    let most = reasons.iter().map(|(_, times)| times.len()).max();
    let first = reasons
        .into_iter()
        .find(|(_, times)| Some(times.len()) == most);
    match first {
        Some((why, _)) if why.starts_with("not measured") => why,
        Some((why, _)) => format!("not measured here: {why}"),
        None => "not measured here".to_owned(),
    }
}

/// What is missing in a column: `splice, vmsplice: why; sendfile: why else`. What others did not
/// publish is not missing.
pub(crate) fn at_column(f: &FigureData, column: usize) -> Option<String> {
    let missing = f.series.iter().filter_map(|s| match s.points.get(column) {
        Some(Point::Gap(why)) if why != NOT_PUBLISHED => Some((clean(why), clean(&s.name))),
        _ => None,
    });
    let mut reasons = grouped(missing);
    if reasons.is_empty() {
        return None;
    }
    let more = reasons.len().saturating_sub(REASONS_MOST);
    reasons.truncate(REASONS_MOST);
    let mut told: Vec<String> = reasons
        .iter()
        .map(|(why, names)| format!("{}: {why}", names.join(", ")))
        .collect();
    if more > 0 {
        told.push(format!("{more} more below"));
    }
    let x = f.x_values.get(column).map_or("", String::as_str);
    Some(format!(
        "No point at {}: {}",
        clean(&value_in_words(f.x, x)),
        told.join("; ")
    ))
}

/// The gaps to tell below a figure; an empty one tells its only reason itself.
pub(crate) fn told(f: &FigureData, empty: bool) -> Vec<String> {
    let mut gaps = gaps(f);
    if empty && gaps.len() == 1 {
        gaps.clear();
    }
    gaps
}

/// Gaps with the same reason together: `splice, vmsplice at 256 B, 4 KiB: why`.
fn gaps(f: &FigureData) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>, Vec<String>)> = Vec::new();
    for series in &f.series {
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        for (x, point) in f.x_values.iter().zip(&series.points) {
            let Point::Gap(why) = point else { continue };
            if why == NOT_PUBLISHED {
                continue;
            }
            let (why, x) = (clean(why), value_in_words(f.x, x));
            match reasons.iter_mut().find(|(w, _)| *w == why) {
                Some((_, xs)) => xs.push(x),
                None => reasons.push((why, vec![x])),
            }
        }
        for (why, xs) in reasons {
            match groups.iter_mut().find(|(w, _, at)| *w == why && *at == xs) {
                Some((_, names, _)) => names.push(clean(&series.name)),
                None => groups.push((why, vec![clean(&series.name)], xs)),
            }
        }
    }
    groups
        .into_iter()
        .map(|(why, names, xs)| {
            let at = match f.x {
                bytecost_spec::Axis::Size => format!("at {}", xs.join(", ")),
                axis => format!("at {} {}", axis.name(), xs.join(", ")),
            };
            format!("{} {at}: {why}", names.join(", "))
        })
        .collect()
}
