//! The evidence that a new run is to collect.

use anyhow::Result;
use bytecost_lab::host_questions::HostQuestions;
use bytecost_spec::evidence::{EvidenceAsked, Means};
use bytecost_spec::{Cell, Host, Study};
use itertools::Itertools as _;

use super::study::cells;
use crate::args::{self, WantedEvidence};
use crate::failure::bad_input;

/// Names the evidence where the option does not.
const EVIDENCE_VARIABLE: &str = "BYTECOST_EVIDENCE";

/// The evidence to collect, each kind with the reason if it is not available: those of the option or
/// of the environment, or else the default. A study of servers has counts and time alone.
pub fn requested(
    by_option: &[WantedEvidence],
    host: &Host,
    study: &Study,
    questions: &mut HostQuestions<'_>,
) -> Result<Vec<EvidenceAsked>> {
    let by_variable = if by_option.is_empty() {
        from_environment()?
    } else {
        Vec::new()
    };
    let wanted: Vec<WantedEvidence> = [by_option, &by_variable].concat();
    if wanted.len() > 1 && wanted.contains(&WantedEvidence(None)) {
        return Err(bad_input(
            "`none` is evidence of no kind: leave it out, or leave the other kinds out",
        ));
    }
    let is_default = wanted.is_empty();
    let is_of_servers = cells(study).iter().all(Cell::is_served);
    let refused_of_servers = |means| refused_of_servers(means).filter(|_| is_of_servers);
    // A kind of the default that servers do not have is no news to anybody.
    let default = Means::BY_DEFAULT
        .iter()
        .copied()
        .filter(|means| is_default && refused_of_servers(*means).is_none());
    let evidence = wanted
        .iter()
        .filter_map(|w| w.0)
        .chain(default)
        .unique()
        .map(|means| EvidenceAsked {
            means,
            refused: refused_of_servers(means)
                .map(str::to_owned)
                .or_else(|| unavailable(means, host, questions)),
            unasked: is_default,
        });
    Ok(evidence.collect())
}

/// Returns the reason why this machine cannot give evidence by these means; none if it can.
fn unavailable(means: Means, host: &Host, questions: &mut HostQuestions<'_>) -> Option<String> {
    if means == Means::Footprint && host.caches.is_empty() {
        let why = "the kernel reports no caches here (/sys/devices/system/cpu/*/cache)";
        return Some(why.to_owned());
    }
    questions.evidence_refusal(means)
}

fn from_environment() -> Result<Vec<WantedEvidence>> {
    let Ok(text) = std::env::var(EVIDENCE_VARIABLE) else {
        return Ok(Vec::new());
    };
    text.split(',')
        .map(args::evidence)
        .collect::<Result<_, String>>()
        .map_err(|e| bad_input(format!("{EVIDENCE_VARIABLE} is `{text}`: {e}")))
}

fn refused_of_servers(means: Means) -> Option<&'static str> {
    match means {
        Means::Time | Means::Counts => None,
        Means::Copies => Some(
            "the kernel copies requests and responses equally often for every model, so copies of servers are not counted: choose --evidence counts,time, which show where they differ",
        ),
        Means::Footprint => Some(
            "what is displaced is found around one sending flow, which a server's clients are not: choose --evidence counts,time",
        ),
    }
}
