//! Questions about why, each answered from the run or said what is missing.

use bytecost_spec::Metric;

use crate::phrases;
use crate::result::Explanation;
use crate::view::View;

mod asked;
mod cache_levels;
mod cache_steps;
mod causes;
mod copies;
mod cpu_time;
mod files;
mod ranges;
mod servers;
mod sockets;
mod threads;
mod unexpected;
mod why;
mod work;

use asked::{Evidence, PairQuery};
use why::{Explained, MOST_ROWS, Missing};

/// What is missing where evidence was asked for, and no cell has it.
const CUT_SHORT: &str = "no cell was looked at to the end: continue with --resume";

/// A question, which runs are asked it, and how it is answered.
struct Question {
    key: &'static str,
    text: &'static str,
    asks: fn(&View<'_>) -> bool,
    answers: Answers,
    would_change: &'static str,
}

enum Answers {
    /// By what is decided of pairs; else it says what it needs. What else bears on it is evidence.
    Pairs(PairQuery, &'static str, Evidence),
    /// In its own way; none where there is nothing to be explained.
    Own(fn(&View<'_>) -> Option<Explained>),
}

/// All questions, in the order in which they are answered.
const QUESTIONS: [&[Question]; 7] = [
    &[causes::QUESTION, copies::QUESTION, cpu_time::QUESTION],
    sockets::QUESTIONS,
    &[threads::QUESTION, cache_levels::QUESTION],
    files::QUESTIONS,
    servers::QUESTIONS,
    &[unexpected::QUESTION],
    work::QUESTIONS,
];

/// The questions that the run is about, each with its answer or with what is missing. Those that
/// no run on this machine can answer are one at the end.
pub(crate) fn all(view: &View<'_>) -> Vec<Explanation> {
    let (mut asked, mut never) = (Vec::new(), None);
    for question in QUESTIONS.into_iter().flatten().filter(|q| (q.asks)(view)) {
        let found = match &question.answers {
            Answers::Pairs(asked, needs, evidence) => Some(view.explained(asked, needs, *evidence)),
            Answers::Own(ask) => ask(view),
        };
        let Some(found) = found else { continue };
        let is_never = matches!(&found.answer, Err(missing) if missing.ever);
        let explanation = question.with(found);
        match (&mut never, is_never) {
            (_, false) => asked.push(explanation),
            (None, true) => never = Some(explanation),
            (Some(all), true) => join(all, explanation),
        }
    }
    asked.extend(never);
    asked
}

/// Two questions that cannot be answered, as one.
fn join(all: &mut Explanation, more: Explanation) {
    all.key.push_str(&format!("+{}", more.key));
    all.question.push_str(&format!(" {}", more.question));
    all.numbers.extend(more.numbers);
    all.evidence.extend(more.evidence);
    if all.missing != more.missing {
        let both = [all.missing.take(), more.missing];
        let both: Vec<String> = both.into_iter().flatten().collect();
        all.missing = Some(both.join("; "));
    }
}

impl Question {
    fn with(&self, found: Explained) -> Explanation {
        let (answer, missing) = match found.answer {
            Ok(answer) => (Some(phrases::capital(&answer)), None),
            Err(missing) => (None, Some(missing.why)),
        };
        Explanation {
            key: self.key.to_owned(),
            question: self.text.to_owned(),
            would_change: answer.is_some().then(|| self.would_change.to_owned()),
            answer,
            numbers: found.numbers,
            evidence: found.evidence,
            missing,
            findings: found.findings,
        }
    }
}

/// Why a metric is absent, as its cells say.
fn why_absent(view: &View<'_>, metric: Metric) -> String {
    let absent = view.cells.iter().find_map(|c| c.absent.get(&metric));
    absent.map_or_else(
        || "they were not counted".to_owned(),
        |why| why.trim_end_matches('.').to_owned(),
    )
}
