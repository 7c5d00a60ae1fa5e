//! Conditions of the use of a way.

use bytecost_spec::survey::{Condition, MoverFacts, ServerFacts};
use bytecost_spec::{Axis, Placement};

use crate::stages::Explained;
use crate::trials::CellTrials;

/// All that must hold to use a cell's value of an axis.
pub(super) fn conditions(run: &Explained<'_>, axis: Axis, cell: &CellTrials<'_>) -> Vec<Condition> {
    let survey = &run.measured.input.manifest.survey;
    let of_value = |applies: bool, condition| applies.then_some(condition).into_iter().collect();
    match axis {
        Axis::Mover => survey.mover(&cell.cell.mover).map(MoverFacts::conditions),
        Axis::Server => Some(conditions_of_server(run, cell)),
        Axis::Receiver => survey
            .receiver(&cell.cell.receiver)
            .map(|r| of_value(!r.sees_content, Condition::NoDataNeeded)),
        Axis::Class => {
            let needs_privilege = cell.cell.class.needs_privilege();
            Some(of_value(needs_privilege, Condition::Privilege))
        }
        Axis::Placement => {
            let is_pinned = cell.cell.placement != Placement::Free;
            Some(of_value(is_pinned, Condition::CpusAlone))
        }
        Axis::Quickack => {
            let is_on = cell.cell.value(axis) != axis.row().default;
            Some(of_value(is_on, Condition::ReceiverAsksAgain))
        }
        _ => None,
    }
    .unwrap_or_default()
}

/// Those of its model, and that no connection is idle where the run has not measured the model with
/// idle ones.
fn conditions_of_server(run: &Explained<'_>, cell: &CellTrials<'_>) -> Vec<Condition> {
    let server = &cell.cell.serving.server;
    let mut serving = run.measured.input.manifest.survey.serving.iter();
    let facts = serving.find_map(|s| s.servers.iter().find(|f| Some(&f.name) == server.as_ref()));
    let mut conditions = facts.map(ServerFacts::conditions).unwrap_or_default();
    let is_idle = |c: &CellTrials<'_>| c.cell.serving.server == *server && c.cell.serving.idle > 0;
    if !conditions.contains(&Condition::NoneIdle) && !run.measured.trials.measured().any(is_idle) {
        conditions.push(Condition::IdleNotMeasured);
    }
    conditions
}

/// Conditions of a cell that its baseline does not have.
pub(super) fn more_conditions(
    run: &Explained<'_>,
    axis: Axis,
    cell: &CellTrials<'_>,
    baseline: &CellTrials<'_>,
) -> Vec<Condition> {
    let shared = conditions(run, axis, baseline);
    let mut more = conditions(run, axis, cell);
    more.retain(|condition| !shared.contains(condition));
    more
}
