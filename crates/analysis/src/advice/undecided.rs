//! The comparisons that a run does not decide, and the command of a run that would.

use std::time::Duration;

use bytecost_spec::study::{Compare, Family};
use bytecost_spec::units;
use bytecost_stats::median;
use itertools::Itertools as _;

use crate::command::{RecordedCommand, RunOption};
use crate::confidence::FEWEST;
use crate::result::{Finding, NothingCompared, Undecided, UndecidedOf, Verdict};
use crate::stages::Explained;
use crate::trials::CellTrials;

/// The rounds that are proposed where ratios differ from round to round, and the pauses between them.
const ROUNDS: &str = "5";
const PAUSE: &str = "2min";
/// Times as long as this run that a longer one may be asked for.
const LONGER: usize = 20;

/// The undecided comparisons, and the command of a new run that would decide most of them at the
/// corrected level. The command is for the primary ones, or for the secondary ones where no primary one
/// is open.
pub(super) fn undecided(run: &Explained<'_>) -> Option<Undecided> {
    let judged = || (run.judged.findings.iter()).filter(|f| f.verdict != Verdict::NotJudged);
    let withheld = judged().filter(|f| f.withheld.is_some()).count();
    let asks = judged()
        .filter(|f| f.is_undecided())
        .map(|f| f.family)
        .min();
    if asks.is_none() && withheld == 0 {
        return None;
    }
    let of = |family: Family| judged().filter(move |f| f.family == family);
    let by_family = [Family::Primary, Family::Secondary].map(|family| UndecidedOf {
        family,
        undecided: of(family).filter(|f| f.is_undecided()).count(),
        comparisons: of(family).count(),
    });
    let asks = asks.unwrap_or_default();
    let open: Vec<&Finding> = of(asks).filter(|f| f.is_undecided()).collect();
    let blocks = open.iter().map(|f| f.blocks).max().unwrap_or(0);
    let needed = open
        .iter()
        .filter_map(|f| Some(f.blocks_needed? as usize))
        .filter(|n| *n <= LONGER * blocks)
        .collect_vec();
    let most = needed.iter().copied().max();
    // What is before the first trial and after the last takes its time too.
    let spent = run.measured.input.manifest.study.budget_ms as f64 / 1e3;
    let in_tens =
        |total: usize| (spent * total as f64 / blocks.max(1) as f64 / 10.0).ceil() as u64 * 10;
    let prevented = open.iter().filter(|f| f.rounds_prevent).collect_vec();
    let between = prevented.iter().map(|f| f.between_deviation).collect_vec();
    let most = most.filter(|_| needed.len() >= prevented.len());
    let seconds = most.map(in_tens);
    // A publication's own way of measuring has no rounds.
    let is_helped_by_rounds =
        !prevented.is_empty() && run.measured.input.manifest.study.design.is_none();
    let command = match most {
        Some(most) => Some(longer(run, in_tens(most), most)),
        None => is_helped_by_rounds.then(|| in_rounds(run)),
    };
    let by_family = by_family.into_iter().filter(|own| own.comparisons > 0);
    Some(Undecided {
        by_family: by_family.collect(),
        withheld,
        asks,
        would_decide: needed.len(),
        rounds_prevent: prevented.len(),
        between_deviation: median(&between),
        seconds,
        command,
    })
}

/// The run's own command with a larger budget; a resumed run would look twice at the same.
fn longer(run: &Explained<'_>, seconds: u64, blocks: usize) -> String {
    let manifest = run.measured.input.manifest;
    let budget = units::duration(Duration::from_secs(seconds));
    let is_above_most = blocks > manifest.study.blocks_most as usize;
    let blocks = is_above_most.then(|| (RunOption::Blocks, blocks.to_string()));
    let options = std::iter::once((RunOption::Budget, budget)).chain(blocks);
    let replaced = [RunOption::Budget, RunOption::Blocks];
    let recorded = RecordedCommand::new(&manifest.command);
    recorded.with(&manifest.study.name, &replaced, &options.collect_vec())
}

/// The run's own command in rounds, each of which has a least number of blocks.
fn in_rounds(run: &Explained<'_>) -> String {
    let manifest = run.measured.input.manifest;
    let rounds = [(RunOption::Rounds, ROUNDS), (RunOption::Pause, PAUSE)];
    let options = rounds.map(|(option, value)| (option, value.to_owned()));
    let replaced = [RunOption::Rounds, RunOption::Pause, RunOption::Blocks];
    let recorded = RecordedCommand::new(&manifest.command);
    recorded.with(&manifest.study.name, &replaced, &options)
}

/// The reason for which a run without findings has none.
pub(super) fn why_nothing(run: &Explained<'_>) -> NothingCompared {
    let input = run.measured.input;
    if input.samples.is_empty() {
        let failed = input
            .failures
            .first()
            .map(|f| NothingCompared::EveryTrialFailed(f.reason.clone()));
        let ended = input.ended_early.map(str::to_owned);
        return match failed.or(ended.map(NothingCompared::EndedEarly)) {
            Some(why) => why,
            None if run.measured.trials.cells.is_empty() => NothingCompared::NoCells,
            None => NothingCompared::NoTrials,
        };
    }
    let Some(Compare { axis, baseline, .. }) = input.manifest.study.compare.first() else {
        return NothingCompared::StudyComparesNothing;
    };
    let is_baseline = |c: &CellTrials<'_>| c.cell.value(*axis) == *baseline;
    if !run.measured.trials.measured().any(is_baseline) {
        return NothingCompared::BaselineNotMeasured(*axis, baseline.clone());
    }
    if run.measured.trials.measured().all(is_baseline) {
        return NothingCompared::BaselineAlone {
            axis: *axis,
            baseline: baseline.clone(),
            is_over_budget: !input.left_out.is_empty(),
        };
    }
    match run
        .measured
        .trials
        .measured()
        .map(|c| c.by_block.len())
        .min()
        .unwrap_or(0)
    {
        blocks if blocks < FEWEST => NothingCompared::FewBlocks {
            blocks,
            needed: FEWEST,
        },
        _ => NothingCompared::NoCommonMetric,
    }
}
