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
//! and no sentences, which are `bytecost-report`'s. Start with `stages.rs`, then `contrast.rs` and
//! `findings.rs`.

mod advice;
mod audit;
mod books;
mod causes;
mod caveats;
pub mod ceiling;
mod cells;
mod command;
mod confidence;
mod contrast;
mod copies;
mod cpu_time;
mod crossovers;
mod explanations;
mod families;
mod figures;
mod findings;
mod footprint;
mod grid;
mod grouping;
mod judged_pair;
mod logs;
mod main_effects;
mod matrix;
mod measure_kind;
mod outside_time;
mod pairing;
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
pub use grid::RANGES;
pub use grouping::grouped;
pub use measure_kind::MeasureKind;
#[doc(inline)]
pub use progress::{Interim, LiveEstimate, LiveEstimates, Progress, log_ratios};
#[doc(inline)]
pub use result::*;
pub use rounds::{noise_between_rounds, round_summaries};
pub use value::served::KERNEL_STACK_BYTES;

use stages::{Explained, Judged, Measured};
use stalls::Stalls;
use trials::Trials;

/// Judges a run: the same input always gives the same analysis.
///
/// Bad or foreign samples are left out and stop nothing. Data that are not available are in the result with
/// their reason.
pub fn analyse(input: Input<'_>) -> Analysis {
    let trials = Trials::of_run(&input);
    let judged = judge(measure(&input, &trials));
    result(&explain(judged))
}

fn measure<'v>(input: &'v Input<'v>, trials: &'v Trials<'v>) -> Measured<'v> {
    let mut cells = cells::results(input, trials);
    ceiling::take_shares(&mut cells, input, trials);
    let evidence = copies::evidence(&mut cells, input, trials);
    regimes::find_groups(&mut cells, trials);
    let twins = twins::all(trials);
    Measured {
        input,
        trials,
        study: run::study_facts(input.manifest, trials),
        stalls: Stalls::new(trials),
        cells,
        evidence,
        cpu_time: cpu_time::all(input),
        books: books::all(trials, input),
        footprints: footprint::all(input),
        noise_floor: twins::noise_floor(&twins, trials),
        twins,
        comparisons: contrast::comparisons(trials),
    }
}

/// Caveats that need no verdict come before verdicts, since they may withhold some.
fn judge(measured: Measured<'_>) -> Judged<'_> {
    let caveats = caveats::without_verdicts(&measured);
    let findings = findings::judged(&measured, &caveats);
    Judged {
        caveats: caveats::with_verdicts(&measured, caveats, &findings),
        findings,
        measured,
    }
}

fn explain(judged: Judged<'_>) -> Explained<'_> {
    Explained {
        causes: causes::all(&judged),
        judged,
    }
}

fn result(run: &Explained<'_>) -> Analysis {
    let (input, trials, manifest) = (run.input, run.trials, run.input.manifest);
    Analysis {
        format: FORMAT,
        run: run::run_facts(run),
        study: run.study.clone(),
        host: manifest.host.clone(),
        peer: PeerFacts::from_manifest(manifest),
        advice: advice::all(run),
        loop_floor_ns_per_message: cells::loop_floor(trials),
        counters_cost: cells::counters_cost(&manifest.survey.counters_cost),
        twins: run.twins.clone(),
        noise_floor: run.noise_floor.clone(),
        cells: run.cells.clone(),
        families: families::facts(run),
        findings: run.findings.clone(),
        main_effects: main_effects::all(run),
        crossovers: crossovers::all(run),
        cpu_time: run.cpu_time.clone(),
        copies: run.evidence.copies.clone(),
        counts: run.evidence.counts.clone(),
        causes: run.causes.clone(),
        books: run.books.clone(),
        roles: roles::all(trials),
        counting_cost: run.evidence.counting_cost,
        footprints: run.footprints.clone(),
        explanations: explanations::all(run),
        audit: (input.claims).map_or_else(Vec::new, |claims| audit::rulings(run, claims)),
        disturbances: caveats::disturbances(run),
        ceiling: input.ceiling.cloned(),
        published: input.published.cloned(),
        caveats: run.caveats.clone(),
        refused_cells: input.refused.to_vec(),
        refused_counters: manifest.survey.counters_refused.clone(),
        left_out: input.left_out.to_vec(),
        failures: input.failures.to_vec(),
        figures: figures::all(run),
        matrices: matrix::all(run),
        speed_ups: speed_ups::all(run),
    }
}

/// Published claims compared with a run: the rulings alone, in the order of the claims.
pub fn audit(input: Input<'_>, claims: &Grounds) -> Vec<Audited> {
    let trials = Trials::of_run(&input);
    audit::rulings(&judge(measure(&input, &trials)), claims)
}

/// The cells of decided comparisons, baseline first, in descending order of their difference: those to
/// count where not all can be. A pair whose verdict a caveat withholds is not decided.
pub fn pairs_to_count(input: Input<'_>) -> Vec<[String; 2]> {
    let trials = Trials::of_run(&input);
    let run = judge(measure(&input, &trials));
    let candidates = run
        .findings
        .iter()
        .filter(|f| causes::is_worth_a_reason(f, &run.stalls));
    causes::greatest(candidates, |_| true)
        .into_iter()
        .map(|f| [f.baseline.clone(), f.cell.clone()])
        .collect()
}
