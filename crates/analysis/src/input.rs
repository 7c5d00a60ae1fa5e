//! The input of an analysis: the records of a run, and all that its results are compared with.

use bytecost_spec::claim::Claim;
use bytecost_spec::evidence::{EvidenceAsked, Means, TrialEvidence};
use bytecost_spec::sample::Block;
use bytecost_spec::{
    Cell, Failure, LeftOut, Manifest, PeerSide, Published, RefusedCell, Sample, Table, Transport,
};

use crate::grouping::by_key;
use crate::result::Ceiling;

/// The input of [`crate::analyse`]: the records of a run, and the publications to compare it with.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The run's manifest.
    pub manifest: &'a Manifest,
    /// The cells of the plan; a sample's `trial.cell` counts into them.
    pub cells: &'a [Cell],
    /// Cells of the study that are not available on this host.
    pub refused: &'a [RefusedCell],
    /// Cells that the budget did not reach.
    pub left_out: &'a [LeftOut],
    /// Every sample of the log, in its order, repeated trials included.
    pub samples: &'a [Sample],
    /// Every failed trial.
    pub failures: &'a [Failure],
    /// The end of each attempt at a block.
    pub blocks: &'a [Block],
    /// The results of the trials for evidence.
    pub evidence: &'a [TrialEvidence],
    /// Changes that the plan made to what the study and the options ask for, in sentences.
    pub notes: &'a [String],
    /// Reason for the early end of the run; none where it ended as planned.
    pub ended_early: Option<&'a str>,
    /// Description of the records that the log has lost since the end of the run; none where it is
    /// complete.
    pub damage: Option<&'a str>,
    /// Published measurements that reports show next to those of the run.
    pub published: Option<&'a Published>,
    /// The highest rates of this machine, where another run measured them.
    pub ceiling: Option<&'a Ceiling>,
    /// Published claims that are compared with the run.
    pub claims: Option<&'a Grounds>,
}

impl<'a> Input<'a> {
    /// The input of a run that has samples and no other records.
    pub fn of(manifest: &'a Manifest, cells: &'a [Cell], samples: &'a [Sample]) -> Input<'a> {
        Input {
            manifest,
            cells,
            refused: &[],
            left_out: &[],
            samples,
            failures: &[],
            blocks: &[],
            evidence: &[],
            notes: &[],
            ended_early: None,
            damage: None,
            published: None,
            ceiling: None,
            claims: None,
        }
    }

    /// The side of a cell that plays on another host, if one does.
    pub(crate) fn peer_side(&self, cell: &Cell) -> Option<PeerSide> {
        let peer = self.manifest.peer.as_ref()?;
        (cell.transport == Transport::Peer).then_some(peer.side)
    }

    /// The outcome of a means of evidence; none where the run did not use it.
    pub(crate) fn asked_evidence(&self, means: Means) -> Option<&'a EvidenceAsked> {
        let mut asked = self.manifest.evidence.iter();
        asked.find(|asked| asked.means == means)
    }

    /// The trials for evidence that fulfil a condition, by cell, in the order of the plan.
    pub(crate) fn evidence_by_cell(
        &self,
        is_wanted: impl Fn(&TrialEvidence) -> bool,
    ) -> Vec<(&'a Cell, Vec<&'a TrialEvidence>)> {
        let found = self.evidence.iter().filter(|e| is_wanted(e));
        let by_cell = by_key(found.filter_map(|e| {
            let place = usize::try_from(e.trial.cell).ok()?;
            (self.cells.get(place)?.id() == e.cell).then_some((place, e))
        }))
        .into_iter();
        by_cell
            .map(|(place, of_cell)| (&self.cells[place], of_cell))
            .collect()
    }
}

/// Claims with all that they are judged by besides the run.
#[derive(Clone, Debug, Default)]
pub struct Grounds {
    /// The claims.
    pub claims: Vec<Claim>,
    /// Published tables, for calculations on them.
    pub tables: Vec<Table>,
    /// Published cells by their source, to stand next to measured ones.
    pub published: Vec<Published>,
    /// Names of studies that can be run.
    pub studies: Vec<&'static str>,
}
