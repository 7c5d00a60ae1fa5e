//! Why one way costs less than another: what its messages take less of, at what cost, and where.

use bytecost_spec::evidence::Means;
use itertools::Itertools as _;

use super::{Answered, Answers, Explained, MOST_ROWS, Question};
use crate::causes::{greatest, is_worth_a_reason};
use crate::phrases;
use crate::result::{Cause, CauseMeans, CellTime, Finding, FindingCauses, Uncertain};

/// Ends of a share's interval from here on say nothing.
const MOST_HIGH: f64 = 1.5;

pub(super) const QUESTION: Question = Question {
    key: "why-one-way-wins",
    text: "Why is one way better than another?",
    asks: |_| true,
    answers: Answers::Own(ask),
    would_change: "another size or transport; a path on which the kernel copies less, or more (--transport wire)",
};

fn ask(run: &Explained<'_>) -> Option<Answered> {
    let causes = |f: &Finding| run.causes.iter().find(|c| c.finding == f.id);
    let has_causes = |f: &&Finding| is_worth_a_reason(f, &run.stalls) && causes(f).is_some();
    let is_counted = |f: &Finding| causes(f).is_some_and(|c| c.by != CauseMeans::TimedTrials);
    let findings = greatest(run.findings.iter().filter(has_causes), is_counted);
    let sentence = |f: &Finding| {
        let sentence = causes(f).map(|c| sentence(run, f, c));
        sentence.unwrap_or_default() + "."
    };
    let answer = match findings.first() {
        Some(first) => Ok(sentence(first)),
        None => {
            let is_counted = |m: &Means| run.asked(*m).is_some_and(|a| !a.unasked);
            let mut means = [Means::Copies, Means::Counts, Means::Time].into_iter();
            let means = means.find(is_counted)?;
            let refused = run.asked(means).and_then(|a| a.refused.as_deref());
            let why = refused.unwrap_or("no two counted cells are decided to differ");
            Err(why.to_owned())
        }
    };
    let shown = findings.iter().take(1 + MOST_ROWS);
    Some(Answered {
        numbers: shown.clone().skip(1).map(|f| sentence(f)).collect(),
        evidence: evidence(run),
        findings: shown.map(|f| f.id.clone()).collect(),
        ..Answered::of(answer)
    })
}

/// `` `send-fields` has 12.3× (12.1 to 12.5) the CPU time per byte of `send` at 256 B: 8.08 system
/// calls a message instead of 1.04 explain 51 % of the difference (45 to 57)``
fn sentence(run: &Explained<'_>, finding: &Finding, found: &FindingCauses) -> String {
    let unit = run.trials.unit;
    let cell = run.result(&finding.cell);
    let whose = match cell.is_some_and(|c| c.cell.is_served()) {
        true => "of the server for each request".to_owned(),
        false => unit.in_words("a message"),
    };
    let told = found.causes.iter().map(|c| cause(c, &whose)).collect_vec();
    let has_costs = found.causes.iter().any(|c| c.cost_ns.is_some());
    let by_samples = match found.by {
        CauseMeans::Samples => "by CPU samples, ",
        CauseMeans::Counts | CauseMeans::TimedTrials => "",
    };
    let reason = match (&found.explained, told.as_slice()) {
        (_, []) => match found.by {
            CauseMeans::Samples => "its CPU samples are of no kind that stands out".to_owned(),
            CauseMeans::Counts => "the counts do not explain it".to_owned(),
            CauseMeans::TimedTrials => "the counts of timed trials do not explain it".to_owned(),
        },
        (Some(_), [one]) => one.replacen(" %", " % of the difference", 1),
        (Some(all), _) => {
            let told = told.join(", ").replacen(" %", " % of the difference", 1);
            format!("{told}; together {}", share(all))
        }
        (None, _) if has_costs => format!(
            "{}; these cost more than the whole difference, so that no share is given",
            phrases::list(told)
        ),
        (None, _) => phrases::list(told),
    };
    let both = [&finding.value, &finding.baseline_value];
    let [way, base] = both.map(|value| finding.axis.subject(value));
    let (noun, place) = (run.words(finding.metric), run.place(finding));
    let amount = match (&finding.amount_withheld, finding.ratio < 1.0) {
        (Some(_), true) => format!("less {noun} than {base}"),
        (Some(_), false) => format!("more {noun} than {base}"),
        (None, _) => {
            let ratio = phrases::ratio(finding.ratio, finding.low, finding.high);
            format!("{ratio} the {noun} of {base}")
        }
    };
    format!("{way} has {amount}{place}: {by_samples}{reason}")
}

/// `8.08 system calls a message instead of 1.04 explain 51 % (45 to 57)`; what the dearer way has
/// less of saves.
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
    match share.high > MOST_HIGH {
        true => format!("{low} % or more"),
        false => format!("{value} % ({low} to {high})"),
    }
}

/// How the CPU samples were taken, or why there are none where they were asked for.
fn evidence(run: &Explained<'_>) -> Vec<String> {
    if let Some(why) = (run.asked(Means::Time)).and_then(|a| a.refused.as_deref()) {
        return vec![format!("no CPU samples: {why}")];
    }
    let shares: [fn(&CellTime) -> f64; 4] =
        [|c| c.unattributed, |c| c.moved, |c| c.rest, |c| c.lost];
    let most = |share: fn(&CellTime) -> f64| run.cpu_time.iter().map(share).fold(0.0, f64::max);
    let [unknown, moved, rest, lost] = shares.map(|share| phrases::percent(most(share)));
    let samples: u64 = run.cpu_time.iter().map(|c| c.looks).sum();
    let cells = phrases::count(run.cpu_time.len(), "cell");
    if samples == 0 {
        return Vec::new();
    }
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
