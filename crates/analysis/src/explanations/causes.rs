//! Why one way costs less than another: what its messages take less of, and what that costs.

use bytecost_spec::evidence::Means;

use super::{Explained, MOST_ROWS, Why, cpu_time};
use crate::causes::{greatest, is_worth_a_reason};
use crate::result::Finding;

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
        let told = causes(f).map_or("", |c| &c.sentence);
        match cpu_time::between(why, f) {
            Some(time) => format!("{}; {time}.", told.trim_end_matches('.')),
            None => told.to_owned(),
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
