//! The cells that a study asks for, written so that no two are the same measurement.

use std::collections::HashMap;

use bytecost_spec::axis::CellFacts;
use bytecost_spec::study::Compare;
use bytecost_spec::survey::MoverFacts;
use bytecost_spec::{Axis, Cell, Host, PeerHost, PeerSide, Study, Survey};
use itertools::Itertools as _;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) tier: usize,
    pub(crate) cell: Cell,
}

/// What the cells of a study are normalised by.
pub(crate) struct Norm<'a> {
    pub(crate) survey: &'a Survey,
    /// Congestion control instead of the axis's default, where that is not to be had.
    substitute: Option<String>,
}

impl<'a> Norm<'a> {
    pub(crate) fn new(
        study: &Study,
        host: &Host,
        survey: &'a Survey,
        peer: Option<&PeerHost>,
    ) -> Norm<'a> {
        // Both ends of a connection to a server send; else the sender's alone sets the rate.
        let serves = || study.cells().iter().any(|(_, cell)| cell.is_served());
        let sends = |side| peer.is_none_or(|peer| peer.side == side) || serves();
        let here = sends(PeerSide::Receiver).then_some((host, survey));
        let there = peer.filter(|_| sends(PeerSide::Sender));
        let hosts = here
            .into_iter()
            .chain(there.map(|peer| (&peer.host, &peer.survey)));
        Norm {
            survey,
            substitute: substitute(study, &hosts.collect_vec()),
        }
    }

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

    /// With one value for all that does not apply, the congestion control that there is, and no
    /// block that is larger than a request.
    pub(crate) fn cell(&self, cell: &Cell) -> Cell {
        let facts = CellFacts::of(cell, self.survey);
        let mut normal = facts.normal();
        if let Some(there) = &self.substitute
            && facts.applies(Axis::Congestion)
            && normal.congestion == Axis::Congestion.row().default
        {
            normal.congestion.clone_from(there);
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

/// A mover that is not known is taken to have one.
pub(crate) fn has_peer(survey: &Survey, cell: &Cell) -> bool {
    survey.mover(&cell.mover).is_none_or(MoverFacts::has_peer)
}

/// A mover that is not known is taken to move something.
pub(crate) fn moves_nothing(survey: &Survey, cell: &Cell) -> bool {
    (survey.mover(&cell.mover)).is_some_and(MoverFacts::moves_nothing)
}

pub(crate) fn is_of_files(survey: &Survey, cell: &Cell) -> bool {
    (survey.mover(&cell.mover)).is_some_and(|m| m.route.is_of_files())
}

/// What the survey found by trying, else what the host lists.
pub(crate) fn congestion_controls<'a>(host: &'a Host, survey: &'a Survey) -> &'a [String] {
    if survey.congestion_controls.is_empty() {
        &host.congestion_available
    } else {
        &survey.congestion_controls
    }
}

/// Congestion controls that do not pace, the preferred one first. Every kernel has the last one, and
/// every process may set it unless net.ipv4.tcp_allowed_congestion_control leaves it out.
const NOT_PACING: [&str; 2] = ["cubic", "reno"];

/// The congestion control in place of the axis's default where a host lacks that: another one that
/// does not pace and that all hosts have, else the first host's own. A study that compares several,
/// and a command line that names one, must have what they name: nothing is put in its place.
fn substitute(study: &Study, hosts: &[(&Host, &Survey)]) -> Option<String> {
    let mut tiers = study.tiers.iter();
    let is_named = tiers.any(|tier| tier.values(Axis::Congestion).len() > 1)
        || study.asked.contains(&Axis::Congestion);
    if is_named {
        None
    } else {
        instead_of_default(hosts)
    }
}

/// The congestion control for flows that name none, where these hosts lack the axis's default.
pub fn instead_of_default(hosts: &[(&Host, &Survey)]) -> Option<String> {
    let all_have = |name: &str| {
        hosts.iter().all(|(host, survey)| {
            let available = congestion_controls(host, survey);
            available.is_empty() || available.iter().any(|c| c == name)
        })
    };
    if all_have(Axis::Congestion.row().default) {
        return None;
    }
    let own = || {
        let own = hosts.first()?.0.congestion_default.as_deref();
        own.filter(|name| all_have(name))
    };
    let instead = NOT_PACING.into_iter().find(|name| all_have(name));
    Some(instead.or_else(own).unwrap_or("default").to_owned())
}

/// The study's cells, each once, by tier and then in the study's order. A cell that another one
/// is compared with is paid for by the same tier at the latest.
pub(crate) fn candidates(study: &Study, norm: &Norm<'_>) -> Vec<Candidate> {
    let all = study.cells().into_iter().map(|(tier, cell)| Candidate {
        tier,
        cell: norm.cell(&cell),
    });
    let mut list = all.unique_by(|c| c.cell.clone()).collect_vec();
    let baselines = baselines(&list, study, norm);
    for start in 0..list.len() {
        let mut work = vec![start];
        while let Some(at) = work.pop() {
            let tier = list[at].tier;
            for baseline in baselines.iter().filter_map(|of| of[at]) {
                if list[baseline].tier > tier {
                    list[baseline].tier = tier;
                    work.push(baseline);
                }
            }
        }
    }
    list.sort_by_key(|c| c.tier);
    list
}

/// For each comparison of the study, and each cell, the place of the cell that it is compared
/// with: the one that differs in the compared axis alone, or else the first that agrees in all
/// that applies to both.
pub(crate) fn baselines(
    list: &[Candidate],
    study: &Study,
    norm: &Norm<'_>,
) -> Vec<Vec<Option<usize>>> {
    let place: HashMap<&Cell, usize> = list.iter().map(|c| &c.cell).zip(0..).collect();
    let facts = list.iter().map(|c| CellFacts::of(&c.cell, norm.survey));
    let facts = facts.collect_vec();
    let of = |compare: &Compare| {
        let is_moved = |i: usize| !moves_nothing(norm.survey, &list[i].cell);
        let is_baseline = |i: usize| list[i].cell.value(compare.axis) == compare.baseline;
        let all: Vec<usize> = (0..list.len())
            .filter(|&i| is_moved(i) && is_baseline(i))
            .collect();
        let baseline = |i: usize| {
            let value = list[i].cell.value(compare.axis);
            if !is_moved(i) || is_baseline(i) || !compare.compares(&value) {
                return None;
            }
            let mut exact = list[i].cell.clone();
            exact.set_value(compare.axis, &compare.baseline).ok()?;
            let exact = place.get(&norm.cell(&exact)).copied();
            let near = |&b: &usize| facts[b].agrees(&facts[i], &[compare.axis]);
            exact
                .filter(|b| all.binary_search(b).is_ok())
                .or_else(|| all.iter().copied().find(near))
        };
        (0..list.len()).map(baseline).collect()
    };
    study.compare.iter().map(of).collect()
}
