//! Why zero-copy is not always fastest.

use bytecost_spec::{Measure, Metric, Side};
use itertools::Itertools as _;

use super::one_call::calls;
use super::zero_copy_from::COPIED;
use super::{Explained, MOST_ROWS, Why, estimate, row};
use crate::caveats::copied;
use crate::crossovers::Curve;
use crate::phrases::{self, percent};
use crate::result::Crossing;

/// Copied share from which nothing is saved to speak of.
const COPIES: f64 = 0.5;
/// How many times the calls of the copying way are told as more.
const MORE_CALLS: f64 = 1.05;

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let pairs = why.zero_copy_pairs();
    let (zero, copying) = *pairs.first()?;
    let cost = Metric::both(Measure::CpuSPerGb);
    let measured = pairs.iter().find(|(zero, copying)| {
        why.cells(zero).next().is_some() && why.cells(copying).next().is_some()
    });
    let (zero, copying) = measured.copied().unwrap_or((zero, copying));
    let curves = why.over_size(copying, zero);
    let mut numbers: Vec<String> = curves.iter().filter_map(|c| row(c, cost)).collect();
    numbers.truncate(MOST_ROWS);
    let shares = shares(why, zero);
    numbers.extend(shares.iter().map(|(_, row)| row.clone()));
    let mut evidence: Vec<String> = copied(why.view)
        .iter()
        .filter(|c| c.mover == zero)
        .map(|c| c.sentence())
        .collect();
    evidence.extend([zero, copying].into_iter().filter_map(|m| calls(why, m)));
    let findings = why
        .view
        .findings
        .iter()
        .filter(|f| f.value == zero && f.metric == cost && !why.view.stalls.touch(f));
    Some(Explained {
        answer: answer(why, zero, copying, &shares, curves.first()),
        numbers,
        evidence,
        would_change: "a path on which the kernel does not copy after all (one that leaves this machine, or --transport wire), larger messages, or several buffers in flight for each completion that is taken in",
        findings: findings.map(|f| f.id.clone()).collect(),
    })
}

/// The copied share by transport, each with its row of numbers.
fn shares(why: &Why<'_>, zero: &str) -> Vec<(f64, String)> {
    let transports = why.cells(zero).map(|c| c.cell.transport).unique();
    let of = |transport: bytecost_spec::Transport| {
        let own = why.cells(zero).filter(|c| c.cell.transport == transport);
        let known: Vec<_> = own.filter_map(|c| c.estimates.get(&COPIED)).collect();
        let first = *known.first()?;
        let mean = known.iter().map(|e| e.value).sum::<f64>() / known.len() as f64;
        let told = if known.len() == 1 {
            estimate(first, COPIED)
        } else {
            let low = |e: &&crate::result::Estimate| e.low.unwrap_or(e.value);
            let high = |e: &&crate::result::Estimate| e.high.unwrap_or(e.value).min(1.0);
            let least = percent(known.iter().map(low).fold(f64::INFINITY, f64::min));
            let most = percent(known.iter().map(high).fold(0.0, f64::max));
            if least == most {
                format!("{most} in each of {}", phrases::count(known.len(), "cell"))
            } else {
                let mean = percent(mean);
                format!(
                    "{mean} ({least} to {most} over the intervals of {} cells)",
                    known.len()
                )
            }
        };
        let name = transport.name();
        Some((
            mean,
            format!("`{zero}` over {name}: copied after all {told}"),
        ))
    };
    transports.into_iter().filter_map(of).collect()
}

fn answer(
    why: &Why<'_>,
    zero: &str,
    copying: &str,
    shares: &[(f64, String)],
    curve: Option<&Curve<'_>>,
) -> Result<String, String> {
    for mover in [zero, copying] {
        if why.cells(mover).next().is_none() {
            return Err(format!("no cell with mover `{mover}` was measured"));
        }
    }
    let curve = curve.ok_or_else(|| why.why_no_curve(copying, zero))?;
    let cost = Metric::both(Measure::CpuSPerGb);
    let crossover = curve
        .crossover(why.view, cost)
        .ok_or_else(|| "CPU time per byte was not had at two sizes".to_owned())?;
    let extra = extra_calls(why, zero, copying);
    let copies = shares.iter().any(|(share, _)| *share >= COPIES);
    if crossover.outcome == Crossing::Undecided {
        return Err(format!(
            "whether `{zero}` loses to `{copying}` is not decided: needs more blocks (--budget)"
        ));
    }
    match crossover.outcome {
        Crossing::AlwaysBetter => Ok(format!(
            "here it is: `{zero}` costs less CPU time per byte than `{copying}` at every size that was measured{}.",
            phrases::joined_circumstances(&curve.place)
        )),
        _ if copies => {
            let most = shares.iter().map(|(s, _)| *s).fold(0.0, f64::max);
            Ok(format!(
                "because it saves no copy here: the kernel copied {} of its buffers after all, and what it adds comes on top{extra}.",
                percent(most)
            ))
        }
        Crossing::NeverBetter | Crossing::At(_) if shares.is_empty() => Err(
            "the kernel's word on whether it copied the buffers: no completion was flagged or counted".to_owned(),
        ),
        Crossing::NeverBetter => Ok(format!(
            "because what it adds to a message costs more than the copy that it saves, at every size that was measured{extra}."
        )),
        _ => Ok(format!(
            "because what it adds to each message is paid back only where the copy is large{extra}: {}",
            crossover.sentence
        )),
    }
}

/// How many calls more a message takes, its completions included, where it does.
fn extra_calls(why: &Why<'_>, zero: &str, copying: &str) -> String {
    let metric = Metric {
        measure: Measure::CallsPerMessage,
        side: Side::Sender,
    };
    let most = |mover: &str| {
        let known = why
            .cells(mover)
            .filter_map(|c| Some(c.estimates.get(&metric)?.value));
        known.reduce(f64::max)
    };
    match (most(zero), most(copying)) {
        (Some(zero), Some(copying)) if zero >= MORE_CALLS * copying => format!(
            " (up to {zero:.1} calls a message with completions taken in, instead of {copying:.1})"
        ),
        _ => String::new(),
    }
}
