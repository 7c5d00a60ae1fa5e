//! From samples to findings and caveats: pure, so that any run can be judged again anywhere.
//!
//! [`analyse`] takes all that is known of a run as values and gives back an [`Analysis`], which
//! holds everything that a report says. [`progress`] is the same arithmetic while a run goes on.

mod advice;
mod audit;
mod beside_sides;
mod books;
mod causes;
mod caveats;
pub mod ceiling;
mod cells;
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
mod main_effects;
mod matrix;
mod pairing;
pub mod phrases;
mod places;
pub mod progress;
mod regimes;
pub mod result;
mod roles;
mod round_noise;
mod rounds;
mod run;
mod speed_ups;
mod stalls;
mod trials;
mod twins;
mod value;
mod view;
mod window_books;

pub use audit::{AS_PUBLISHED, Grounds, audit, beside};
pub use caveats::caveat_kinds;
pub use cells::typical;
pub use grid::RANGES;
pub use grouping::grouped;
pub use phrases::{by_rounds, command_line, command_of_run, peer_again};
pub use progress::{Interim, LiveEstimate, LiveEstimates, Progress, log_ratios};
pub use result::*;
pub use rounds::{noise_between_rounds, round_summaries};

use trials::Trials;
use view::View;

/// Judges a run: the same input always gives the same analysis.
///
/// Bad or foreign samples are left out, never a reason to stop; what cannot be had stands in the
/// result with its reason.
pub fn analyse(input: Input<'_>) -> Analysis {
    let trials = Trials::of_run(&input);
    let manifest = input.manifest;
    let study = run::study_facts(manifest, &trials);
    let twins = twins::all(&trials);
    let comparisons = findings::comparisons(&trials);
    let mut known = Analysis {
        format: FORMAT,
        host: manifest.host.clone(),
        peer: PeerFacts::of(manifest),
        loop_floor_ns_per_message: cells::loop_floor(&trials),
        counters_cost: cells::counters_cost(&manifest.survey.counters_cost),
        noise_floor: twins::floor(&twins, &trials),
        twins,
        cells: cell_results(&input, &trials),
        findings: comparisons.iter().map(|c| c.unjudged()).collect(),
        study,
        cpu_time: cpu_time::all(&input),
        books: books::all(&trials, &input),
        roles: roles::all(&trials),
        footprints: footprint::all(&input),
        ceiling: input.ceiling.cloned(),
        published: input.published.cloned(),
        refusals: [input.refusals, &manifest.survey.counters_refused].concat(),
        left_out: input.left_out.to_vec(),
        failures: input.failures.to_vec(),
        ..Analysis::default()
    };
    copies::take(&mut known, &input, &trials);
    let mut view = View {
        input: &input,
        trials: &trials,
        stalls: stalls::Stalls::of(&trials),
        known,
    };
    regimes::take(&mut view);
    view.known.caveats = caveats::withholding(&view);
    view.known.findings = findings::judged(&view, &comparisons);
    view.known.caveats = caveats::all(&view);
    view.known.disturbances = caveats::disturbances(&view.known);
    view.known.causes = causes::all(&view);
    view.known.run = run::run_facts(&view);
    view.known.families = families::facts(&view);
    view.known.main_effects = main_effects::all(&view);
    view.known.crossovers = crossovers::all(&view);
    view.known.figures = figures::all(&view);
    view.known.matrices = matrix::all(&view);
    view.known.speed_ups = speed_ups::all(&view);
    view.known.advice = advice::all(&view);
    view.known.explanations = explanations::all(&view);
    view.known.explanations.extend(ceiling::explanation(&view));
    view.known
}

/// The cells of decided comparisons, baseline first, those that differ most before others: what is
/// to be counted where not all can be. A pair whose verdict a caveat withholds is not decided.
pub fn pairs_to_count(input: Input<'_>) -> Vec<[String; 2]> {
    let stalls = stalls::Stalls::of(&Trials::of_run(&input));
    let findings = analyse(input).findings;
    let told = findings
        .iter()
        .filter(|f| causes::is_worth_a_reason(f, &stalls));
    let decided = causes::greatest(told, |_| true).into_iter();
    decided
        .map(|f| [f.baseline.clone(), f.cell.clone()])
        .collect()
}

fn cell_results(input: &Input<'_>, trials: &Trials<'_>) -> Vec<CellResult> {
    let mut cells = cells::results(trials, &input.manifest.survey);
    cells::take_published(&mut cells, input);
    let device = input.manifest.survey.files.as_ref().and_then(|f| f.device);
    ceiling::take_shares(&mut cells, trials, input.ceiling, device);
    cells
}
