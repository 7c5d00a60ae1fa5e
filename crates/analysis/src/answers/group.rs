//! Findings of one comparison and metric that differ in one further axis only, such as the size.

use std::collections::{HashMap, HashSet};

use bytecost_spec::study::{Compare, Tier};
use bytecost_spec::{Axis, Cell, Metric};

use super::belongs;
use crate::grid;
use crate::phrases;
use crate::result::Finding;
use crate::view::View;

/// Axes along which results are told in ranges, the likeliest first.
const RANGES: [Axis; 8] = [
    Axis::Connections,
    Axis::Size,
    Axis::Threads,
    Axis::Fields,
    Axis::ReadSize,
    Axis::Ring,
    Axis::SocketBuffer,
    Axis::Rate,
];

/// Findings, each with its cell.
type Found<'v> = Vec<(&'v Cell, &'v Finding)>;

/// A group of findings, by their place along the range.
pub(super) struct FindingGroup<'v> {
    /// Where the group is, of the axes that vary; empty where there is no other group.
    pub(super) place: String,
    pub(super) range: Option<Axis>,
    /// The values along the range at which there is a finding, in order; one where there is no
    /// range.
    pub(super) xs: Vec<String>,
    /// The findings at each of them, in the order of the study's values.
    pub(super) at: Vec<Vec<&'v Finding>>,
    /// Whether it has places of which nothing is said, so that it is not whole.
    is_cut: bool,
}

/// The findings of each place where something else than what is compared sets some of them: there
/// nothing is best.
pub(super) fn withheld<'v>(view: &View<'v>, compare: &Compare, metric: Metric) -> Vec<&'v Finding> {
    let all = || view.findings.iter().filter(|f| belongs(f, compare, metric));
    let place = |f: &Finding| {
        let cell = view.cells.iter().find(|c| c.id == f.cell)?;
        Some(cell.cell.id_without(&[compare.axis]))
    };
    let places: HashSet<Option<String>> =
        all().filter(|f| f.withheld.is_some()).map(place).collect();
    match places.is_empty() {
        true => Vec::new(),
        false => all().filter(|f| places.contains(&place(f))).collect(),
    }
}

/// The groups of a comparison and metric: those of the study's first part first, of these the ones
/// with most findings, then in the order of the plan.
pub(super) fn groups<'v>(
    view: &View<'v>,
    compare: &Compare,
    metric: Metric,
    varied: &[Axis],
) -> Vec<FindingGroup<'v>> {
    let range = RANGES
        .into_iter()
        .find(|a| *a != compare.axis && varied.contains(a));
    let free: Vec<Axis> = range.into_iter().chain([compare.axis]).collect();
    let cells: HashMap<&str, &Cell> = view
        .cells
        .iter()
        .map(|c| (c.id.as_str(), &c.cell))
        .collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut members: Vec<(&Cell, Found<'_>, bool)> = Vec::new();
    let withheld = withheld(view, compare, metric);
    // What waits for a timer is told by itself: the ways are not what differs there.
    let told = |f: &&Finding| belongs(f, compare, metric) && !view.stalls.touch(f);
    for finding in view.findings.iter().filter(told) {
        let Some(&cell) = cells.get(finding.cell.as_str()) else {
            continue;
        };
        let place = *places
            .entry(cell.id_without(&free))
            .or_insert(members.len());
        if place == members.len() {
            members.push((cell, Vec::new(), false));
        }
        match withheld.iter().any(|w| w.id == finding.id) {
            true => members[place].2 = true,
            false => members[place].1.push((cell, finding)),
        }
    }
    members.retain(|(_, findings, _)| !findings.is_empty());
    let study = &view.input.manifest.study;
    members.sort_by_key(|(first, findings, _)| {
        let part = study.tiers.iter().position(|tier| is_part(tier, first));
        (part != Some(0), std::cmp::Reverse(findings.len()))
    });
    let held: Vec<Axis> = varied
        .iter()
        .copied()
        .filter(|a| !free.contains(a))
        .collect();
    let several = members.len() > 1;
    members
        .into_iter()
        .map(|(first, findings, is_cut)| {
            let place = if several {
                phrases::circumstances(&grid::coordinates(first, &held))
            } else {
                String::new()
            };
            let group = FindingGroup::of(view, place, range, findings);
            FindingGroup { is_cut, ..group }
        })
        .collect()
}

/// Whether a part of the study asks for the cell. Which congestion control it got is the host's
/// choice, too.
fn is_part(tier: &Tier, cell: &Cell) -> bool {
    let mut named = tier.axes.iter().filter(|(a, _)| *a != Axis::Congestion);
    named.all(|(axis, values)| values.contains(&cell.value(*axis)))
}

impl<'v> FindingGroup<'v> {
    fn of(
        view: &View<'_>,
        place: String,
        range: Option<Axis>,
        findings: Found<'v>,
    ) -> FindingGroup<'v> {
        let study = &view.input.manifest.study;
        let x = |cell: &Cell| range.map_or_else(String::new, |axis| cell.value(axis));
        let mut xs = match range {
            Some(axis) => grid::values(study, axis, findings.iter().map(|(c, _)| *c)),
            None => vec![String::new()],
        };
        xs.retain(|v| findings.iter().any(|(c, _)| x(c) == *v));
        let at = xs
            .iter()
            .map(|v| {
                findings
                    .iter()
                    .filter(|(c, _)| x(c) == *v)
                    .map(|(_, f)| *f)
                    .collect()
            })
            .collect();
        FindingGroup {
            place,
            range,
            xs,
            at,
            is_cut: false,
        }
    }

    /// Every finding of the group.
    pub(super) fn findings(&self) -> impl Iterator<Item = &'v Finding> {
        self.at.iter().flatten().copied()
    }

    /// Places along the range as people say them: `up to 16 KiB`, `from 64 KiB`, `at every size`;
    /// empty where there is no range.
    pub(super) fn span(&self, first: usize, last: usize) -> String {
        let Some(axis) = self.range else {
            return String::new();
        };
        // Where some are left out none of what is there is the last.
        let end = if self.is_cut {
            usize::MAX
        } else {
            self.xs.len() - 1
        };
        let name = |at: usize| axis.subject(&self.xs[at]);
        let with = if axis == Axis::Size { "" } else { "with " };
        match (first, last) {
            (a, b) if a == b => axis.circumstance(&self.xs[a]),
            (0, b) if b == end && axis == Axis::Size => "at every size".to_owned(),
            (0, b) if b == end => format!("with {} to {}", name(0), name(b)),
            (0, b) => format!("{with}up to {}", name(b)),
            (a, b) if b == end => format!("{with}from {}", name(a)),
            (a, b) => format!(
                "{with}{}{} to {}",
                if with.is_empty() { "from " } else { "" },
                name(a),
                name(b)
            ),
        }
    }

    /// How many places the range has, in words: `4 sizes`.
    pub(super) fn places(&self, n: usize) -> String {
        match self.range {
            Some(Axis::Size) => phrases::count(n, "size"),
            _ => phrases::count(n, "place"),
        }
    }
}
