//! The reason in words for which a run has no comparison.

use bytecost_analysis::NothingCompared;
use bytecost_spec::units::count;

use crate::phrases::without_stop;

/// The sentence about a run without comparisons, without its full stop.
pub(super) fn sentence(why: &NothingCompared) -> String {
    let not_measured = |reason: &str| format!("Nothing was measured: {}", without_stop(reason));
    match why {
        NothingCompared::NoCells => not_measured(
            "no cell of the study is available on this machine; the refusals say why",
        ),
        NothingCompared::NoTrials => not_measured("no trial was run"),
        NothingCompared::EveryTrialFailed(reason) => {
            not_measured(&format!("every trial failed, the first with: {reason}"))
        }
        NothingCompared::EndedEarly(reason) => not_measured(reason),
        NothingCompared::StudyComparesNothing => {
            "The study compares nothing; the numbers of its cells stand by themselves".to_owned()
        }
        NothingCompared::BaselineNotMeasured(axis, value) => {
            let baseline = axis.subject(value);
            format!("Nothing can be compared: the baseline {baseline} has no trial")
        }
        NothingCompared::BaselineAlone {
            axis,
            baseline,
            is_over_budget,
        } => {
            let limit = if *is_over_budget {
                "; the budget did not reach the others (--budget)"
            } else {
                ""
            };
            let baseline = axis.subject(baseline);
            format!("Nothing was compared: {baseline} alone was measured{limit}")
        }
        NothingCompared::FewBlocks { blocks, needed } => {
            let blocks = count(*blocks, "block");
            format!(
                "Nothing can be compared yet: the run has {blocks}, a comparison takes {needed}"
            )
        }
        NothingCompared::NoCommonMetric => {
            "Nothing could be compared: no metric of the study was measured on both sides of a comparison".to_owned()
        }
    }
}
