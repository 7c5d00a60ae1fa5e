//! What the distance between two CPUs costs two threads that take turns.

use super::{Explained, Why};
use crate::matrix;
use crate::phrases;

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let view = why.view;
    let mut pings = view.trials.moving().filter(|c| c.route.is_ping());
    pings.next()?;
    let all = matrix::all(view.input, view.trials, view.cells, why.varied);
    let named =
        |mover: &str, panel: &[_]| format!("`{mover}`{}", phrases::joined_circumstances(panel));
    let answers: Vec<String> = (all.iter())
        .filter_map(|m| {
            let first = m.words.first()?;
            let clause = first.trim_end_matches('.');
            let clause = clause
                .strip_prefix("Quickest")
                .map_or_else(|| clause.to_owned(), |rest| format!("quickest{rest}"));
            Some(format!("{}: {clause}", named(&m.mover, &m.panel)))
        })
        .collect();
    let answer = if answers.is_empty() {
        Err(
            "needs two pairs of CPUs, as `--placement pairs` or `--placement 0:0,0:1` names them"
                .to_owned(),
        )
    } else {
        Ok(format!("{}.", answers.join("; ")))
    };
    let numbers = all.iter().flat_map(|m| {
        let rest = m.words.iter().skip(1);
        rest.map(move |words| format!("{}: {words}", named(&m.mover, &m.panel)))
    });
    Some(Explained {
        answer,
        numbers: numbers.collect(),
        evidence: view
            .input
            .manifest
            .host
            .virtualization
            .iter()
            .map(|v| format!("under {v}: a hypervisor may move virtual CPUs, and waking one up goes through it"))
            .collect(),
        would_change: "CPUs that never sleep while they idle, which makes wake-ups across CPUs cheaper, other pairs (--placement), and a quiet machine",
        findings: Vec::new(),
    })
}
