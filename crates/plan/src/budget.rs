//! The cells that the budget pays for: whole tiers in their order, and of the first tier a part that fits.

use std::collections::HashMap;
use std::time::Duration;

use bytecost_spec::axis::AXES;
use bytecost_spec::manifest::Expectation;
use bytecost_spec::survey::InFlight;
use bytecost_spec::{Axis, Cache, Cell, LeftOut, Pattern, Study, Survey, Value, units};
use itertools::Itertools as _;

use crate::candidates::{Candidate, has_peer};
use crate::power::{BlockLength, Power, Primaries};
use crate::twins::Baselines;

/// Assumed time of a trial in addition to warm-up and window, in ms: to start two processes, connect,
/// check and read. Plans alone use it: a run is stopped by the clock.
pub(crate) const OVERHEAD_MS: u64 = 14;
/// Warm-ups of the study that a TCP stream takes on average before its rate is steady.
const GROWING_WARMUPS: u64 = 2;
/// Assumed additional time of a trial with a server, in ms: a third process, and the notification of its
/// window.
const SERVED_MS: u64 = 15;
/// Assumed additional time of each connection to a server, in µs.
const CONNECTION_US: u64 = 100;

/// Share of the budget that the study's fewest blocks may take, in percent; the remainder is for repeated
/// trials and for the end of the run.
const SHARE_PERCENT: u64 = 90;
/// Percentage of that share which cells of no primary comparison may take if the primary comparisons do
/// not get the blocks that they need.
const SECONDARY_PERCENT: u64 = 25;
const DAY_MS: u64 = 86_400_000;
/// Size in bytes from which on the duration of a trial depends on that of its messages.
const LONG_BYTES: u64 = 4 << 20;
/// Assumed rate of such messages from memory, in bytes per ms.
const BYTES_PER_MS: u64 = 1_500_000;
/// Assumed rate of a cold file, from a disk, in bytes per ms.
const COLD_BYTES_PER_MS: u64 = 500_000;
/// Fewest passes of a trial over a cold file, or fewest long messages: one before the window, and one
/// within it.
const PASSES_LEAST: u64 = 2;

/// Assumed additional time of a mover's own program in a trial, in ms, to start and to warm up.
const HELPER_MS: u64 = 200;

/// The assumed durations of trials, and the budget that pays for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price<'a> {
    pub(crate) study: &'a Study,
    pub(crate) survey: &'a Survey,
    /// Least duration of a trial.
    pub(crate) trial_ms: u64,
    pub(crate) blocks_least: u32,
}

/// The primary comparisons of a study, and the power to decide them.
#[derive(Clone, Copy)]
pub(crate) struct Decision<'d> {
    pub(crate) power: Power<'d>,
    pub(crate) primaries: &'d Primaries,
}

/// The cells that a run measures, and those that the budget does not pay for.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) chosen: Vec<Cell>,
    /// Baselines that each block measures a second time.
    pub(crate) twins: Vec<Cell>,
    /// Cells that the budget does not pay for, by tier.
    pub(crate) left: Vec<Left>,
    pub(crate) notes: Vec<String>,
    pub(crate) expectation: Option<Expectation>,
}

impl Choice {
    /// Puts a cell before all others, instead of where it would be measured or left out.
    pub(crate) fn put_first(&mut self, cell: Cell) {
        self.chosen.retain(|chosen| *chosen != cell);
        for left in &mut self.left {
            left.cells.retain(|left| *left != cell);
        }
        self.left.retain(|left| !left.cells.is_empty());
        self.chosen.insert(0, cell);
    }
}

/// The cells of a tier that the budget does not pay for.
#[derive(Debug)]
pub(crate) struct Left {
    tier: usize,
    pub(crate) cells: Vec<Cell>,
    /// Duration of a block with all cells up to the end of this tier, in ms.
    reach_ms: u64,
}

/// Returns true if messages of the cell are long, so that a trial lasts as long as a few of them.
pub(crate) fn is_long(cell: &Cell) -> bool {
    cell.size_bytes >= LONG_BYTES
}

impl Price<'_> {
    /// The part of the budget that is for the fewest blocks, in ms.
    fn time_ms(&self) -> u64 {
        let time = u128::from(self.study.budget_ms) * u128::from(SHARE_PERCENT) / 100;
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// The longest block, in ms, for which the budget pays as often as the study's fewest blocks.
    fn block_ms(&self) -> u64 {
        self.time_ms() / u64::from(self.blocks_least.max(1))
    }

    /// Assumed duration of a trial of a cell, in ms.
    pub(crate) fn cell_ms(&self, cell: &Cell) -> u64 {
        if cell.is_served() {
            let connect_us = cell.serving.all_connections() * CONNECTION_US;
            return self.trial_ms + SERVED_MS + connect_us / 1000;
        }
        let mover = self.survey.mover(&cell.mover);
        let helper_ms = match mover.map(|m| m.in_flight) {
            Some(InFlight::OneByProcess) => HELPER_MS,
            _ => 0,
        };
        self.moving_ms(cell) + helper_ms
    }

    /// Assumed duration of a trial without a server, the mover's own program not included, in ms.
    fn moving_ms(&self, cell: &Cell) -> u64 {
        let mover = self.survey.mover(&cell.mover);
        let sends = mover.is_some_and(|m| m.sends_a_file());
        let (bytes, bytes_per_ms) = match (sends && cell.cache == Cache::Cold, is_long(cell)) {
            (true, _) => (
                cell.ring_slots().saturating_mul(cell.size_bytes),
                COLD_BYTES_PER_MS,
            ),
            (false, true) => (cell.size_bytes, BYTES_PER_MS),
            (false, false) => return self.trial_ms.saturating_add(self.growing_ms(cell)),
        };
        let pass_ms = bytes.saturating_mul(u64::from(cell.threads)) / bytes_per_ms;
        let passes_ms = PASSES_LEAST.saturating_mul(pass_ms);
        self.trial_ms.max(passes_ms + OVERHEAD_MS)
    }

    /// Time in which the rate of a TCP stream grows after the study's warm-up, in ms.
    fn growing_ms(&self, cell: &Cell) -> u64 {
        let may_grow = cell.transport.is_tcp() && cell.pattern == Pattern::Stream;
        if may_grow && has_peer(self.survey, cell) {
            (self.study.warmup_ms).saturating_mul(GROWING_WARMUPS - 1)
        } else {
            0
        }
    }

    /// Assumed duration of a trial of each cell, in ms, sum over the cells.
    pub(crate) fn cells_ms<'c>(&self, cells: impl IntoIterator<Item = &'c Cell>) -> u64 {
        (cells.into_iter().map(|cell| self.cell_ms(cell))).fold(0, u64::saturating_add)
    }

    /// The budget that pays for the fewest blocks of this duration, as `--budget` takes it: in s, or
    /// from two minutes on in min. None for more than a day.
    fn budget_for(&self, block_ms: u64) -> Option<String> {
        let ms = u128::from(block_ms) * u128::from(self.blocks_least) * 100;
        let seconds = u64::try_from(ms.div_ceil(u128::from(SHARE_PERCENT) * 1000)).ok()?;
        if seconds.checked_mul(1000)? > DAY_MS {
            return None;
        }
        Some(if seconds > 120 {
            format!("{}m", seconds.div_ceil(60))
        } else {
            format!("{seconds}s")
        })
    }
}

/// Durations of the candidates' trials, by index.
struct Costs<'c> {
    ms: Vec<u64>,
    /// Duration of a block's trials that are paid for in any case.
    besides_ms: u64,
    baselines: &'c Baselines,
}

impl Costs<'_> {
    fn cells_ms(&self, indices: &[usize]) -> u64 {
        (indices.iter().map(|&i| self.ms[i])).fold(0, u64::saturating_add)
    }

    /// Duration of trials of these cells and of their baselines' twins, in ms.
    fn with_twins_ms(&self, indices: &[usize]) -> u64 {
        let twins = self.baselines.among(indices).indices;
        self.cells_ms(indices).saturating_add(self.cells_ms(&twins))
    }

    /// Number of primary comparisons among these cells, and the duration of a block.
    fn primary(&self, indices: &[usize], primaries: &Primaries) -> (u32, BlockLength) {
        let (count, cells) = primaries.among(indices);
        let twins = self.baselines.among(indices).indices.into_iter();
        let of_primaries: Vec<usize> = (indices.iter().copied())
            .chain(twins)
            .filter(|index| cells.contains(index))
            .collect();
        let length = BlockLength {
            all_ms: self.besides_ms.saturating_add(self.with_twins_ms(indices)),
            primary_ms: self.cells_ms(&of_primaries),
        };
        (count, length)
    }
}

/// The least time of all blocks, in ms, with which cells of no primary comparison are measured: the
/// fewest blocks of these cells take [`SECONDARY_PERCENT`] of it.
fn share_ms(length: BlockLength, study: &Study) -> u64 {
    let others_ms = length.all_ms.saturating_sub(length.primary_ms);
    let blocks_ms = others_ms.saturating_mul(u64::from(study.blocks_least));
    blocks_ms.saturating_mul(100) / SECONDARY_PERCENT
}

/// Chooses from candidates by tier; `besides` cells are paid for in any case. The first tier's twins
/// are paid for before the cells and twins of another tier.
pub(crate) fn choose(
    candidates: &[Candidate],
    price: Price<'_>,
    besides: usize,
    baselines: &Baselines,
    decision: Option<Decision<'_>>,
) -> Choice {
    let chooser = Chooser {
        candidates,
        price,
        costs: Costs {
            ms: candidates.iter().map(|c| price.cell_ms(&c.cell)).collect(),
            besides_ms: price.trial_ms.saturating_mul(besides as u64),
            baselines,
        },
        decision,
    };
    let mut choice = Choice::default();
    let chosen = chooser.choose_tiers(&mut choice);
    chooser.choose_twins(&chosen, &mut choice);
    choice.expectation = decision.map(|Decision { power, primaries }| {
        let (count, length) = chooser.costs.primary(&chosen, primaries);
        power.expectation(power.blocks(length, price.time_ms()), count)
    });
    choice.chosen = chooser.cells(&chosen);
    choice
}

/// The candidates with all that decides which of them are chosen.
struct Chooser<'c> {
    candidates: &'c [Candidate],
    price: Price<'c>,
    costs: Costs<'c>,
    decision: Option<Decision<'c>>,
}

impl Chooser<'_> {
    fn cells(&self, indices: &[usize]) -> Vec<Cell> {
        (indices.iter())
            .map(|&i| self.candidates[i].cell.clone())
            .collect()
    }

    /// Time that a block has for candidates, in ms.
    fn room_ms(&self) -> u64 {
        self.price.block_ms().saturating_sub(self.costs.besides_ms)
    }

    /// The indices of the chosen cells: tiers as long as there is room, and a part of the first one if
    /// there is none. Writes the cells that are left out, with a note.
    fn choose_tiers(&self, choice: &mut Choice) -> Vec<usize> {
        let study = self.price.study;
        let mut chosen: Vec<usize> = Vec::new();
        let mut end = 0;
        for tier in self.candidates.chunk_by(|a, b| a.tier == b.tier) {
            let number = tier[0].tier;
            let indices: Vec<usize> = (end..end + tier.len()).collect();
            end += tier.len();
            let with_tier = [&chosen[..], &indices].concat();
            let is_first = choice.left.is_empty() && chosen.is_empty();
            if choice.left.is_empty() && self.has_room(is_first, &chosen, &with_tier) {
                chosen = with_tier;
                continue;
            }
            let (kept, rest) = if is_first {
                thin(&self.cells(&indices), study, &self.costs, self.room_ms())
            } else {
                (Vec::new(), indices)
            };
            if is_first && !rest.is_empty() {
                let title = &study.tiers[number].title;
                let kept_ms = (self.costs.besides_ms).saturating_add(self.costs.cells_ms(&kept));
                let note = cut_note(title, kept.len(), rest.len(), self.price, kept_ms);
                choice.notes.push(note);
            }
            chosen.extend(kept);
            choice.left.push(Left {
                tier: number,
                cells: self.cells(&rest),
                reach_ms: self.reach_ms(end),
            });
        }
        choice.left.retain(|left| !left.cells.is_empty());
        chosen
    }

    /// Returns true if a block has room for the chosen cells together with a tier.
    fn has_room(&self, is_first: bool, chosen: &[usize], with_tier: &[usize]) -> bool {
        if is_first {
            return self.costs.cells_ms(with_tier) <= self.room_ms();
        }
        self.costs.with_twins_ms(with_tier) <= self.room_ms()
            && (self.decision).is_none_or(|d| self.is_affordable(d, chosen, with_tier))
    }

    /// Returns true if a tier adds a primary comparison, or takes little of the time of the primary
    /// comparisons, or if these detect the study's smallest effect all the same.
    fn is_affordable(&self, decision: Decision<'_>, chosen: &[usize], with_tier: &[usize]) -> bool {
        let Decision { power, primaries } = decision;
        let (before, _) = self.costs.primary(chosen, primaries);
        let (count, length) = self.costs.primary(with_tier, primaries);
        let time_ms = self.price.time_ms();
        count > before
            || count == 0
            || share_ms(length, power.study) <= time_ms
            || power.reaches(power.blocks(length, time_ms), count)
    }

    /// Duration of a block, in ms, at which a budget pays for the first `count` candidates.
    fn reach_ms(&self, count: usize) -> u64 {
        let indices: Vec<usize> = (0..count).collect();
        let all_ms = (self.costs.besides_ms).saturating_add(self.costs.with_twins_ms(&indices));
        let share_ms = self.decision.map_or(0, |decision| {
            let (_, length) = self.costs.primary(&indices, decision.primaries);
            share_ms(length, self.price.study).div_ceil(u64::from(self.price.blocks_least.max(1)))
        });
        all_ms.max(share_ms)
    }

    /// Writes the twins of the chosen cells' baselines, as many as there is room for, with a note on
    /// the others.
    fn choose_twins(&self, chosen: &[usize], choice: &mut Choice) {
        let mut twinned = self.costs.baselines.among(chosen);
        let count = twinned.indices.len();
        let chosen_ms = self.costs.cells_ms(chosen);
        while !twinned.indices.is_empty()
            && chosen_ms + self.costs.cells_ms(&twinned.indices) > self.room_ms()
        {
            twinned.indices.pop();
        }
        let note = twins_note(self.price.study, twinned.cut, twinned.indices.len(), count);
        choice.notes.extend(note);
        choice.twins = self.cells(&twinned.indices);
        for twin in &mut choice.twins {
            twin.twin = true;
        }
    }
}

/// The note on baselines that are measured only once: those that would bring too many twins, or that
/// the budget does not pay for.
fn twins_note(study: &Study, cut: Option<usize>, kept: usize, all: usize) -> Option<String> {
    if kept < all {
        return Some(format!(
            "twins: the budget pays for {kept} of {all}; the other baselines are measured once in a block"
        ));
    }
    let compared = study.compare[..cut?].iter();
    Some(format!(
        "twins: only the baselines of the comparison over {} are measured twice in a block; with all others more than a third of the trials would be of twins",
        compared.map(|c| c.axis.name()).dedup().join(", ")
    ))
}

/// The cells that are left out of the measured ones, with the option that includes them.
pub(crate) fn left_out(left: &[Left], measured: &[Cell], price: Price<'_>) -> Vec<LeftOut> {
    left.iter()
        .map(|left| LeftOut {
            what: in_words(&price.study.tiers[left.tier].title, &left.cells, measured),
            values: unmeasured(&left.cells, measured),
            cells: left.cells.len(),
            why: format!(
                "the budget of {} pays for {} with {} blocks each: {}",
                units::duration(Duration::from_millis(price.study.budget_ms)),
                units::count(measured.len(), "cell"),
                price.blocks_least,
                match price.budget_for(left.reach_ms) {
                    Some(budget) => format!("`--budget {budget}` brings them in"),
                    None => "more than a day would bring them in; name fewer values".to_owned(),
                }
            ),
        })
        .collect()
}

fn cut_note(title: &str, kept: usize, cut: usize, price: Price<'_>, kept_ms: u64) -> String {
    let needed_ms = kept_ms.saturating_mul(u64::from(price.blocks_least));
    let over = if needed_ms > price.study.budget_ms {
        "; even these take longer than the budget"
    } else {
        ""
    };
    format!(
        "the budget of {} is too short for the first part of the study (\"{title}\"): {kept} of {} are measured{over}",
        units::duration(Duration::from_millis(price.study.budget_ms)),
        units::count(kept + cut, "cell"),
    )
}

/// Reduces the first tier to `room_ms` per block. First the axes that nothing is compared over lose
/// values: the axis with the most values first, and so that the kept values stay evenly spread, ends
/// included. If one value of each axis is still too much, cells are dropped, those that are baselines
/// last; at least two cells are kept for a comparison. Returns the indices of the kept cells and of the
/// dropped ones.
fn thin(
    cells: &[Cell],
    study: &Study,
    costs: &Costs<'_>,
    room_ms: u64,
) -> (Vec<usize>, Vec<usize>) {
    let fits = |kept: &[usize]| costs.cells_ms(kept) <= room_ms;
    let mut columns: Vec<Column> = AXES
        .iter()
        .map(|row| row.axis)
        .filter(|axis| study.compare.iter().all(|c| c.axis != *axis))
        .map(|axis| Column::new(axis, cells))
        .collect();
    let mut kept: Vec<usize> = (0..cells.len()).collect();
    while !fits(&kept) {
        let Some(widest) = columns.iter_mut().max_by_key(|c| c.keep) else {
            break;
        };
        if widest.keep < 2 {
            break;
        }
        widest.keep -= 1;
        let masks: Vec<Vec<bool>> = columns.iter().map(Column::mask).collect();
        let stays = |&i: &usize| columns.iter().zip(&masks).all(|(c, m)| m[c.value_of[i]]);
        let fewer: Vec<usize> = (0..cells.len()).filter(stays).collect();
        if fewer.is_empty() {
            break; // a grid with holes: no cell has all these values
        }
        kept = fewer;
    }
    let least = if study.compare.is_empty() { 1 } else { 2 };
    if !fits(&kept) {
        // Cells that are the baseline in most comparisons come first.
        kept.sort_by_key(|&i| {
            (study.compare.iter())
                .filter(|c| cells[i].value(c.axis) != c.baseline)
                .count()
        });
        while kept.len() > least && !fits(&kept) {
            kept.pop();
        }
        kept.sort_unstable();
    }
    let rest = (0..cells.len())
        .filter(|i| kept.binary_search(i).is_err())
        .collect();
    (kept, rest)
}

/// An axis of the first tier, and the number of its values that are kept.
struct Column {
    axis: Axis,
    values: Vec<Value>,
    /// For each cell, the index of its value.
    value_of: Vec<usize>,
    keep: usize,
}

impl Column {
    fn new(axis: Axis, cells: &[Cell]) -> Column {
        let values = values(cells, axis);
        let index: HashMap<&Value, usize> = values.iter().zip(0..).collect();
        Column {
            axis,
            value_of: cells.iter().map(|cell| index[&cell.value(axis)]).collect(),
            keep: values.len(),
            values,
        }
    }

    /// True for the values that are kept: evenly spread, ends included; a single one is the axis's
    /// default, or else in the middle.
    fn mask(&self) -> Vec<bool> {
        let last = self.values.len().saturating_sub(1);
        let mut mask = vec![self.keep > last; self.values.len()];
        if self.keep == 1 {
            let default = self.axis.row().default;
            let index = self.values.iter().position(|v| v == default);
            mask[index.unwrap_or(last.div_ceil(2))] = true;
        } else if self.keep <= last {
            let gaps = self.keep - 1;
            for i in 0..self.keep {
                mask[(i * last + gaps / 2) / gaps] = true;
            }
        }
        mask
    }
}

/// The cells of a tier that are left out, in words: by the values that no chosen cell has.
fn in_words(title: &str, left: &[Cell], chosen: &[Cell]) -> String {
    let missing = (unmeasured(left, chosen).iter())
        .map(|(axis, values)| format!("{axis} {}", values.iter().format(", ")))
        .join("; ");
    if !missing.is_empty() {
        return format!("{title}: {missing}");
    }
    let varied = (AXES.iter())
        .filter(|row| values(applicable(row.axis, left), row.axis).len() > 1)
        .map(|row| row.name)
        .join(", ");
    if varied.is_empty() {
        title.to_owned()
    } else {
        format!("{title}: more combinations of {varied}")
    }
}

/// The values, by axis, that cells which are left out have and no chosen cell has.
fn unmeasured(left: &[Cell], chosen: &[Cell]) -> Vec<(Axis, Vec<Value>)> {
    (AXES.iter().map(|row| row.axis))
        .map(|axis| {
            let measured = values(chosen, axis);
            let mut missing = values(applicable(axis, left), axis);
            missing.retain(|value| !measured.contains(value));
            if missing.iter().all(|value| value.number().is_some()) {
                missing.sort();
            }
            (axis, missing)
        })
        .filter(|(_, missing)| !missing.is_empty())
        .collect()
}

/// The cells to which an axis applies: for an axis of TCP only those over TCP.
fn applicable(axis: Axis, cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    let of_tcp = matches!(axis, Axis::Congestion | Axis::Nodelay);
    cells
        .iter()
        .filter(move |c| !of_tcp || c.transport.is_tcp())
}

/// The values of an axis in these cells, in the order in which they appear.
fn values<'c>(cells: impl IntoIterator<Item = &'c Cell>, axis: Axis) -> Vec<Value> {
    (cells.into_iter().map(|cell| cell.value(axis)))
        .unique()
        .collect()
}
