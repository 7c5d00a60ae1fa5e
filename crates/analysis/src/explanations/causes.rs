//! Why one way costs less than another: what its messages take less of, and what that costs.

use bytecost_spec::evidence::Means;
use bytecost_spec::units;
use itertools::Itertools as _;

use super::{Answers, Explained, MOST_ROWS, Question, View, cpu_time};
use crate::causes::{greatest, is_worth_a_reason};
use crate::phrases;
use crate::result::{Cause, CauseOf, Finding, FindingCauses, Uncertain};

/// Ends of a share's interval from here on say nothing.
const MOST_HIGH: f64 = 1.5;

pub(super) const QUESTION: Question = Question {
    key: "why-one-way-wins",
    text: "Why is one way better than another?",
    asks: |_| true,
    answers: Answers::Own(ask),
    would_change: "another size or transport; a path on which the kernel copies less, or more (--transport wire)",
};

fn ask(view: &View<'_>) -> Option<Explained> {
    let causes = |f: &Finding| view.causes.iter().find(|c| c.finding == f.id);
    let has_causes = |f: &&Finding| is_worth_a_reason(f, view.stalls) && causes(f).is_some();
    let is_counted = |f: &Finding| causes(f).is_some_and(|c| c.counted);
    let findings = greatest(view.findings.iter().filter(has_causes), is_counted);
    let sentence = |f: &Finding| {
        let told = causes(f).map_or_else(String::new, |c| sentence(view, f, c));
        match cpu_time::between(view, f) {
            Some(time) => format!("{told}; {time}."),
            None => format!("{told}."),
        }
    };
    let answer = match findings.first() {
        Some(first) => Ok(sentence(first)),
        None => {
            let is_counted = |m: &Means| view.asked(*m).is_some_and(|a| !a.unasked);
            let means = [Means::Copies, Means::Counts]
                .into_iter()
                .find(is_counted)?;
            let refused = view.asked(means).and_then(|a| a.refused.as_deref());
            let why = refused.unwrap_or("no two counted cells are decided to differ");
            Err(why.to_owned())
        }
    };
    let shown = findings.iter().take(1 + MOST_ROWS);
    Some(Explained {
        numbers: shown.clone().skip(1).map(|f| sentence(f)).collect(),
        findings: shown.map(|f| f.id.clone()).collect(),
        ..Explained::of(answer)
    })
}

/// `` `send-fields` has 12.3× (12.1 to 12.5) the CPU time per byte of `send` at 256 B: 8.08 system
/// calls a message instead of 1.04 explain 51 % of the difference (45 to 57)``
fn sentence(view: &View<'_>, finding: &Finding, found: &FindingCauses) -> String {
    let unit = view.trials.unit;
    let cell = view.result(&finding.cell);
    let whose = match cell.is_some_and(|c| c.cell.is_served()) {
        true => "of the server for each request".to_owned(),
        false => unit.in_words("a message"),
    };
    let told = found.causes.iter().map(|c| cause(c, &whose)).collect_vec();
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
            phrases::list(told)
        ),
        (None, _) => phrases::list(told),
    };
    let both = [&finding.value, &finding.baseline_value];
    let [way, base] = both.map(|value| finding.axis.subject(value));
    let ratio = phrases::ratio(finding.ratio, finding.low, finding.high);
    let (noun, place) = (view.words(finding.metric), view.place(finding));
    format!("{way} has {ratio} the {noun} of {base}{place}: {reason}")
}

/// `8.08 system calls a message instead of 1.04 explain 51 % (45 to 57)`.
fn cause(cause: &Cause, whose: &str) -> String {
    let (from, to) = (cause.from, cause.to);
    let what = match cause.of {
        CauseOf::Copies => format!("{to:.2} copies of each byte instead of {from:.2}"),
        CauseOf::Event(event) => {
            let ([from, to], title) = ([from, to].map(units::number), event.row().title);
            format!("{to} {title} {whose} instead of {from}")
        }
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
