//! Why one way costs less than another: what its messages take less of, and what that costs.

use bytecost_spec::evidence::Means;

use super::{Answers, Explained, MOST_ROWS, Question, Why, cpu_time};
use crate::causes::{greatest, is_worth_a_reason};
use crate::result::Finding;

pub(super) const QUESTION: Question = Question {
    key: "why-one-way-wins",
    text: "Why is one way better than another?",
    asks: |_| true,
    answers: Answers::Own(ask),
    would_change: "another size or transport; a path on which the kernel copies less, or more (--transport wire)",
};

fn ask(why: &Why<'_>) -> Option<Explained> {
    let view = why.view;
    let causes = |f: &Finding| view.causes.iter().find(|c| c.finding == f.id);
    let has_causes = |f: &&Finding| is_worth_a_reason(f, view.stalls) && causes(f).is_some();
    let is_counted = |f: &Finding| causes(f).is_some_and(|c| c.counted);
    let findings = greatest(view.findings.iter().filter(has_causes), is_counted);
    let sentence = |f: &Finding| {
        let told = causes(f).map_or("", |c| &c.sentence);
        match cpu_time::between(why, f) {
            Some(time) => format!("{}; {time}.", told.trim_end_matches('.')),
            None => told.to_owned(),
        }
    };
    let answer = match findings.first() {
        Some(first) => Ok(sentence(first)),
        None => {
            let is_counted = |m: &Means| why.asked(*m).is_some_and(|a| !a.unasked);
            let means = [Means::Copies, Means::Counts]
                .into_iter()
                .find(is_counted)?;
            let refused = why.asked(means).and_then(|a| a.refused.as_deref());
            Err(refused
                .unwrap_or("no two counted cells are decided to differ")
                .into())
        }
    };
    let shown = findings.iter().take(1 + MOST_ROWS);
    Some(Explained {
        numbers: shown.clone().skip(1).map(|f| sentence(f)).collect(),
        findings: shown.map(|f| f.id.clone()).collect(),
        ..Explained::of(answer)
    })
}
