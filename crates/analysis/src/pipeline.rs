//! The way from trials to causes: measured, judged, explained.

use crate::comparison::Comparisons;
use crate::input::Input;
use crate::stages::{Explained, Judged, Measured};
use crate::stalls::Stalls;
use crate::trials::Trials;
use crate::{
    books, causes, caveats, cell_results, cells, copies, cpu_time, findings, footprint, run, twins,
};

/// The numbers of a run.
pub(crate) fn measured<'v>(input: &'v Input<'v>, trials: &'v Trials<'v>) -> Measured<'v> {
    let timed = cells::estimates(trials);
    let copies = copies::copies(input, &timed);
    let twins = twins::all(trials);
    let first = Trials::first_attempts(input);
    Measured {
        input,
        trials,
        study: run::study_facts(input.manifest, trials),
        stalls: Stalls::new(trials),
        counts: copies::counts(input),
        counting_cost: copies::counting_cost(input, &timed),
        cells: cell_results::all(input, trials, timed, &copies),
        copies,
        cpu_time: cpu_time::all(input),
        books: books::all(trials, input),
        footprints: footprint::all(input),
        noise_floor: twins::noise_floor(&twins, trials),
        twins,
        comparisons: Comparisons::new(trials, first.as_ref()),
    }
}

/// The verdicts on a run's comparisons, by what its caveats permit.
pub(crate) fn judged<'v>(measured: &'v Measured<'v>) -> Judged<'v> {
    let caveats = caveats::measured(measured);
    let findings = findings::judged(measured, &caveats);
    Judged {
        measured,
        caveats: caveats::judged(measured, caveats, &findings),
        findings,
    }
}

/// The causes of decided differences.
pub(crate) fn explained<'v>(judged: &'v Judged<'v>) -> Explained<'v> {
    Explained {
        measured: judged.measured,
        causes: causes::all(judged),
        judged,
    }
}
