//! The cells that a study asks for, written so that no two are the same measurement.

use std::collections::HashMap;

use bytecost_spec::cell::{Device, LINK_MTU_BYTES, Pattern, Transport};
use bytecost_spec::study::Compare;
use bytecost_spec::survey::{InFlight, MoverFacts, Release, Route};
use bytecost_spec::{Axis, Cell, Host, HugePages, Nodelay, Serving, Study, Survey};

use crate::served;

/// Bytes of the number that a ping-pong passes.
const PASSED_BYTES: u64 = 8;

/// A cell of the study, with the number of the tier that pays for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) tier: usize,
    pub(crate) cell: Cell,
}

/// What the cells of a study are normalised by.
pub(crate) struct Norm<'a> {
    survey: &'a Survey,
    /// Congestion control instead of the axis's default, where that is not to be had.
    substitute: Option<String>,
    /// Where movers without a peer take the values from that mean nothing to them.
    base: Cell,
}

impl<'a> Norm<'a> {
    pub(crate) fn new(study: &Study, host: &Host, survey: &'a Survey) -> Norm<'a> {
        let cells = study.cells();
        let base = cells
            .iter()
            .map(|(_, cell)| cell)
            .find(|cell| has_peer(survey, cell) && !cell.is_served())
            .or(cells.first().map(|(_, cell)| cell))
            .cloned()
            .filter(|cell| {
                !is_of_files(survey, cell) && !is_of_cpus(survey, cell) && !cell.is_served()
            })
            .unwrap_or_default();
        let mut norm = Norm {
            survey,
            substitute: substitute(study, host, survey),
            base,
        };
        norm.base = norm.transport(norm.base.clone());
        norm
    }

    /// What works on the machine.
    pub(crate) fn survey(&self) -> &'a Survey {
        self.survey
    }

    /// What the reader of a plan must know of the substitution, where there was one.
    pub(crate) fn note(&self) -> Option<String> {
        let name = self.substitute.as_ref()?;
        Some(format!(
            "congestion control: `{}` is not to be had here, so all flows use the system's, `{name}`; one that paces, such as bbr, can hide every difference on loopback. Name another with --congestion",
            Axis::Congestion.row().default
        ))
    }

    /// The cell with one value for all that means nothing to it: a Unix socket has no
    /// congestion control and no options of TCP, memory no page cache, a loopback no MTU to choose, a mover that moves
    /// nothing has no other end.
    pub(crate) fn cell(&self, cell: Cell) -> Cell {
        if cell.is_served() {
            return self.substituted(served::norm(cell, self.survey));
        }
        let cell = Cell {
            serving: Serving::default(),
            ..cell
        };
        if has_peer(self.survey, &cell) {
            return self.transport(cell);
        }
        if is_of_files(self.survey, &cell) {
            return self.file(cell);
        }
        if is_work(self.survey, &cell) {
            return work(cell);
        }
        if is_of_cpus(self.survey, &cell) {
            return ping(cell);
        }
        let nothing = Cell::default();
        Cell {
            pattern: Pattern::Stream,
            mover: cell.mover,
            size_bytes: cell.size_bytes,
            fields: cell.fields,
            threads: cell.threads,
            ring: cell.ring,
            placement: cell.placement,
            mem_node: cell.mem_node,
            neighbour: cell.neighbour,
            huge_pages: nothing.huge_pages,
            class: cell.class,
            cgroup: cell.cgroup,
            payload: nothing.payload,
            answer: nothing.answer,
            reaping: nothing.reaping,
            cork: nothing.cork,
            quickack: nothing.quickack,
            block_bytes: nothing.block_bytes,
            depth: nothing.depth,
            cache: nothing.cache,
            access: nothing.access,
            ..self.base.clone()
        }
    }

    /// A file has no other end, no socket and no fields; who asks for one piece after the other
    /// has one request in flight. A block that is larger than a request is the request.
    fn file(&self, cell: Cell) -> Cell {
        let facts = self.survey.mover(&cell.mover);
        let one = facts.is_none_or(|m| m.in_flight == InFlight::One);
        let by_blocks = facts.is_some_and(|m| m.route.goes_by_blocks());
        let usual = Cell::default().block_bytes;
        let block_bytes = match cell.size_bytes {
            _ if !by_blocks => usual,
            size if cell.block_bytes < size => cell.block_bytes,
            size => usual.max(size),
        };
        Cell {
            mover: cell.mover,
            size_bytes: cell.size_bytes,
            threads: cell.threads,
            ring: cell.ring,
            placement: cell.placement,
            mem_node: cell.mem_node,
            neighbour: cell.neighbour,
            class: cell.class,
            cgroup: cell.cgroup,
            block_bytes,
            depth: if one { 1 } else { cell.depth },
            cache: cell.cache,
            access: cell.access,
            ..Cell::default()
        }
    }

    /// The cell with the congestion control that there is.
    fn substituted(&self, mut cell: Cell) -> Cell {
        if cell.congestion == Axis::Congestion.row().default {
            cell.congestion = self.substitute.clone().unwrap_or(cell.congestion);
        }
        cell
    }

    /// What is sent from memory has no file, and what is sent from a file has one request in
    /// flight. What goes past memory has no block; like the way of reaping, that is then the one
    /// of the study, so that a cell keeps what it is compared with in all but one axis.
    fn file_sent(&self, cell: &mut Cell) {
        let Some(mover) = self.survey.mover(&cell.mover) else {
            return;
        };
        let default = Cell::default();
        match mover.route {
            Route::MemoryToSocket => {
                cell.block_bytes = default.block_bytes;
                cell.depth = default.depth;
                cell.cache = default.cache;
                cell.access = default.access;
            }
            Route::FileToSocket => {
                cell.depth = default.depth;
                if !mover.goes_in_blocks() {
                    cell.block_bytes = self.base.block_bytes;
                }
            }
            _ => {}
        }
    }

    fn transport(&self, mut cell: Cell) -> Cell {
        if !cell.transport.is_tcp() {
            "default".clone_into(&mut cell.congestion);
            cell.nodelay = Nodelay::Auto;
            cell.cork = false;
            cell.quickack = false;
        } else {
            cell = self.substituted(cell);
        }
        self.file_sent(&mut cell);
        cell.huge_pages = HugePages::default();
        let default_mtu = cell.mtu_bytes == Some(LINK_MTU_BYTES);
        if !cell.transport.is_made() || default_mtu {
            cell.mtu_bytes = None;
        }
        if !cell.transport.is_wire() {
            cell.device = Device::default();
        }
        let default = Cell::default();
        if cell.transport != Transport::Wire {
            cell.ack_bytes = default.ack_bytes;
        }
        if !cell.transport.has_receiver() {
            cell.receiver = default.receiver;
            cell.read_size = default.read_size;
            cell.quickack = default.quickack;
        }
        // Nobody waits for an answer, so it has no size.
        if cell.pattern == Pattern::Stream {
            cell.answer = Cell::default().answer;
        }
        // Not always `full`: a cell must keep what it is compared with in all but one axis.
        let completes = |m: &MoverFacts| m.release == Release::AtCompletion;
        if !self.survey.mover(&cell.mover).is_none_or(completes) {
            cell.reaping = self.base.reaping;
        }
        cell
    }
}

/// A ping-pong passes one number back and forth, whatever the size.
fn ping(cell: Cell) -> Cell {
    Cell {
        size_bytes: PASSED_BYTES,
        huge_pages: HugePages::default(),
        ..work(cell)
    }
}

/// Work has no other end, no socket and no file: memory of some size, and threads.
fn work(cell: Cell) -> Cell {
    Cell {
        huge_pages: cell.huge_pages,
        mover: cell.mover,
        size_bytes: cell.size_bytes,
        threads: cell.threads,
        placement: cell.placement,
        mem_node: cell.mem_node,
        neighbour: cell.neighbour,
        class: cell.class,
        cgroup: cell.cgroup,
        ..Cell::default()
    }
}

/// Whether the cell's mover is a CPU at work, which moves nothing.
pub(crate) fn is_work(survey: &Survey, cell: &Cell) -> bool {
    survey.mover(&cell.mover).is_some_and(|m| m.route.is_work())
}

/// Whether the cell's mover is about CPUs alone: one at work, or two that take turns.
pub(crate) fn is_of_cpus(survey: &Survey, cell: &Cell) -> bool {
    (survey.mover(&cell.mover)).is_some_and(|m| m.route.is_of_cpus())
}

/// Whether the cell's mover has another end; one that is not known is taken to have.
pub(crate) fn has_peer(survey: &Survey, cell: &Cell) -> bool {
    survey.mover(&cell.mover).is_none_or(MoverFacts::has_peer)
}

/// Whether the cell's mover moves nothing; one that is not known is taken to move something.
pub(crate) fn moves_nothing(survey: &Survey, cell: &Cell) -> bool {
    survey
        .mover(&cell.mover)
        .is_some_and(MoverFacts::moves_nothing)
}

/// Whether the cell's mover works on a file and has no other end.
pub(crate) fn is_of_files(survey: &Survey, cell: &Cell) -> bool {
    survey
        .mover(&cell.mover)
        .is_some_and(|m| m.route.is_of_files())
}

/// The congestion controls that a socket can be given here: what the survey found by trying,
/// else what the host lists.
pub(crate) fn congestion_controls<'a>(host: &'a Host, survey: &'a Survey) -> &'a [String] {
    if survey.congestion_controls.is_empty() {
        &host.congestion_available
    } else {
        &survey.congestion_controls
    }
}

/// The system's own congestion control where the axis's default is not to be had. A study that
/// compares several must have the one that it names, so there nothing is put in its place.
fn substitute(study: &Study, host: &Host, survey: &Survey) -> Option<String> {
    let compared = study
        .tiers
        .iter()
        .flat_map(|tier| &tier.axes)
        .any(|(axis, values)| *axis == Axis::Congestion && values.len() > 1);
    let available = congestion_controls(host, survey);
    let missing = !available.is_empty()
        && !available
            .iter()
            .any(|c| c == Axis::Congestion.row().default);
    (missing && !compared).then(|| {
        host.congestion_default
            .clone()
            .unwrap_or_else(|| "default".to_owned())
    })
}

/// The study's cells, each once, by tier and then in the study's order. A cell that another one
/// is compared with is paid for by the same tier at the latest.
pub(crate) fn candidates(study: &Study, norm: &Norm<'_>) -> Vec<Candidate> {
    let mut place: HashMap<Cell, usize> = HashMap::new();
    let mut list: Vec<Candidate> = Vec::new();
    for (tier, cell) in study.cells() {
        let cell = norm.cell(cell);
        if !place.contains_key(&cell) {
            place.insert(cell.clone(), list.len());
            list.push(Candidate { tier, cell });
        }
    }
    for start in 0..list.len() {
        let mut work = vec![start];
        while let Some(at) = work.pop() {
            let tier = list[at].tier;
            for partner in partners(study, norm, &list[at].cell) {
                match place.get(&partner) {
                    Some(&p) if list[p].tier > tier => {
                        list[p].tier = tier;
                        work.push(p);
                    }
                    _ => {}
                }
            }
        }
    }
    list.sort_by_key(|c| c.tier);
    list
}

/// The cells that a cell is held against.
pub(crate) fn partners(study: &Study, norm: &Norm<'_>, cell: &Cell) -> Vec<Cell> {
    let all = study.compare.iter();
    all.filter_map(|compare| partner(compare, norm, cell))
        .collect()
}

/// The cell that a comparison holds a cell against.
pub(crate) fn partner(compare: &Compare, norm: &Norm<'_>, cell: &Cell) -> Option<Cell> {
    if moves_nothing(norm.survey, cell) || cell.value(compare.axis) == compare.baseline {
        return None;
    }
    let mut partner = cell.clone();
    partner.set(compare.axis, &compare.baseline).ok()?;
    Some(norm.cell(partner))
}
