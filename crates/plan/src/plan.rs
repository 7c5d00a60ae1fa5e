//! The plan of a run.

use bytecost_host::pairs::{self, Pairs};
use bytecost_spec::manifest::{Expectation, RatioNoise};
use bytecost_spec::study::AS_PUBLISHED;
use bytecost_spec::survey::{MoverFacts, Survey};
use bytecost_spec::{
    Axis, Cell, Host, Invalid, LeftOut, Manifest, PeerHost, Refusal, Study, Transport,
};
use itertools::{Either, Itertools as _};

use crate::budget::{self, OVERHEAD_MS, Price};
use crate::candidates::{
    Candidate, Norm, candidates, has_peer, is_of_cpus, is_of_files, moves_nothing,
};
use crate::power::{Power, Primaries};
use crate::twins::Baselines;
use crate::{asked, groups, order, refusal};

/// What a run measures, in which order, and what it does not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The cells; `TrialKey::cell` counts into them: first the `null` mover's, the loop's own cost,
    /// unless the survey knows none; last the twins of baselines. Empty where every one is refused.
    pub cells: Vec<Cell>,
    /// Cells of the study that cannot be had on this host, each by its id.
    pub refusals: Vec<Refusal>,
    /// Cells that the budget does not pay for.
    pub left_out: Vec<LeftOut>,
    /// What was decided that the study did not say, in sentences.
    pub notes: Vec<String>,
    /// What it expects to decide, where the noise of the machine was given.
    pub expectation: Option<Expectation>,
    /// Seed of the order.
    pub seed: u64,
    /// Fewest blocks.
    pub blocks_least: u32,
    /// What a trial is taken to last, in ms, in the mean over the cells: warm-up, window and what
    /// surrounds them, or as long as a few messages take where these are long.
    pub trial_ms: u64,
    /// By place: measured one after another.
    pub(crate) groups: Vec<Vec<usize>>,
}

impl Plan {
    /// Makes the plan of a study on a host. For a machine of a noise cells are chosen so that what
    /// the study asks first is decided, where the budget allows it. With a peer one side of each
    /// cell plays there, and cells that cross no network are left out. Fails for an unknown mover
    /// or receiver, a message that does not divide into its fields, and too many cells.
    pub fn expecting(
        study: &Study,
        host: &Host,
        survey: &Survey,
        peer: Option<&PeerHost>,
        seed: u64,
        noise: Option<&RatioNoise>,
    ) -> Result<Plan, Invalid> {
        study.check(survey)?;
        let norm = Norm::new(study, host, survey, peer);
        let to_peer = |c: &Cell| has_path(survey, c) && c.transport == Transport::Peer;
        let (all, staying): (Vec<Candidate>, Vec<Candidate>) = candidates(study, &norm)
            .into_iter()
            .partition(|c| peer.is_none() || moves_nothing(survey, &c.cell) || to_peer(&c.cell));
        let (runnable, refusals) = runnable(all, host, survey, peer);
        let windows_ms = study.warmup_ms.saturating_add(study.window_ms);
        let trial_ms = windows_ms.saturating_add(OVERHEAD_MS);
        let primaries = Primaries::of(&runnable, study, &norm);
        let power = noise.map(|noise| Power { noise, study });
        let all: Vec<usize> = (0..runnable.len()).collect();
        let price = Price {
            study,
            survey,
            trial_ms,
            blocks_least: match &power {
                Some(power) => power.blocks_least(primaries.among(&all).0),
                None => study.blocks_least,
            },
        };
        let floored = runnable.iter().any(|c| has_floor(survey, &c.cell))
            && survey.mover_facts.iter().any(MoverFacts::moves_nothing);
        let baselines = Baselines::of(&runnable, study, &norm);
        let decides = power.map(|power| (power, &primaries));
        let besides = usize::from(floored);
        let mut choice = budget::choose(&runnable, price, besides, &baselines, decides);
        let mut cells = choice.chosen;
        if let Some(floor) = floor(&cells, &norm, survey) {
            cells.retain(|cell| *cell != floor);
            for left in &mut choice.left {
                left.cells.retain(|cell| *cell != floor);
            }
            choice.left.retain(|left| !left.cells.is_empty());
            cells.insert(0, floor);
        }
        // Files have no congestion control.
        let note = norm
            .note()
            .filter(|_| cells.iter().any(|cell| has_peer(survey, cell)));
        let mut left_out = budget::left_out(&choice.left, &cells, price);
        left_out.extend(left_here(&staying, survey));
        cells.extend(choice.twins);
        let trial_ms = match cells.len() as u64 {
            0 => trial_ms,
            count => price.of_all(&cells).div_ceil(count),
        };
        let groups = groups::groups(&cells, study, &norm);
        Ok(Plan {
            groups,
            refusals,
            left_out,
            cells,
            notes: (design_note(study).into_iter())
                .chain(pairs_note(study, host))
                .chain(asked::notes(study, survey))
                .chain(note)
                .chain(choice.notes)
                .collect(),
            expectation: choice.expectation,
            seed,
            blocks_least: study.blocks_least,
            trial_ms,
        })
    }

    /// The plan that a run was carried out by. Fails as [`Plan::expecting`].
    pub fn from_manifest(manifest: &Manifest) -> Result<Plan, Invalid> {
        let noise = manifest.expectation.as_ref().map(|e| &e.noise);
        Plan::of_manifest(manifest, noise)
    }

    /// By this noise.
    fn of_manifest(manifest: &Manifest, noise: Option<&RatioNoise>) -> Result<Plan, Invalid> {
        Plan::expecting(
            &manifest.study,
            &manifest.host,
            &manifest.survey,
            manifest.peer.as_deref(),
            manifest.seed,
            noise,
        )
    }

    /// Places of the cells that the manifest's plan has by another noise too: what cannot be
    /// decided at that noise is left out. Fails as [`Plan::from_manifest`].
    pub fn kept_at(&self, manifest: &Manifest, noise: &RatioNoise) -> Result<Vec<u32>, Invalid> {
        let planned = Plan::of_manifest(manifest, Some(noise))?;
        let all = self.cells.iter().zip(0..);
        let kept = all.filter(|(cell, _)| planned.cells.contains(cell));
        Ok(kept.map(|(_, place)| place).collect())
    }

    /// The order of a block: places in [`Plan::cells`] of what it measures, each once, shuffled by
    /// the seed and the block's number alone; cells that are compared one after another.
    pub fn block(&self, block: u32) -> Vec<usize> {
        let groups: Vec<&[usize]> = self.groups.iter().map(Vec::as_slice).collect();
        order::grouped(&groups, self.seed, block)
    }
}

fn runnable(
    all: Vec<Candidate>,
    host: &Host,
    survey: &Survey,
    peer: Option<&PeerHost>,
) -> (Vec<Candidate>, Vec<Refusal>) {
    all.into_iter().partition_map(|candidate| {
        let cell = &candidate.cell;
        let why = match peer.filter(|_| cell.transport == Transport::Peer) {
            Some(peer) => refusal::refused_between(cell, host, survey, peer),
            None => refusal::refused(cell, host, survey),
        };
        match why {
            Some(why) => Either::Right(Refusal {
                what: cell.id(),
                why,
            }),
            None => Either::Left(candidate),
        }
    })
}

/// One of which can be on another host.
fn has_path(survey: &Survey, cell: &Cell) -> bool {
    cell.is_served() || has_peer(survey, cell)
}

/// Of a run on two hosts: those of other transports, and of movers with one end.
fn left_here(cells: &[Candidate], survey: &Survey) -> Vec<LeftOut> {
    let of = |axis: Axis, with_path: bool| {
        let own = cells.iter().map(|c| &c.cell);
        let own = own.filter(|cell| has_path(survey, cell) == with_path);
        let mut values = own.map(|cell| cell.value(axis)).sorted().collect_vec();
        let cells = values.len();
        values.dedup();
        (cells > 0).then(|| LeftOut {
            what: format!("{axis} {}", values.join(", ")),
            values: vec![(axis, values)],
            cells,
            why: "they do not cross a network: run them without --peer".to_owned(),
        })
    };
    let [paths, movers] = [of(Axis::Transport, true), of(Axis::Mover, false)];
    paths.into_iter().chain(movers).collect()
}

fn design_note(study: &Study) -> Option<String> {
    (study.design.as_deref() == Some(AS_PUBLISHED)).then(|| {
        "the traffic is exactly as published, with what a careful program would do otherwise; without --as-published the same cells are measured properly".to_owned()
    })
}

fn pairs_note(study: &Study, host: &Host) -> Option<String> {
    let asked = |pairs: &Pairs| {
        let all = pairs.placements();
        let mut axes = study.tiers.iter().flat_map(|tier| &tier.axes);
        axes.any(|(axis, values)| {
            *axis == Axis::Placement && all.iter().all(|pair| values.contains(pair))
        })
    };
    // Of one CPU or two there is nothing to choose.
    if host.cpus.len() <= pairs::MOST_CPUS {
        return None;
    }
    pairs::chosen(host).ok().filter(asked)?.note(host)
}

/// The most bytes of a message that is not moved, where a request is a whole file.
const FLOOR_BYTES: u64 = 64 << 10;
/// Whether a cell is carried out by the loop whose cost is measured: a server has its own.
fn has_floor(survey: &Survey, cell: &Cell) -> bool {
    !cell.is_served() && !moves_nothing(survey, cell)
}

/// What the loop costs: the first cell that moves something, moved by `null`. None where nothing is
/// moved, or the survey knows no such mover.
fn floor(chosen: &[Cell], norm: &Norm<'_>, survey: &Survey) -> Option<Cell> {
    let moves = |cell: &&Cell| has_floor(survey, cell);
    let mut moving = chosen.iter().filter(moves);
    let first = (moving.clone().find(|cell| has_peer(survey, cell))).or_else(|| moving.next())?;
    let null = survey.mover_facts.iter().find(|m| m.moves_nothing())?;
    if is_of_files(survey, first) || is_of_cpus(survey, first) {
        // A file may be large; the loop's cost does not depend on what is not moved.
        return Some(norm.cell(&Cell {
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
        // Memory of such a message would be filled for nothing.
        cell.size_bytes = Cell::default().size_bytes;
        cell.ring = Cell::default().ring;
    }
    Some(norm.cell(&cell))
}
