//! From samples to findings and caveats: pure, so that any run can be judged again anywhere.
//!
//! [`analyse`] takes all that is known of a run as values and gives back an [`Analysis`], which
//! holds everything that a report says. [`progress`] is the same arithmetic while a run goes on.

mod advice;
mod audit;
mod bisection;
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
mod phrases;
mod places;
pub mod progress;
pub mod result;
mod roles;
mod run;
mod speed_ups;
mod stalls;
mod trials;
mod twins;
mod value;
mod view;

pub use advice::UNDECIDED;
pub use audit::{AS_PUBLISHED, Grounds, audit, beside};
pub use bisection::bisected;
pub use caveats::caveat_kinds;
pub use cells::typical;
pub use grouping::grouped;
pub use phrases::command_line;
pub use progress::{Interim, LiveEstimate, LiveEstimates, Progress, log_ratios};
pub use result::*;

use trials::Trials;

/// Judges a run: the same input always gives the same analysis.
///
/// Bad or foreign samples are left out, never a reason to stop; what cannot be had stands in the
/// result with its reason.
pub fn analyse(input: Input<'_>) -> Analysis {
    let trials = Trials::of_run(&input);
    let study = run::study_facts(input.manifest, &trials);
    let mut cells = cell_results(&input, &trials);
    let stalls = stalls::Stalls::of(&trials);
    let findings = findings::all(input.manifest, &trials, &study.varied);
    let cpu_time = cpu_time::all(&input);
    let counted = copies::CountedCells::of(&input, &cells);
    copies::take(&mut cells, &counted.copies, &input, &trials);
    let footprints = footprint::all(&input);
    let books = books::all(&trials, &input);
    let twins = twins::all(&trials);
    let noise_floor = twins::floor(&twins, &trials);
    let mut view = view::View {
        input: &input,
        trials: &trials,
        cells: &cells,
        findings: &findings,
        stalls: &stalls,
        varied: &study.varied,
        caveats: &[],
        cpu_time: &cpu_time,
        copies: &counted.copies,
        cost: counted.cost,
        causes: &[],
        footprints: &footprints,
        books: &books,
        twins: &twins,
        noise_floor: noise_floor.as_ref(),
    };
    let withholding = caveats::withholding(&view);
    view.caveats = &withholding;
    let findings = caveats::withhold(&view);
    view.findings = &findings;
    let caveats = caveats::all(&view);
    view.caveats = &caveats;
    let causes = causes::all(&view);
    view.causes = &causes;
    let speed_ups = speed_ups::all(&view);
    let (advice, answers) = answered(&view, &speed_ups);
    let mut explanations = explanations::all(&view);
    explanations.extend(ceiling::explanation(&view));
    Analysis {
        format: FORMAT,
        crossovers: crossovers::all(&view),
        figures: figures::all(&view),
        main_effects: main_effects::all(&view),
        matrices: matrix::all(&view),
        run: run::run_facts(&input, &trials, &findings),
        host: input.manifest.host.clone(),
        peer: PeerFacts::of(input.manifest),
        answers,
        advice,
        families: families::facts(&findings, input.manifest.rate_share()),
        loop_floor_ns_per_message: cells::loop_floor(&trials),
        counters_cost: cells::counters_cost(&input.manifest.survey.counters_cost),
        twins,
        noise_floor,
        caveats,
        refusals: [input.refusals, &input.manifest.survey.counters_refused].concat(),
        left_out: input.left_out.to_vec(),
        failures: input.failures.to_vec(),
        study,
        cells,
        findings,
        explanations,
        cpu_time,
        copies: counted.copies,
        counts: counted.counts,
        causes,
        books,
        roles: roles::all(&trials),
        counting_cost: counted.cost,
        footprints,
        audit: Vec::new(),
        ceiling: input.ceiling.cloned(),
        published: input.published.cloned(),
        speed_ups,
    }
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
    ceiling::take_shares(&mut cells, &trials.cells, input.ceiling, device);
    cells
}

/// The advice, and the answer: advice, pairs that were not measured, shares of the ceiling.
fn answered(view: &view::View<'_>, speed_ups: &[SpeedUp]) -> (Advice, Vec<AnswerSentence>) {
    let mut advice = advice::all(view);
    let (faster, others) = speed_ups::lines(speed_ups, view.findings);
    // A study of pairs asks how much faster they are.
    advice.lines.splice(0..0, faster);
    let advised = advice.lines.iter().chain(&others);
    let shares = ceiling::answers(view);
    let answers = advised.map(AdviceLine::sentence).chain(shares).collect();
    (advice, answers)
}
