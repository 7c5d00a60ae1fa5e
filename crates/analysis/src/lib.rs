//! The judgement of a run: estimates, comparisons with verdicts, caveats, causes and advice.
//!
//! In the order of the data flow, which [`analyse`] spells out: an [`Input`] holds a run's manifest and
//! records; its samples are grouped by cell, block and trial; a [`CellResult`] has the estimates of a
//! cell; two cells that differ in one axis are compared within blocks; a [`Caveat`] withholds or annotates
//! verdicts; a [`Finding`] is a comparison with its verdict. Crossovers, main effects, explanations and
//! [`Advice`] are filters and groups of findings. All of it is an [`Analysis`]. [`progress`] and [`profile`]
//! do the same arithmetic for a running study and for a program of the user's.
//!
//! The crate is pure: the same input always gives the same result, whatever the samples hold. It has facts
//! and no sentences, which are `bytecost-report`'s. Start with `stages.rs` and `pipeline.rs`, then
//! `comparison.rs` and `findings.rs`.

mod advice;
mod audit;
mod books;
mod causes;
mod caveats;
pub mod ceiling;
mod cell_results;
mod cells;
mod command;
mod comparison;
mod confidence;
mod copies;
mod corrections;
mod cpu_time;
mod crossovers;
mod explanations;
mod families;
mod figures;
mod findings;
mod footprint;
mod grid;
mod grouping;
mod input;
mod logs;
mod main_effects;
mod matrix;
mod mean_contrast;
mod measures;
mod outside_time;
mod pipeline;
mod places;
pub mod profile;
pub mod progress;
mod regimes;
pub mod result;
mod roles;
mod round_noise;
mod rounds;
mod run;
mod speed_ups;
mod stages;
mod stalls;
mod trials;
mod twins;
mod value;
mod window_books;

pub use audit::published_cells;
pub use caveats::{caveat_kinds, withholding_kinds};
pub use cells::typical;
pub use command::{command_line, command_of_run, peer_again};
pub use grid::{RANGES, implied_axes};
pub use grouping::grouped;
#[doc(inline)]
pub use input::{Grounds, Input};
pub use measures::{MeasureKind, is_bounded_share};
#[doc(inline)]
pub use progress::{Interim, LiveEstimate, LiveEstimates, Progress, log_ratios};
#[doc(inline)]
pub use result::*;
pub use rounds::{noise_between_rounds, round_summaries};
pub use value::KERNEL_STACK_BYTES;

use stages::Explained;
use trials::Trials;

/// Judges a run: the same input always gives the same analysis.
///
/// Bad or foreign samples are left out and stop nothing. Data that are not available are in the result with
/// their reason.
pub fn analyse(input: Input<'_>) -> Analysis {
    let trials = Trials::of_run(&input);
    let measured = pipeline::measured(&input, &trials);
    let judged = pipeline::judged(&measured);
    let explained = pipeline::explained(&judged);
    let advice = advice::advice(&explained);
    document(&explained, advice)
}

fn document(explained: &Explained<'_>, advice: Advice) -> Analysis {
    let (measured, judged) = (explained.measured, explained.judged);
    let (input, trials, manifest) = (measured.input, measured.trials, measured.input.manifest);
    Analysis {
        format: FORMAT,
        run: run::run_facts(judged),
        study: measured.study.clone(),
        host: manifest.host.clone(),
        peer: PeerFacts::from_manifest(manifest),
        advice,
        loop_floor_ns_per_message: cells::loop_floor(trials),
        counters_cost: cells::counters_cost(&manifest.survey.counters_cost),
        twins: measured.twins.clone(),
        noise_floor: measured.noise_floor.clone(),
        cells: measured.cells.clone(),
        families: families::facts(&judged.findings, manifest.rate_share()),
        findings: judged.findings.clone(),
        main_effects: main_effects::all(judged),
        crossovers: crossovers::all(judged),
        cpu_time: measured.cpu_time.clone(),
        copies: measured.copies.clone(),
        counts: measured.counts.clone(),
        causes: explained.causes.clone(),
        books: measured.books.clone(),
        roles: roles::all(trials),
        counting_cost: measured.counting_cost,
        footprints: measured.footprints.clone(),
        explanations: explanations::all(explained),
        audit: (input.claims).map_or_else(Vec::new, |claims| audit::rulings(judged, claims)),
        disturbances: caveats::disturbances(judged),
        ceiling: input.ceiling.cloned(),
        published: input.published.cloned(),
        caveats: judged.caveats.clone(),
        refused_cells: input.refused.to_vec(),
        refused_counters: manifest.survey.counters_refused.clone(),
        left_out: input.left_out.to_vec(),
        failures: input.failures.to_vec(),
        figures: figures::all(judged),
        matrices: matrix::all(measured),
        speed_ups: speed_ups::all(judged),
    }
}

/// Published claims compared with a run: the rulings alone, in the order of the claims.
pub fn audit(input: Input<'_>, claims: &Grounds) -> Vec<Audited> {
    let trials = Trials::of_run(&input);
    let measured = pipeline::measured(&input, &trials);
    audit::rulings(&pipeline::judged(&measured), claims)
}

/// The cells of decided comparisons, baseline first, in descending order of their difference: those to
/// count where not all can be. A pair whose verdict a caveat withholds is not decided.
pub fn pairs_to_count(input: Input<'_>) -> Vec<[String; 2]> {
    let trials = Trials::of_run(&input);
    let measured = pipeline::measured(&input, &trials);
    let judged = pipeline::judged(&measured);
    let candidates = judged
        .findings
        .iter()
        .filter(|f| causes::is_worth_a_reason(f, &measured.stalls));
    causes::greatest(candidates, |_| true)
        .into_iter()
        .map(|f| [f.baseline.clone(), f.cell.clone()])
        .collect()
}
