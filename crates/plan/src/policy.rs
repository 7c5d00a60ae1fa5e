//! The policy of a run: to measure a block, to measure it again, to give a cell up, to begin a round, or to
//! end. The command measures and appends; it decides nothing.

use std::time::Duration;

use bytecost_spec::Study;
use bytecost_spec::sample::{Block, GROWING_BLOCKS, Repeat};

/// The first blocks, in which windows may become longer even if the budget does not pay for it.
const FIRST_BLOCKS: u32 = 2;
/// A cell that failed so often, and never gave a sample, is not tried again.
const MAX_FAILURES: u32 = 3;
/// The same bound after the end of the budget.
const MAX_FAILURES_OVER_BUDGET: u32 = 1;
/// Share of the budget that may go into blocks that are measured again: where other programs do not end,
/// repeats only spend the budget.
const REPEATS_SHARE: f64 = 0.1;

/// The progress of a run, as far as the policy needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The next block.
    pub block: u32,
    /// The first block of the current leg; those of earlier legs do not change.
    pub leg_first_block: u32,
    /// The first block from which on all trials of all cells count.
    pub all_count_from: u32,
    /// The number of the current round, from 0.
    pub round: u32,
    /// Its first block.
    pub round_first_block: u32,
    /// Cells of the next block that are not yet measured; none for a block beyond the plan.
    pub cells_left: Option<usize>,
    /// True if a trial of that block was made.
    pub has_begun: bool,
    /// Number of cells in the plan.
    pub cells: usize,
    /// True if all intervals are as narrow as the study requires.
    pub is_precise: bool,
    /// The part of the budget that is spent, in ms.
    pub spent_ms: u64,
    /// Duration of a trial, in ms.
    pub trial_ms: u64,
}

/// The next step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Measures the remaining cells of the block.
    Block {
        /// True if a window in which nothing moved becomes longer, which discards the cell's earlier
        /// trials; otherwise such a trial has failed.
        windows_may_grow: bool,
    },
    /// Continues with the next block, as this one is complete.
    NextBlock,
    /// Pauses, and begins another round with this block.
    Round,
    /// Ends the run.
    Stop(Reason),
}

/// The reason for which a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The limit of blocks, or the end of the plan, is reached.
    Blocks,
    /// Every remaining cell has failed too often.
    GivenUp,
    /// All intervals are narrow enough.
    Precise,
    /// The next block would exceed the budget.
    Budget,
}

/// Decides the next step of a run. It ends when it is precise, never when it is significant; the fewest
/// blocks of the study are measured in any case.
pub fn next(study: &Study, p: &Progress) -> Next {
    let most = study.blocks_most.saturating_add(p.all_count_from);
    let Some(cells_left) = p.cells_left.filter(|_| p.block < most) else {
        return Next::Stop(Reason::Blocks);
    };
    if cells_left == 0 {
        return if p.has_begun {
            Next::NextBlock
        } else {
            Next::Stop(Reason::GivenUp)
        };
    }
    let ends_ms = p
        .spent_ms
        .saturating_add(p.trial_ms.saturating_mul(cells_left as u64));
    let in_round = p.block.saturating_sub(p.round_first_block);
    let has_round = in_round >= study.round_blocks_least();
    if has_round && is_round_over(study, p, ends_ms) {
        return Next::Round;
    }
    let counting = p.block.saturating_sub(p.all_count_from);
    if has_round && counting >= study.blocks_least {
        if p.is_precise {
            return Next::Stop(Reason::Precise);
        }
        if ends_ms > study.budget_ms {
            return Next::Stop(Reason::Budget);
        }
    }
    Next::Block {
        windows_may_grow: p.round == 0 && may_grow(study, p),
    }
}

/// Returns true if another round follows and this one is complete: its intervals are narrow enough, or its
/// share of the budget or of the blocks is used.
fn is_round_over(study: &Study, p: &Progress, ends_ms: u64) -> bool {
    let Some(rounds) = study.rounds.filter(|rounds| p.round + 1 < rounds.count) else {
        return false;
    };
    let share = f64::from(p.round + 1) / f64::from(rounds.count);
    p.is_precise
        || ends_ms as f64 > study.budget_ms as f64 * share
        || f64::from(p.block) >= f64::from(study.blocks_most) * share
}

/// Returns true in the first blocks, and in a few more if the remaining budget pays for the fewest blocks
/// again.
fn may_grow(study: &Study, p: &Progress) -> bool {
    let blocks = p.block.saturating_sub(p.leg_first_block);
    let block_ms = p.trial_ms.saturating_mul(p.cells as u64);
    let needed_ms = block_ms.saturating_mul(u64::from(study.blocks_least));
    let left_ms = study.budget_ms.saturating_sub(p.spent_ms);
    blocks < FIRST_BLOCKS || blocks < GROWING_BLOCKS && needed_ms <= left_ms
}

/// Returns true if a cell without a sample has failed as often as a run tries it.
pub fn is_given_up(study: &Study, failures: u32, spent_ms: u64) -> bool {
    let max = if spent_ms > study.budget_ms {
        MAX_FAILURES_OVER_BUDGET
    } else {
        MAX_FAILURES
    };
    failures >= max
}

/// The reason to measure a block again: other programs used CPUs, or the run was stopped in it. None if the
/// block counts, or if no more may be repeated after repeats of the length `spent_on_repeats`.
pub fn repeat(study: &Study, block: &Block, spent_on_repeats: Duration) -> Option<Repeat> {
    let for_repeats = Duration::from_millis(study.budget_ms).mul_f64(REPEATS_SHARE);
    let may_repeat =
        block.attempt < study.repeats_most && spent_on_repeats + running_time(block) <= for_repeats;
    disturbance(block, study.foreign_cpus).filter(|_| may_repeat)
}

fn disturbance(block: &Block, foreign_cpus: f64) -> Option<Repeat> {
    if block.stopped_ns > 0 {
        let ms = block.stopped_ns.div_ceil(1_000_000);
        return Some(Repeat::Stopped { ms });
    }
    let cpus = block.other_cpus();
    (cpus > foreign_cpus).then_some(Repeat::OtherProcesses {
        cpus_thousandths: (cpus * 1e3) as u64,
    })
}

/// The length of a block without the time for which it was stopped.
pub fn running_time(block: &Block) -> Duration {
    Duration::from_nanos(block.elapsed_ns.saturating_sub(block.stopped_ns))
}

#[cfg(test)]
mod tests {
    use bytecost_spec::study::PlannedRounds;

    use super::*;
    use crate::tests::STUDY;

    fn study(rounds: Option<u32>) -> Study {
        Study {
            budget_ms: 10_000,
            blocks_least: 8,
            blocks_most: 40,
            rounds: rounds.map(|count| PlannedRounds {
                count,
                pause_ms: 1000,
            }),
            ..Study::parse(STUDY).unwrap()
        }
    }

    /// Before block 10 of 40, when 2 of 10 s are spent.
    fn progress() -> Progress {
        Progress {
            block: 10,
            leg_first_block: 0,
            all_count_from: 0,
            round: 0,
            round_first_block: 0,
            cells_left: Some(2),
            has_begun: false,
            cells: 2,
            is_precise: false,
            spent_ms: 2000,
            trial_ms: 100,
        }
    }

    /// A change of [`progress`] with the expected next step, named in the first column.
    type Row = (&'static str, fn(&mut Progress), Next);

    fn check(study: &Study, rows: &[Row]) {
        for (name, change, expected) in rows {
            let mut p = progress();
            change(&mut p);
            assert_eq!(next(study, &p), *expected, "{name}");
        }
    }

    const BLOCK: Next = Next::Block {
        windows_may_grow: false,
    };
    const GROWING: Next = Next::Block {
        windows_may_grow: true,
    };

    #[test]
    fn a_run_continues_until_it_is_precise_or_at_a_limit() {
        let rows: &[Row] = &[
            ("nothing is reached", |_| {}, BLOCK),
            (
                "precise",
                |p| p.is_precise = true,
                Next::Stop(Reason::Precise),
            ),
            (
                "precise, too few blocks",
                |p| (p.is_precise, p.block) = (true, 7),
                BLOCK,
            ),
            (
                "too few count",
                |p| (p.is_precise, p.all_count_from) = (true, 3),
                BLOCK,
            ),
            ("room for a block", |p| p.spent_ms = 9800, BLOCK),
            ("budget", |p| p.spent_ms = 9801, Next::Stop(Reason::Budget)),
            (
                "budget, too few blocks",
                |p| (p.spent_ms, p.block) = (9801, 7),
                BLOCK,
            ),
            ("blocks", |p| p.block = 40, Next::Stop(Reason::Blocks)),
            (
                "blocks that do not count",
                |p| (p.block, p.all_count_from) = (40, 2),
                BLOCK,
            ),
            (
                "beyond the plan",
                |p| p.cells_left = None,
                Next::Stop(Reason::Blocks),
            ),
            (
                "all given up",
                |p| p.cells_left = Some(0),
                Next::Stop(Reason::GivenUp),
            ),
            (
                "a whole block",
                |p| (p.cells_left, p.has_begun) = (Some(0), true),
                Next::NextBlock,
            ),
        ];
        check(&study(None), rows);
    }

    #[test]
    fn a_round_ends_with_its_share_and_the_last_one_with_the_run() {
        let rows: &[Row] = &[
            ("within its share", |_| {}, BLOCK),
            (
                "its share of the budget",
                |p| p.spent_ms = 4900,
                Next::Round,
            ),
            ("its share of the blocks", |p| p.block = 20, Next::Round),
            ("precise", |p| p.is_precise = true, Next::Round),
            (
                "too few blocks",
                |p| (p.round_first_block, p.is_precise) = (8, true),
                BLOCK,
            ),
            (
                "the last one",
                |p| (p.round, p.round_first_block, p.is_precise) = (1, 5, true),
                Next::Stop(Reason::Precise),
            ),
        ];
        check(&study(Some(2)), rows);
    }

    #[test]
    fn windows_grow_in_the_first_blocks_of_the_first_round() {
        let rows: &[Row] = &[
            (
                "the first block",
                |p| (p.block, p.spent_ms) = (0, 9000),
                GROWING,
            ),
            ("the third, and time is left", |p| p.block = 2, GROWING),
            (
                "the third, and none is left",
                |p| (p.block, p.spent_ms) = (2, 8500),
                BLOCK,
            ),
            ("the seventh", |p| p.block = 6, BLOCK),
            ("the first of a leg", |p| p.leg_first_block = 10, GROWING),
            ("another round", |p| (p.block, p.round) = (2, 1), BLOCK),
        ];
        check(&study(None), rows);
    }

    #[test]
    fn a_cell_is_given_up_after_three_failures_and_after_one_beyond_the_budget() {
        for (failures, spent_ms, expected) in [
            (2, 10_000, false),
            (3, 10_000, true),
            (0, 10_001, false),
            (1, 10_001, true),
        ] {
            assert_eq!(is_given_up(&study(None), failures, spent_ms), expected);
        }
    }

    const SECOND: u64 = 1_000_000_000;

    /// A block of 2 s, in which others used so much CPU time.
    fn block(attempt: u32, others_ns: u64, stopped_ns: u64) -> Block {
        Block {
            attempt,
            elapsed_ns: 2 * SECOND + stopped_ns,
            others_ns,
            stopped_ns,
            ..Block::default()
        }
    }

    #[test]
    fn a_block_is_measured_again_that_others_or_a_stop_disturbed() {
        let study = Study {
            budget_ms: 50_000,
            foreign_cpus: 0.1,
            repeats_most: 2,
            ..study(None)
        };
        let by_others = || {
            Some(Repeat::OtherProcesses {
                cpus_thousandths: 500,
            })
        };
        let stopped = Some(Repeat::Stopped { ms: 1 });
        for (name, block, spent_s, expected) in [
            ("little by others", block(0, SECOND / 10, 0), 0, None),
            ("much by others", block(0, SECOND, 0), 0, by_others()),
            ("once again", block(1, SECOND, 0), 0, by_others()),
            ("as often as it may be", block(2, SECOND, 0), 0, None),
            ("stopped", block(0, SECOND, 1), 0, stopped),
            ("time is left for it", block(0, SECOND, 0), 3, by_others()),
            ("no time is left for it", block(0, SECOND, 0), 4, None),
            (
                "a stop costs no time",
                block(0, SECOND, 100 * SECOND),
                3,
                Some(Repeat::Stopped { ms: 100_000 }),
            ),
        ] {
            let reason = repeat(&study, &block, Duration::from_secs(spent_s));
            assert_eq!(reason, expected, "{name}");
        }
    }
}
