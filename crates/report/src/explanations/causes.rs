//! Causes of a difference in cost between two ways: events per message, their cost and their place.

use bytecost_analysis::{Cause, CauseMeans, CellTime, Fact, Finding, FindingCauses, Uncertain};

use super::why::{AnswerParts, MOST_ROWS, Why};
use crate::phrases;

/// Ends of a share's interval from here on say nothing.
const MOST_HIGH: f64 = 1.5;

pub(super) fn answer(why: &Why<'_>) -> AnswerParts {
    let shown = why.pairs.iter().take(1 + MOST_ROWS);
    let mut sentences = shown.filter_map(|v| {
        let mut all = why.a.causes.iter();
        let causes = all.find(|c| c.finding == v.finding.number)?;
        Some(sentence(why, v.finding, causes) + ".")
    });
    AnswerParts {
        answer: sentences.next().unwrap_or_default(),
        numbers: sentences.collect(),
        evidence: evidence(why),
    }
}

/// `` `send-fields` has 12.3× (12.1 to 12.5) the CPU time per byte of `send` at 256 B: 8.08 system
/// calls a message instead of 1.04 explain 51 % of the difference (45 to 57)``
fn sentence(why: &Why<'_>, finding: &Finding, found: &FindingCauses) -> String {
    let cell = why.a.result(&finding.cell);
    let whose = if cell.is_some_and(|c| c.cell.is_served()) {
        "of the server for each request".to_owned()
    } else {
        why.a.study.unit.in_words("a message")
    };
    let causes: Vec<String> = found.causes.iter().map(|c| cause(c, &whose)).collect();
    let has_costs = found.causes.iter().any(|c| c.cost_ns.is_some());
    let by_samples = match found.by {
        CauseMeans::Samples => "by CPU samples, ",
        CauseMeans::Counts | CauseMeans::TimedTrials => "",
    };
    let of_difference = |text: &str| text.replacen(" %", " % of the difference", 1);
    let reason = match (&found.explained, causes.as_slice()) {
        (_, []) => match found.by {
            CauseMeans::Samples => "its CPU samples are of no kind that stands out".to_owned(),
            CauseMeans::Counts => "the counts do not explain it".to_owned(),
            CauseMeans::TimedTrials => "the counts of timed trials do not explain it".to_owned(),
        },
        (Some(_), [one]) => of_difference(one),
        (Some(all), _) => {
            let causes = of_difference(&causes.join(", "));
            format!("{causes}; together {}", share(all))
        }
        (None, _) if has_costs => format!(
            "{}; these cost more than the whole difference, so that no share is given",
            phrases::list(causes)
        ),
        (None, _) => phrases::list(causes),
    };
    format!("{}: {by_samples}{reason}", amount(why, finding))
}

/// `` `send-fields` has 12.3× (12.1 to 12.5) the CPU time per byte of `send` at 256 B``.
pub(super) fn amount(why: &Why<'_>, finding: &Finding) -> String {
    let both = [&finding.value, &finding.baseline_value];
    let [way, base] = both.map(|value| finding.axis.subject(value));
    let (noun, place) = (why.metric(finding.metric), why.place(finding));
    let amount = match (&finding.amount_withheld, finding.ratio < 1.0) {
        (Some(_), true) => format!("less {noun} than {base}"),
        (Some(_), false) => format!("more {noun} than {base}"),
        (None, _) => {
            let ratio = phrases::ratio(finding.ratio, finding.low, finding.high);
            format!("{ratio} the {noun} of {base}")
        }
    };
    format!("{way} has {amount}{place}")
}

/// `8.08 system calls a message instead of 1.04 explain 51 % (45 to 57)`; what the one that costs
/// more has less of saves.
fn cause(cause: &Cause, whose: &str) -> String {
    let what = phrases::cause(cause.of, [cause.from, cause.to], whose);
    match cause.share {
        Some(part) if part.value < 0.0 => {
            let saved = Uncertain {
                value: -part.value,
                low: -part.high,
                high: -part.low,
            };
            format!("{what} save {}", share(&saved))
        }
        Some(part) => format!("{what} explain {}", share(&part)),
        None => what,
    }
}

/// `51 % (45 to 57)`; `27 % or more`, by the lower end, where the upper one says nothing.
fn share(share: &Uncertain) -> String {
    let ends = [share.value, share.low, share.high];
    let [value, low, high] = ends.map(|v| (100.0 * v).round());
    if share.high > MOST_HIGH {
        format!("{low} % or more")
    } else {
        format!("{value} % ({low} to {high})")
    }
}

/// Method of the CPU samples, or the reason why there are none.
fn evidence(why: &Why<'_>) -> Vec<String> {
    for fact in &why.explanation.facts {
        if let Fact::NoCpuSamples(reason) = fact {
            return vec![format!("no CPU samples: {reason}")];
        }
    }
    let times = &why.a.cpu_time;
    let samples: u64 = times.iter().map(|c| c.looks).sum();
    if samples == 0 {
        return Vec::new();
    }
    let shares: [fn(&CellTime) -> f64; 4] =
        [|c| c.unattributed, |c| c.moved, |c| c.rest, |c| c.lost];
    let most = |share: fn(&CellTime) -> f64| times.iter().map(share).fold(0.0, f64::max);
    let [unknown, moved, rest, lost] = shares.map(|share| phrases::percent(most(share)));
    let cells = phrases::count(times.len(), "cell");
    vec![
        format!(
            "{samples} CPU-clock samples in one trial of each of {cells}; at most {unknown} of a cell's are of functions that the map does not know"
        ),
        format!(
            "at most {moved} of a cell's samples landed where interrupts are switched on again, or in a function that serves all, and were given to their callers; what runs with interrupts off is not seen otherwise"
        ),
        format!(
            "at most {rest} of the busy samples of a cell were not attributed to either side, and {lost} were dropped"
        ),
    ]
}
