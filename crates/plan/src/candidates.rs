//! The candidates of a plan: the cells of a study, normalised so that no two are the same measurement.

use std::collections::HashMap;

use bytecost_spec::axis::CellFacts;
use bytecost_spec::study::Compare;
use bytecost_spec::survey::MoverFacts;
use bytecost_spec::{Axis, Cell, PeerHost, PeerSide, Study, Survey};
use itertools::Itertools as _;

use crate::SurveyedHost;

/// A cell of a study with the index of the tier whose share of the budget pays for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) tier: usize,
    pub(crate) cell: Cell,
}

pub(crate) struct PlanContext<'a> {
    pub(crate) survey: &'a Survey,
    /// The congestion control that replaces the axis's default; none if the default is available.
    substitute: Option<String>,
}

impl<'a> PlanContext<'a> {
    pub(crate) fn new(
        study: &Study,
        here: SurveyedHost<'a>,
        peer: Option<&PeerHost>,
    ) -> PlanContext<'a> {
        // The sender's congestion control sets the rate; of a connection to a server both ends send.
        let serves = || study.cells().iter().any(|(_, cell)| cell.is_served());
        let sends = |side| peer.is_none_or(|peer| peer.side == side) || serves();
        let sender_here = sends(PeerSide::Receiver).then_some(here);
        let sender_there = peer.filter(|_| sends(PeerSide::Sender));
        let hosts = (sender_here.into_iter())
            .chain(sender_there.map(SurveyedHost::from))
            .collect_vec();
        PlanContext {
            survey: here.survey,
            substitute: substitute(study, &hosts),
        }
    }

    /// A note that the congestion control is a substitute, if it is.
    pub(crate) fn note(&self) -> Option<String> {
        let name = self.substitute.as_ref()?;
        let means = if NOT_PACING.contains(&name.as_str()) {
            "which does not pace either"
        } else {
            "the system's; if it paces, as bbr does, costs and rates have no verdict"
        };
        Some(format!(
            "congestion control: `{}` is not available to this process, so all flows use `{name}`, {means}",
            Axis::Congestion.row().default
        ))
    }

    /// The cell with one fixed value on each axis that does not apply, with the substitute, and with a
    /// block that is no larger than a request.
    pub(crate) fn normalised(&self, cell: &Cell) -> Cell {
        let facts = CellFacts::new(cell, self.survey);
        let mut normal = facts.normal();
        if let Some(substitute) = &self.substitute
            && facts.applies(Axis::Congestion)
            && normal.congestion == Axis::Congestion.row().default
        {
            normal.congestion.clone_from(substitute);
        }
        if facts.is_of_files() && normal.block_bytes >= normal.size_bytes {
            normal.block_bytes = Cell::default().block_bytes.max(normal.size_bytes);
        }
        normal
    }
}

pub(crate) fn is_of_cpus(survey: &Survey, cell: &Cell) -> bool {
    (survey.mover(&cell.mover)).is_some_and(|m| m.route.is_of_cpus())
}

/// Returns true if a peer receives the bytes; an unknown mover is assumed to have one.
pub(crate) fn has_peer(survey: &Survey, cell: &Cell) -> bool {
    survey.mover(&cell.mover).is_none_or(MoverFacts::has_peer)
}

/// Returns true for a mover like `null`; an unknown mover is assumed to move something.
pub(crate) fn moves_nothing(survey: &Survey, cell: &Cell) -> bool {
    (survey.mover(&cell.mover)).is_some_and(MoverFacts::moves_nothing)
}

pub(crate) fn is_of_files(survey: &Survey, cell: &Cell) -> bool {
    (survey.mover(&cell.mover)).is_some_and(|m| m.route.is_of_files())
}

/// The congestion controls that the survey could set, or else those that the host lists.
pub(crate) fn congestion_controls<'h>(
    SurveyedHost { host, survey }: SurveyedHost<'h>,
) -> &'h [String] {
    if survey.congestion_controls.is_empty() {
        &host.congestion_available
    } else {
        &survey.congestion_controls
    }
}

/// Congestion controls without pacing, the preferred one first. Every kernel has the last one, and
/// every process may set it unless net.ipv4.tcp_allowed_congestion_control excludes it.
const NOT_PACING: [&str; 2] = ["cubic", "reno"];

/// The congestion control in place of the axis's default; none where that is available. A study that
/// compares several, and a command line that names one, get no substitute.
fn substitute(study: &Study, hosts: &[SurveyedHost<'_>]) -> Option<String> {
    let is_compared = (study.tiers.iter()).any(|tier| tier.values(Axis::Congestion).len() > 1);
    if is_compared || study.asked.contains(&Axis::Congestion) {
        None
    } else {
        congestion_substitute(hosts)
    }
}

/// The congestion control in place of the axis's default for flows that name none: one without pacing
/// that all hosts have, else the default of the first host. None if all hosts have the axis's default.
pub fn congestion_substitute(hosts: &[SurveyedHost<'_>]) -> Option<String> {
    let all_have = |name: &str| {
        hosts.iter().all(|machine| {
            let available = congestion_controls(*machine);
            available.is_empty() || available.iter().any(|c| c == name)
        })
    };
    if all_have(Axis::Congestion.row().default) {
        return None;
    }
    let host_default = || {
        let host = hosts.first()?.host;
        (host.congestion_default.as_deref()).filter(|name| all_have(name))
    };
    let substitute = (NOT_PACING.into_iter().find(|name| all_have(name)))
        .or_else(host_default)
        .unwrap_or("default");
    Some(substitute.to_owned())
}

/// The study's cells, each once, by tier and then in the study's order. A baseline is in the tier of
/// the first cell that is compared with it, so that one tier pays for both.
pub(crate) fn candidates(study: &Study, context: &PlanContext<'_>) -> Vec<Candidate> {
    let mut list = (study.cells().into_iter())
        .map(|(tier, cell)| Candidate {
            tier,
            cell: context.normalised(&cell),
        })
        .unique_by(|c| c.cell.clone())
        .collect_vec();
    let baselines = baselines(&list, study, context);
    for start in 0..list.len() {
        let mut to_visit = vec![start];
        while let Some(cell) = to_visit.pop() {
            let tier = list[cell].tier;
            for baseline in baselines.iter().filter_map(|baseline_of| baseline_of[cell]) {
                if list[baseline].tier > tier {
                    list[baseline].tier = tier;
                    to_visit.push(baseline);
                }
            }
        }
    }
    list.sort_by_key(|c| c.tier);
    list
}

/// For each comparison of the study, the index of each cell's baseline: the cell that differs in the
/// compared axis alone, or else the first one that is equal in all axes that apply to both.
pub(crate) fn baselines(
    list: &[Candidate],
    study: &Study,
    context: &PlanContext<'_>,
) -> Vec<Vec<Option<usize>>> {
    let index: HashMap<&Cell, usize> = list.iter().map(|c| &c.cell).zip(0..).collect();
    let facts = (list.iter())
        .map(|c| CellFacts::new(&c.cell, context.survey))
        .collect_vec();
    let baselines_in = |compare: &Compare| {
        let moves = |i: usize| !moves_nothing(context.survey, &list[i].cell);
        let is_baseline = |i: usize| list[i].cell.value(compare.axis) == compare.baseline;
        let all_baselines: Vec<usize> = (0..list.len())
            .filter(|&i| moves(i) && is_baseline(i))
            .collect();
        let baseline = |i: usize| {
            let value = list[i].cell.value(compare.axis);
            if !moves(i) || is_baseline(i) || !compare.compares(&value) {
                return None;
            }
            let mut exact = list[i].cell.clone();
            exact.set_value(compare.axis, &compare.baseline).ok()?;
            let is_comparable = |&b: &usize| facts[b].agrees(&facts[i], &[compare.axis]);
            (index.get(&context.normalised(&exact)).copied())
                .filter(|b| all_baselines.binary_search(b).is_ok())
                .or_else(|| all_baselines.iter().copied().find(is_comparable))
        };
        (0..list.len()).map(baseline).collect()
    };
    study.compare.iter().map(baselines_in).collect()
}
