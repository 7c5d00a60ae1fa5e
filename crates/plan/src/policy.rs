//! The policy of a run: to measure a block, to begin a round, or to end. The command measures and appends;
//! it decides nothing.

use bytecost_spec::Study;
use bytecost_spec::sample::GROWING_BLOCKS;

/// The first blocks, in which windows may become longer even if the budget does not pay for it.
const FIRST_BLOCKS: u32 = 2;

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
}
