//! What the budget pays for: whole tiers in their order, and of the first what fits.

use std::collections::HashMap;
use std::time::Duration;

use bytecost_spec::axis::AXES;
use bytecost_spec::manifest::Expectation;
use bytecost_spec::study::Compare;
use bytecost_spec::survey::InFlight;
use bytecost_spec::{Axis, Cache, Cell, LeftOut, Pattern, Study, Survey, Value, units};
use itertools::Itertools as _;

use crate::candidates::{Candidate, has_peer};
use crate::power::{BlockLength, Power, Primaries};
use crate::twins::Baselines;

/// What a trial is taken to cost beside warm-up and window, to start two processes, connect, check and
/// read, in ms; runs are stopped by the clock.
pub(crate) const OVERHEAD_MS: u64 = 14;
/// Warm-ups of the study that a stream of TCP takes on average before its rate is steady.
const GROWING_WARMUPS: u64 = 2;
/// What a server adds, in ms: a third process, and the notice of its window.
const SERVED_MS: u64 = 15;
/// What each of its connections adds, in µs.
const CONNECTION_US: u64 = 100;

/// The share of the budget that the fewest blocks may take, in percent; the rest is for repeated
/// trials and for the end.
const SHARE_PERCENT: u64 = 90;
/// In percent of it: what other cells may take where the primary comparisons do not have the blocks
/// that they need.
const SECONDARY_PERCENT: u64 = 25;
const DAY_MS: u64 = 86_400_000;
/// From this size on a trial lasts as long as its messages do, in bytes.
const LONG_BYTES: u64 = 4 << 20;
/// What such messages are taken to go through at, in bytes per ms: from memory and from a disk.
const BYTES_PER_MS: u64 = 1_500_000;
const COLD_BYTES_PER_MS: u64 = 500_000;
/// One before the window, and one within it.
const PASSES_LEAST: u64 = 2;

/// What a mover's own program adds to a trial, in ms, to start and to warm up: an assumption too.
const HELPER_MS: u64 = 200;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Price<'a> {
    pub(crate) study: &'a Study,
    pub(crate) survey: &'a Survey,
    /// What a trial takes at least.
    pub(crate) trial_ms: u64,
    pub(crate) blocks_least: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) chosen: Vec<Cell>,
    pub(crate) twins: Vec<Cell>,
    pub(crate) left: Vec<Left>,
    pub(crate) notes: Vec<String>,
    pub(crate) expectation: Option<Expectation>,
}

#[derive(Debug)]
pub(crate) struct Left {
    tier: usize,
    pub(crate) cells: Vec<Cell>,
    /// What a block of the plan takes if the budget reached to the end of this tier, in ms.
    reach_ms: u64,
}

/// Whether a message of the cell is long, so that a trial lasts as long as a few of them do.
pub(crate) fn is_long(cell: &Cell) -> bool {
    cell.size_bytes >= LONG_BYTES
}

impl Price<'_> {
    fn time_ms(&self) -> u64 {
        let time = u128::from(self.study.budget_ms) * u128::from(SHARE_PERCENT) / 100;
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// What a block may take so that the budget pays for the fewest, in ms.
    fn room_ms(&self) -> u64 {
        self.time_ms() / u64::from(self.blocks_least.max(1))
    }

    /// What a trial of the cell is taken to last, in ms.
    pub(crate) fn of(&self, cell: &Cell) -> u64 {
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

    fn growing_ms(&self, cell: &Cell) -> u64 {
        let may_grow = cell.transport.is_tcp() && cell.pattern == Pattern::Stream;
        match may_grow && has_peer(self.survey, cell) {
            true => (self.study.warmup_ms).saturating_mul(GROWING_WARMUPS - 1),
            false => 0,
        }
    }

    pub(crate) fn of_all<'c>(&self, cells: impl IntoIterator<Item = &'c Cell>) -> u64 {
        let costs = cells.into_iter().map(|cell| self.of(cell));
        costs.fold(0, u64::saturating_add)
    }

    /// The budget for blocks of so many ms, as `--budget` takes it: in s, or min from two on.
    fn for_blocks_of(&self, block_ms: u64) -> Option<String> {
        let ms = u128::from(block_ms) * u128::from(self.blocks_least) * 100;
        let seconds = u64::try_from(ms.div_ceil(u128::from(SHARE_PERCENT) * 1000)).ok()?;
        if seconds.checked_mul(1000)? > DAY_MS {
            return None;
        }
        Some(match seconds > 120 {
            true => format!("{}m", seconds.div_ceil(60)),
            false => format!("{seconds}s"),
        })
    }
}

/// By places among the candidates.
struct Costs<'c> {
    ms: Vec<u64>,
    /// Of the cells that are paid for already.
    besides_ms: u64,
    baselines: &'c Baselines,
}

impl Costs<'_> {
    fn of(&self, kept: &[usize]) -> u64 {
        let all = kept.iter().map(|&i| self.ms[i]);
        all.fold(0, u64::saturating_add)
    }

    fn with_twins(&self, kept: &[usize]) -> u64 {
        let twins = self.baselines.among(kept).places;
        self.of(kept).saturating_add(self.of(&twins))
    }

    /// Of the cells at these places: how many, and what their blocks last.
    fn primary(&self, kept: &[usize], primaries: &Primaries) -> (u32, BlockLength) {
        let (count, cells) = primaries.among(kept);
        let twins = self.baselines.among(kept).places.into_iter();
        let of_primaries: Vec<usize> = (kept.iter().copied())
            .chain(twins)
            .filter(|place| cells.contains(place))
            .collect();
        let length = BlockLength {
            all_ms: self.besides_ms.saturating_add(self.with_twins(kept)),
            primary_ms: self.of(&of_primaries),
        };
        (count, length)
    }
}

/// Whether a part of the study is measured that adds no primary comparison: where these find the
/// study's smallest effect all the same, or it takes little of their time.
fn is_affordable(
    (power, primaries): (Power<'_>, &Primaries),
    costs: &Costs<'_>,
    kept: &[usize],
    with_it: &[usize],
    price: Price<'_>,
) -> bool {
    let (before, _) = costs.primary(kept, primaries);
    let (count, length) = costs.primary(with_it, primaries);
    let time_ms = price.time_ms();
    count > before
        || count == 0
        || share_ms(length, power.study) <= time_ms
        || power.reaches(power.blocks(length, time_ms), count)
}

/// The time from which on cells are measured that no primary comparison is of, in ms: the fewest
/// blocks of them take [`SECONDARY_PERCENT`] of it.
fn share_ms(length: BlockLength, study: &Study) -> u64 {
    let others_ms = length.all_ms.saturating_sub(length.primary_ms);
    let all_ms = others_ms.saturating_mul(u64::from(study.blocks_least));
    all_ms.saturating_mul(100) / SECONDARY_PERCENT
}

/// Chooses from candidates by tier; `besides` cells are paid for. What the first tier leaves pays
/// for its twins, before it pays for another tier with its own.
pub(crate) fn choose(
    candidates: &[Candidate],
    price: Price<'_>,
    besides: usize,
    baselines: &Baselines,
    decides: Option<(Power<'_>, &Primaries)>,
) -> Choice {
    let study = price.study;
    let besides_ms = price.trial_ms.saturating_mul(besides as u64);
    let costs = Costs {
        ms: candidates.iter().map(|c| price.of(&c.cell)).collect(),
        besides_ms,
        baselines,
    };
    let cells = |places: &[usize]| -> Vec<Cell> {
        let cells = places.iter().map(|&i| candidates[i].cell.clone());
        cells.collect()
    };
    let room_ms = price.room_ms().saturating_sub(besides_ms);
    let mut choice = Choice::default();
    let mut chosen: Vec<usize> = Vec::new();
    let mut end = 0;
    for tier in candidates.chunk_by(|a, b| a.tier == b.tier) {
        let number = tier[0].tier;
        let places: Vec<usize> = (end..end + tier.len()).collect();
        end += tier.len();
        let with_it = [&chosen[..], &places].concat();
        let first = choice.left.is_empty() && chosen.is_empty();
        let cost_ms = match first {
            true => costs.of(&with_it),
            false => costs.with_twins(&with_it),
        };
        let is_affordable =
            first || decides.is_none_or(|d| is_affordable(d, &costs, &chosen, &with_it, price));
        if choice.left.is_empty() && cost_ms <= room_ms && is_affordable {
            chosen = with_it;
            continue;
        }
        let (kept, rest) = if first {
            thin(&cells(&places), study, &costs, room_ms)
        } else {
            (Vec::new(), places)
        };
        if first && !rest.is_empty() {
            let title = &study.tiers[number].title;
            let kept_ms = besides_ms.saturating_add(costs.of(&kept));
            let note = cut_note(title, kept.len(), rest.len(), price, kept_ms);
            choice.notes.push(note);
        }
        chosen.extend(kept);
        let so_far: Vec<usize> = (0..end).collect();
        let reach_ms = besides_ms.saturating_add(costs.with_twins(&so_far));
        let of_share = decides.map(|(_, primaries)| {
            let (_, length) = costs.primary(&so_far, primaries);
            share_ms(length, study).div_ceil(u64::from(price.blocks_least.max(1)))
        });
        choice.left.push(Left {
            tier: number,
            cells: cells(&rest),
            reach_ms: of_share.map_or(reach_ms, |ms| reach_ms.max(ms)),
        });
    }
    choice.left.retain(|left| !left.cells.is_empty());
    let mut twinned = baselines.among(&chosen);
    let all = twinned.places.len();
    let of_cells_ms = costs.of(&chosen);
    while !twinned.places.is_empty() && of_cells_ms + costs.of(&twinned.places) > room_ms {
        twinned.places.pop();
    }
    let note = twins_note(study, twinned.cut, twinned.places.len(), all);
    choice.notes.extend(note);
    choice.twins = cells(&twinned.places);
    for twin in &mut choice.twins {
        twin.twin = true;
    }
    choice.expectation = decides.map(|(power, primaries)| {
        let (count, length) = costs.primary(&chosen, primaries);
        power.expectation(power.blocks(length, price.time_ms()), count)
    });
    choice.chosen = cells(&chosen);
    choice
}

/// Which baselines are measured only once: those that would bring too many twins, or cost too much.
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
                match price.for_blocks_of(left.reach_ms) {
                    Some(budget) => format!("`--budget {budget}` brings them in"),
                    None => "more than a day would bring them in; name fewer values".to_owned(),
                }
            ),
        })
        .collect()
}

fn cut_note(title: &str, kept: usize, cut: usize, price: Price<'_>, kept_ms: u64) -> String {
    let needed_ms = kept_ms.saturating_mul(u64::from(price.blocks_least));
    let over = match needed_ms > price.study.budget_ms {
        true => "; even these take longer than the budget",
        false => "",
    };
    format!(
        "the budget of {} is too short for the first part of the study (\"{title}\"): {kept} of {} are measured{over}",
        units::duration(Duration::from_millis(price.study.budget_ms)),
        units::count(kept + cut, "cell"),
    )
}

/// Cuts the first tier down to `room_ms`: axes that nothing is compared over lose values, the one
/// with the most first and so that the rest are evenly spread, ends included. Where one value
/// each is still too much, cells are dropped from the end, but never what others are compared
/// with; a comparison of two is the least. Gives back the places of what is kept and what is not.
fn thin(
    cells: &[Cell],
    study: &Study,
    costs: &Costs<'_>,
    room_ms: u64,
) -> (Vec<usize>, Vec<usize>) {
    let fits = |kept: &[usize]| costs.of(kept) <= room_ms;
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
        let stays = |&i: &usize| columns.iter().zip(&masks).all(|(c, m)| m[c.of_cell[i]]);
        let fewer: Vec<usize> = (0..cells.len()).filter(stays).collect();
        if fewer.is_empty() {
            break; // a grid with holes: no cell has all these values
        }
        kept = fewer;
    }
    let least = if study.compare.is_empty() { 1 } else { 2 };
    if !fits(&kept) {
        // First what is the baseline in most comparisons.
        kept.sort_by_key(|&i| {
            let compares = study.compare.iter();
            let is_apart = |c: &&Compare| cells[i].value(c.axis) != c.baseline;
            compares.filter(is_apart).count()
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

/// An axis of the first tier, and how many of its values are kept.
struct Column {
    axis: Axis,
    values: Vec<Value>,
    /// For each cell, the place of its value.
    of_cell: Vec<usize>,
    keep: usize,
}

impl Column {
    fn new(axis: Axis, cells: &[Cell]) -> Column {
        let values = values(cells, axis);
        let place: HashMap<&Value, usize> = values.iter().zip(0..).collect();
        let of_cell = cells.iter().map(|cell| place[&cell.value(axis)]);
        let of_cell = of_cell.collect();
        Column {
            axis,
            of_cell,
            keep: values.len(),
            values,
        }
    }

    /// Evenly spread, ends included; of one only the axis's default, or else the middle.
    fn mask(&self) -> Vec<bool> {
        let last = self.values.len().saturating_sub(1);
        let mut mask = vec![self.keep > last; self.values.len()];
        if self.keep == 1 {
            let default = self.axis.row().default;
            let one = self.values.iter().position(|v| v == default);
            mask[one.unwrap_or(last.div_ceil(2))] = true;
        } else if self.keep <= last {
            let gaps = self.keep - 1;
            for i in 0..self.keep {
                mask[(i * last + gaps / 2) / gaps] = true;
            }
        }
        mask
    }
}

/// By tier and by the values that nothing else has.
fn in_words(title: &str, left: &[Cell], chosen: &[Cell]) -> String {
    let missing = unmeasured(left, chosen);
    let mut missing = missing
        .iter()
        .map(|(axis, values)| format!("{axis} {}", values.iter().format(", ")));
    let missing = missing.join("; ");
    if !missing.is_empty() {
        return format!("{title}: {missing}");
    }
    let rows = AXES.iter();
    let mut varied = rows.filter(|row| values(of_axis(row.axis, left), row.axis).len() > 1);
    match varied.by_ref().map(|row| row.name).join(", ") {
        none if none.is_empty() => title.to_owned(),
        varied => format!("{title}: more combinations of {varied}"),
    }
}

/// The values that these cells have and none of the chosen has, by axis.
fn unmeasured(left: &[Cell], chosen: &[Cell]) -> Vec<(Axis, Vec<Value>)> {
    let axes = AXES.iter().map(|row| row.axis);
    let of_axis = axes.map(|axis| {
        let there = values(chosen, axis);
        let mut gone = values(of_axis(axis, left), axis);
        gone.retain(|value| !there.contains(value));
        if gone.iter().all(|value| value.number().is_some()) {
            gone.sort();
        }
        (axis, gone)
    });
    of_axis.filter(|(_, gone)| !gone.is_empty()).collect()
}

/// The cells in which an axis says something: TCP's own says nothing beside another transport.
fn of_axis(axis: Axis, cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    let of_tcp = matches!(axis, Axis::Congestion | Axis::Nodelay);
    cells
        .iter()
        .filter(move |c| !of_tcp || c.transport.is_tcp())
}

/// In the order in which they appear.
fn values<'c>(cells: impl IntoIterator<Item = &'c Cell>, axis: Axis) -> Vec<Value> {
    let all = cells.into_iter().map(|cell| cell.value(axis));
    all.unique().collect()
}
