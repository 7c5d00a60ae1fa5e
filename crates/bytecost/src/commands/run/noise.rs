//! The noise of ratios that a new run is planned with.

use bytecost_analysis::Interim;
use bytecost_analysis::ceiling::is_same_machine;
use bytecost_spec::manifest::{RatioNoise, RoundNoise, RoundVariance};
use bytecost_spec::{Host, Manifest, PeerHost, Study};
use bytecost_store::Root;

use crate::recorded_run::{RecordedRun, newest_runs};

/// Number of earlier runs of the same study whose manifests are read.
const MAX_EARLIER: usize = 20;

/// The variance between rounds that is typical of the study's main metric, for a mean over its rounds.
pub fn between_rounds(study: &Study, rounds: &RoundNoise) -> Option<RoundVariance> {
    let metric = study.compare.first()?.metrics.first()?;
    let typical = rounds.typical(*metric);
    Some(RoundVariance {
        variance: typical.variance / f64::from(study.round_count()),
        ..typical
    })
}

/// The noise within the newest run of the study whose trials, machine and peer are the same; an
/// assumption where there is none.
pub fn of_last_run(root: &Root, study: &Study, host: &Host, peer: Option<&PeerHost>) -> RatioNoise {
    // The log is long, so that it is read only of the run that fits.
    newest_runs(root, &study.name)
        .take(MAX_EARLIER)
        .filter(|run| has_same_trials(run.manifest(), study, host, peer))
        .find_map(|run| {
            let recorded = RecordedRun::read(&run).ok()?;
            Interim::new(recorded.input(None)).noise
        })
        .unwrap_or(RatioNoise::ASSUMED)
}

fn has_same_trials(
    earlier: &Manifest,
    study: &Study,
    host: &Host,
    peer: Option<&PeerHost>,
) -> bool {
    let trial = |s: &Study| (s.warmup_ms, s.window_ms, s.design.clone());
    let has_same_peer = match (&earlier.peer, peer) {
        (Some(was), Some(is)) => was.side == is.side && is_same_machine(&was.host, &is.host),
        (None, None) => true,
        _ => false,
    };
    trial(&earlier.study) == trial(study) && is_same_machine(&earlier.host, host) && has_same_peer
}
