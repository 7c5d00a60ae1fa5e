//! Gaps of a figure, with their reasons.

use bytecost_analysis::{FigureData, Gap, Point, Series, grouped};
use bytecost_spec::{Axis, Unit, units};
use itertools::Itertools as _;

use crate::caveats::withholding_reason;
use crate::text::clean;
use crate::{no_value, phrases, two_groups};

/// A mover that never has more than one request in flight, at another depth.
pub(crate) const ONE_IN_FLIGHT: &str = "it has one request in flight: see depth 1";

/// The most reasons that are listed at one place.
const REASONS_MOST: usize = 3;

pub(crate) fn gap_in_words(gap: &Gap, unit: Unit) -> String {
    clean(&match gap {
        Gap::Refused(why) => why.clone(),
        Gap::Absent(reason) => no_value::words(reason),
        Gap::TwoGroups(groups) => {
            format!("two groups of trials: {}", two_groups::ranges(groups))
        }
        Gap::WithoutMeaning(metric) => {
            format!("{} has no meaning here", phrases::metric(*metric, unit))
        }
        Gap::Failed(why) => format!("failed: {why}"),
        Gap::EndedEarly(why) => format!("the run ended before its turn: {why}"),
        Gap::NotReached => "no trial reached it".to_owned(),
        Gap::FewBlocks => "fewer than three blocks have both".to_owned(),
        Gap::Withheld(kind) => format!("withheld: {}", withholding_reason(*kind)),
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

/// Reason why a point was not measured, in words; none for a measured one.
pub(crate) fn gap_of(point: &Point, unit: Unit) -> Option<String> {
    match point {
        Point::Gap(gap) => Some(gap_in_words(gap, unit)),
        Point::Measured(_) => None,
    }
}

/// The same, except for a point that others did not publish.
fn own_gap(point: &Point, unit: Unit) -> Option<String> {
    gap_of(point, unit).filter(|_| *point != Point::Gap(Gap::NotPublished))
}

/// The same as an answer to a question: a measured point whose verdict is withheld is not missing.
pub(crate) fn missing(point: &Point, unit: Unit) -> Option<String> {
    let why = gap_of(point, unit)?;
    if matches!(point, Point::Gap(Gap::Withheld(_))) {
        Some(why)
    } else {
        Some(format!("not measured here: {why}"))
    }
}

pub(crate) fn has_points(series: &Series) -> bool {
    series.points.iter().any(|p| p.measured().is_some())
}

/// Reason of an empty figure: that of most of its gaps, the first of equals.
pub(crate) fn why_empty(f: &FigureData, unit: Unit) -> String {
    let points = f.series.iter().flat_map(|s| &s.points);
    let gaps = points.filter_map(|point| Some((missing(point, unit)?, ())));
    let reasons = grouped(gaps);
    let most = reasons
        .into_iter()
        .rev()
        .max_by_key(|(_, alike)| alike.len());
    most.map_or_else(|| "not measured here".to_owned(), |(why, _)| why)
}

/// Gaps of a column, except points that others did not publish: `splice, vmsplice: why`.
pub(crate) fn at_column(f: &FigureData, column: usize, unit: Unit) -> Option<String> {
    let x = clean(&f.x.in_words(f.x_values.get(column)?));
    let reasons = grouped(f.series.iter().filter_map(|s| {
        let why = own_gap(s.points.get(column)?, unit)?;
        Some((why, clean(&s.name)))
    }));
    let more = reasons.len().saturating_sub(REASONS_MOST);
    let more = (more > 0).then(|| format!("{more} more below"));
    let reason = |(why, names): &(String, Vec<String>)| format!("{}: {why}", names.join(", "));
    let shown = reasons.iter().take(REASONS_MOST).map(reason);
    let words = shown.chain(more).join("; ");
    (!reasons.is_empty()).then(|| format!("No point at {x}: {words}"))
}

/// Notes on gaps below a figure, grouped by reason: `splice, vmsplice at 256 B, 4 KiB: why`. None
/// for an empty figure with a single reason, which the figure itself shows.
pub(crate) fn gap_notes(f: &FigureData, empty: bool, unit: Unit) -> Vec<String> {
    let gaps = grouped(f.series.iter().flat_map(|series| {
        let points = f.x_values.iter().zip(&series.points);
        let gaps = grouped(points.filter_map(|(x, p)| Some((own_gap(p, unit)?, f.x.in_words(x)))));
        gaps.into_iter().map(|gap| (gap, clean(&series.name)))
    }));
    if empty && gaps.len() == 1 {
        return Vec::new();
    }
    let axis = match f.x {
        Axis::Size => String::new(),
        axis => format!("{} ", axis.name()),
    };
    let note = |((why, xs), names): ((String, Vec<String>), Vec<String>)| {
        format!("{} at {axis}{}: {why}", names.join(", "), xs.join(", "))
    };
    gaps.into_iter().map(note).collect()
}
