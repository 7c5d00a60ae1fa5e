//! The plan of a run, from its study, its host and the survey of the host.

use bytecost_host::pairs::{self, Pairs};
use bytecost_spec::manifest::RatioNoise;
use bytecost_spec::sample::GROWING_BLOCKS;
use bytecost_spec::study::AS_PUBLISHED;
use bytecost_spec::survey::{MoverFacts, Survey};
use bytecost_spec::{
    Axis, Cell, Host, Invalid, LeftOut, PeerHost, Plan, RefusedCell, Study, Transport,
};
use itertools::{Either, Itertools as _};

use crate::budget::{self, Decision, OVERHEAD_MS, Price};
use crate::candidates::{
    Candidate, PlanContext, candidates, has_peer, is_of_cpus, is_of_files, moves_nothing,
};
use crate::power::{Power, Primaries};
use crate::twins::Baselines;
use crate::{SurveyedHost, asked, groups, order, refusal};

/// Plans a study on a host. Given the noise of the machine, the cells are chosen so that the primary
/// comparisons of the study are decided, if the budget allows it. With a peer, one side of each cell is on
/// the peer, and cells that do not cross a network are left out.
///
/// # Errors
/// An unknown mover or receiver, a message that cannot be divided into its fields, and too many cells.
pub fn plan(
    study: &Study,
    here: SurveyedHost<'_>,
    peer: Option<&PeerHost>,
    seed: u64,
    noise: Option<&RatioNoise>,
) -> Result<Plan, Invalid> {
    let survey = here.survey;
    study.check(survey)?;
    let context = PlanContext::new(study, here, peer);
    let to_peer = |c: &Cell| can_span_hosts(survey, c) && c.transport == Transport::Peer;
    let (considered, staying): (Vec<Candidate>, Vec<Candidate>) = candidates(study, &context)
        .into_iter()
        .partition(|c| peer.is_none() || moves_nothing(survey, &c.cell) || to_peer(&c.cell));
    let (runnable, refused) = runnable(considered, here, peer);
    let trial_ms = windows_ms(study).saturating_add(OVERHEAD_MS);
    let primaries = Primaries::new(&runnable, study, &context);
    let power = noise.map(|noise| Power { noise, study });
    let indices: Vec<usize> = (0..runnable.len()).collect();
    let price = Price {
        study,
        survey,
        trial_ms,
        blocks_least: match &power {
            Some(power) => {
                let (comparisons, _) = primaries.among(&indices);
                power.blocks_least(comparisons)
            }
            None => study.blocks_least,
        },
    };
    // The cell of `null`, which shows the cost of the loop, is paid for besides the chosen ones.
    let has_null = runnable.iter().any(|c| has_floor(survey, &c.cell))
        && survey.mover_facts.iter().any(MoverFacts::moves_nothing);
    let baselines = Baselines::new(&runnable, study, &context);
    let decision = power.map(|power| Decision {
        power,
        primaries: &primaries,
    });
    let mut choice = budget::choose(&runnable, price, has_null.into(), &baselines, decision);
    if let Some(floor) = floor(&choice.chosen, &context, survey) {
        choice.put_first(floor);
    }
    let mut cells = choice.chosen;
    // The note is about the congestion control, which cells of files do not have.
    let congestion_note = context
        .note()
        .filter(|_| cells.iter().any(|cell| has_peer(survey, cell)));
    let mut left_out = budget::left_out(&choice.left, &cells, price);
    left_out.extend(left_out_staying(&staying, survey));
    cells.extend(choice.twins);
    let trial_ms = match cells.len() as u64 {
        0 => trial_ms,
        count => price.cells_ms(&cells).div_ceil(count),
    };
    let mut plan = Plan {
        groups: groups::groups(&cells, study, &context),
        orders: Vec::new(),
        refused,
        left_out,
        cells,
        notes: (design_note(study).into_iter())
            .chain(pairs_note(study, here.host))
            .chain(asked::notes(study, survey))
            .chain(congestion_note)
            .chain(choice.notes)
            .collect(),
        expectation: choice.expectation,
        trial_ms,
    };
    order_blocks(&mut plan, study, seed, 0);
    Ok(plan)
}

/// Appends orders to those that a plan has, until there is one for each block that the study's limits allow
/// and one for each block that may not count. Windows may become longer in the first [`GROWING_BLOCKS`] blocks
/// of a leg, which is a part of a run between two resumptions, and then no earlier block counts: this may be
/// so up to those blocks of the last leg, which begins at `leg_first_block`. Each order depends on the seed and
/// the number of the block alone.
pub fn order_blocks(plan: &mut Plan, study: &Study, seed: u64, leg_first_block: u32) {
    // A trial is never shorter than its warm-up and its window.
    let block_ms = windows_ms(study).max(1) * plan.cells.len().max(1) as u64;
    let affordable = u32::try_from(study.budget_ms / block_ms).unwrap_or(u32::MAX);
    let may_not_count = leg_first_block.saturating_add(GROWING_BLOCKS);
    let blocks = (affordable
        .saturating_add(study.blocks_least)
        .saturating_add(1))
    .min(study.blocks_most)
    .saturating_add(may_not_count);
    for block in plan.orders.len() as u32..blocks {
        plan.orders.push(order::grouped(&plan.groups, seed, block));
    }
}

/// The warm-up and the window of a trial, in ms.
fn windows_ms(study: &Study) -> u64 {
    study.warmup_ms.saturating_add(study.window_ms)
}

/// The cells that the host, and the peer, can measure, and those that they refuse.
fn runnable(
    candidates: Vec<Candidate>,
    here: SurveyedHost<'_>,
    peer: Option<&PeerHost>,
) -> (Vec<Candidate>, Vec<RefusedCell>) {
    candidates.into_iter().partition_map(|candidate| {
        let cell = &candidate.cell;
        let why = match peer.filter(|_| cell.transport == Transport::Peer) {
            Some(peer) => refusal::refused_between(cell, here, peer),
            None => refusal::refused(cell, here),
        };
        match why {
            Some(why) => Either::Right(RefusedCell {
                cell: candidate.cell,
                why,
            }),
            None => Either::Left(candidate),
        }
    })
}

/// Returns true if one side of the cell can be on another host.
fn can_span_hosts(survey: &Survey, cell: &Cell) -> bool {
    cell.is_served() || has_peer(survey, cell)
}

/// What a run on two hosts leaves out: cells of other transports, and of movers without a peer.
fn left_out_staying(cells: &[Candidate], survey: &Survey) -> Vec<LeftOut> {
    let by_axis = |axis: Axis, spans: bool| {
        let mut values = (cells.iter().map(|c| &c.cell))
            .filter(|cell| can_span_hosts(survey, cell) == spans)
            .map(|cell| cell.value(axis))
            .sorted()
            .collect_vec();
        let count = values.len();
        values.dedup();
        (count > 0).then(|| LeftOut {
            what: format!("{axis} {}", values.iter().join(", ")),
            values: vec![(axis, values)],
            cells: count,
            why: "they do not cross a network: run them without --peer".to_owned(),
        })
    };
    let [transports, movers] = [by_axis(Axis::Transport, true), by_axis(Axis::Mover, false)];
    transports.into_iter().chain(movers).collect()
}

fn design_note(study: &Study) -> Option<String> {
    (study.design.as_deref() == Some(AS_PUBLISHED)).then(|| {
        "the traffic is exactly as published, with what a careful program would do otherwise; without --as-published the same cells are measured properly".to_owned()
    })
}

/// The note on pairs of CPUs that were chosen among many, if the study has them all.
fn pairs_note(study: &Study, host: &Host) -> Option<String> {
    let is_named = |pairs: &Pairs| {
        let placements = pairs.placements();
        let mut axes = study.tiers.iter().flat_map(|tier| &tier.axes);
        axes.any(|(axis, values)| {
            *axis == Axis::Placement && placements.iter().all(|pair| values.contains(pair))
        })
    };
    // On few CPUs there are no pairs to choose from: all are measured.
    if host.cpus.len() <= pairs::MOST_CPUS {
        return None;
    }
    pairs::choose(host).ok().filter(is_named)?.note(host)
}

/// The most bytes of a message of `null`, where a request is a whole file.
const FLOOR_BYTES: u64 = 64 << 10;

/// Returns true for a cell that is measured by the loop whose cost `null` shows: a server has another one.
fn has_floor(survey: &Survey, cell: &Cell) -> bool {
    !cell.is_served() && !moves_nothing(survey, cell)
}

/// The cell of the loop's cost: the first chosen cell that has a floor, preferably one with a receiver, with
/// the mover `null` instead of its own. None if no chosen cell has a floor, or the survey has no such mover.
fn floor(chosen: &[Cell], context: &PlanContext<'_>, survey: &Survey) -> Option<Cell> {
    let mut moving = chosen.iter().filter(|cell| has_floor(survey, cell));
    let first = (moving.clone().find(|cell| has_peer(survey, cell))).or_else(|| moving.next())?;
    let null = survey.mover_facts.iter().find(|m| m.moves_nothing())?;
    if is_of_files(survey, first) || is_of_cpus(survey, first) {
        // A file may be large, and the loop's cost does not depend on the size of what is not moved.
        return Some(context.normalised(&Cell {
            mover: null.name.clone(),
            size_bytes: first.size_bytes.min(FLOOR_BYTES),
            threads: first.threads,
            placement: first.placement.clone(),
            neighbour: first.neighbour.clone(),
            ..Cell::default()
        }));
    }
    let mut cell = Cell {
        mover: null.name.clone(),
        ..first.clone()
    };
    if budget::is_long(first) {
        // The memory of such a message would be filled in vain.
        cell.size_bytes = Cell::default().size_bytes;
        cell.ring = Cell::default().ring;
    }
    Some(context.normalised(&cell))
}
