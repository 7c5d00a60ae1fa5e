//! Why one way costs less than another: what its messages take less of, and what that costs.

use bytecost_spec::evidence::Means;
use bytecost_spec::units;

use super::{Explained, MOST_ROWS, Why, cpu_time};
use crate::causes::{greatest, is_worth_a_reason};
use crate::phrases;
use crate::result::{Cause, CauseOf, Finding, FindingCauses, Uncertain};

/// Ends of a share's interval from here on say nothing.
const MOST_HIGH: f64 = 1.5;

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let view = why.view;
    let told = |answer, numbers, findings| Explained {
        answer,
        numbers,
        evidence: Vec::new(),
        would_change: "another size or transport; a path on which the kernel copies less, or more (--transport wire)",
        findings,
    };
    let causes = |f: &Finding| view.causes.iter().find(|c| c.finding == f.id);
    let has_causes = |f: &&Finding| is_worth_a_reason(f, view.stalls) && causes(f).is_some();
    let is_counted = |f: &Finding| causes(f).is_some_and(|c| c.counted);
    let findings = greatest(view.findings.iter().filter(has_causes), is_counted);
    let sentence = |f: &Finding| {
        let told = causes(f).map_or_else(String::new, |c| sentence(why, f, c));
        match cpu_time::between(why, f) {
            Some(time) => format!("{told}; {time}."),
            None => format!("{told}."),
        }
    };
    let Some(first) = findings.first() else {
        let mut asked = view.input.manifest.evidence.iter();
        let asked =
            asked.find(|a| matches!(a.means, Means::Copies | Means::Counts) && !a.unasked)?;
        let missing = match &asked.refused {
            Some(refused) => refused.clone(),
            None => "no two counted cells differ by more than the blocks leave open".to_owned(),
        };
        return Some(told(Err(missing), Vec::new(), Vec::new()));
    };
    let numbers = findings.iter().skip(1).take(MOST_ROWS);
    let numbers = numbers.map(|f| sentence(f)).collect();
    let ids = findings.iter().take(1 + MOST_ROWS).map(|f| f.id.clone());
    Some(told(Ok(sentence(first)), numbers, ids.collect()))
}

/// Where a finding's cells are: `` at 64 KiB over loopback``, with a space in front.
pub(super) fn place(why: &Why<'_>, finding: &Finding) -> String {
    let cell = why.view.cells.iter().find(|c| c.id == finding.cell);
    let place = cell.map_or_else(String::new, |c| {
        let others = why.varied.iter().filter(|a| **a != finding.axis);
        let values: Vec<_> = others.map(|a| (*a, c.cell.value(*a))).collect();
        phrases::circumstances(&values)
    });
    match place.is_empty() {
        true => place,
        false => format!(" {place}"),
    }
}

/// `` `send-fields` has 12.3× (12.1 to 12.5) the CPU time per byte of `send` at 256 B: 8.08 system
/// calls a message instead of 1.04 explain 51 % of the difference (45 to 57)``
fn sentence(why: &Why<'_>, finding: &Finding, found: &FindingCauses) -> String {
    let mut cells = why.view.cells.iter();
    let cell = cells.find(|c| c.id == finding.cell);
    let whose = match cell.is_some_and(|c| c.cell.is_served()) {
        true => "of the server for each request",
        false => "a message",
    };
    let told: Vec<String> = found.causes.iter().map(|c| cause(c, whose)).collect();
    let has_costs = found.causes.iter().any(|c| c.cost_ns.is_some());
    let reason = match (&found.explained, told.as_slice()) {
        (_, []) if found.counted => "the counts do not explain it".to_owned(),
        (_, []) => "the counts of timed trials do not explain it".to_owned(),
        (Some(_), [one]) => one.replacen(" %", " % of the difference", 1),
        (Some(all), _) => {
            let told = told.join(", ").replacen(" %", " % of the difference", 1);
            format!("{told}; together {}", share(all))
        }
        (None, _) if has_costs => format!(
            "{}; these cost more than the whole difference, so that no share is given",
            phrases::list(&told)
        ),
        (None, _) => phrases::list(&told),
    };
    format!(
        "{} has {} the {} of {}{}: {reason}",
        finding.axis.subject(&finding.value),
        phrases::ratio(finding.ratio, finding.low, finding.high),
        phrases::metric(finding.metric),
        finding.axis.subject(&finding.baseline_value),
        place(why, finding),
    )
}

/// `8.08 system calls a message instead of 1.04 explain 51 % (45 to 57)`.
fn cause(cause: &Cause, whose: &str) -> String {
    let what = match cause.of {
        CauseOf::Copies => format!(
            "{:.2} copies of each byte instead of {:.2}",
            cause.to, cause.from
        ),
        CauseOf::Event(event) => format!(
            "{} {} {whose} instead of {}",
            units::number(cause.to),
            event.row().title,
            units::number(cause.from)
        ),
    };
    match &cause.share {
        Some(part) => format!("{what} explain {}", share(part)),
        None => what,
    }
}

/// `51 % (45 to 57)`; `27 % or more` where the upper end says nothing.
fn share(share: &Uncertain) -> String {
    let ends = [share.value, share.low, share.high];
    let [value, low, high] = ends.map(|v| (100.0 * v).round());
    match share.high > MOST_HIGH {
        true => format!("{value} % or more"),
        false => format!("{value} % ({low} to {high})"),
    }
}
