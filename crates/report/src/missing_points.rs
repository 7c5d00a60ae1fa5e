//! Gaps of a figure, with their reasons.

use bytecost_analysis::{FigureData, Gap, Point, grouped};
use bytecost_spec::{Axis, Unit, units};
use itertools::Itertools as _;

use crate::phrases;
use crate::text::clean;

/// A mover that never has more than one request in flight, at another depth.
pub(crate) const ONE_IN_FLIGHT: &str = "it has one request in flight: see depth 1";

/// The most reasons that are listed at one place.
const REASONS_MOST: usize = 3;

/// Reason of a gap, in words.
pub(crate) fn gap_in_words(gap: &Gap, unit: Unit) -> String {
    clean(&match gap {
        Gap::Refused(why) | Gap::Absent(why) => why.clone(),
        Gap::WithoutMeaning(metric) => {
            format!("{} has no meaning here", phrases::metric(*metric, unit))
        }
        Gap::Failed(why) => format!("failed: {why}"),
        Gap::EndedEarly(why) => format!("the run ended before its turn: {why}"),
        Gap::NotReached => "no trial reached it".to_owned(),
        Gap::FewBlocks => "fewer than three blocks have both".to_owned(),
        Gap::Withheld(why) => format!("withheld: {why}"),
        Gap::LeftOut(Some(why)) => format!("left out: {why}"),
        Gap::LeftOut(None) => "left out: the budget did not reach it".to_owned(),
        Gap::NotInStudy => "not part of the study".to_owned(),
        Gap::NoPair => "no two cells were planned that differ in nothing else".to_owned(),
        Gap::OneInFlight => ONE_IN_FLIGHT.to_owned(),
        Gap::NoBaseline => "nothing to compare it with".to_owned(),
        Gap::NotPublished => "not published".to_owned(),
        Gap::PublishedAs(0.0) => {
            "published as 0: its digits do not tell it from a small number".to_owned()
        }
        Gap::PublishedAs(value) => format!("published as {}", units::number(*value)),
    })
}

/// Reason of an empty figure: that of most of its gaps.
pub(crate) fn why_empty(f: &FigureData, unit: Unit) -> String {
    let points = f.series.iter().flat_map(|s| &s.points);
    let reasons = grouped(points.filter_map(|point| match point {
        Point::Gap(why) => Some((gap_in_words(why, unit), ())),
        Point::Measured(_) => None,
    }));
    // The first of equals.
    let reasons = reasons.into_iter().rev();
    match reasons.max_by_key(|(_, times)| times.len()) {
        Some((why, _)) => format!("not measured here: {why}"),
        None => "not measured here".to_owned(),
    }
}

/// Gaps of a column, except points that others did not publish: `splice, vmsplice: why`.
pub(crate) fn at_column(f: &FigureData, column: usize, unit: Unit) -> Option<String> {
    let missing = f.series.iter().filter_map(|s| match s.points.get(column) {
        Some(Point::Gap(why)) if *why != Gap::NotPublished => {
            Some((gap_in_words(why, unit), clean(&s.name)))
        }
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

/// Notes on gaps below a figure, grouped by reason: `splice, vmsplice at 256 B, 4 KiB: why`. None
/// for an empty figure with a single reason, which the figure itself shows.
pub(crate) fn told(f: &FigureData, empty: bool, unit: Unit) -> Vec<String> {
    let of_series = f.series.iter().flat_map(|series| {
        let points = f.x_values.iter().zip(&series.points);
        let gaps = grouped(points.filter_map(|(x, point)| match point {
            Point::Gap(why) if *why != Gap::NotPublished => {
                Some((gap_in_words(why, unit), f.x.in_words(x)))
            }
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
