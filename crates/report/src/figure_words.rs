//! Words of a figure: its heading, its note, and the label of its ceiling.

use bytecost_analysis::{CeilingKind, FigureData};
use bytecost_spec::Unit;

use crate::missing_points::gap_in_words;
use crate::phrases;

/// The heading of a figure, with the values of its panel.
pub(crate) fn title(f: &FigureData) -> String {
    match phrases::circumstances(&f.panel) {
        none if none.is_empty() => f.title.clone(),
        panel => format!("{}, {panel}", f.title),
    }
}

/// The note of a figure that shows another metric than the study asks for.
pub(crate) fn note(f: &FigureData, unit: Unit) -> Option<String> {
    let replaced = f.replaced.as_ref()?;
    Some(format!(
        "{} instead of {}, which is not available on this machine: {}.",
        phrases::capital(&phrases::metric(f.y, unit)),
        phrases::metric(replaced.metric, unit),
        phrases::without_stop(&gap_in_words(&replaced.why, unit))
    ))
}

/// The label of the line of this machine's highest rates; `kind` is none where it differs between points.
pub(crate) fn ceiling(kind: Option<CeilingKind>) -> &'static str {
    match kind {
        Some(CeilingKind::UserCopy) => "memcpy by one core",
        Some(CeilingKind::KernelRead) => "one core's copy out of the kernel",
        Some(CeilingKind::KernelWrite) => "one core's copy into the kernel",
        Some(CeilingKind::DiskSequential) => "this disk in order",
        Some(CeilingKind::DiskRandom) => "this disk in random order",
        None => "the most that was reached here",
    }
}
