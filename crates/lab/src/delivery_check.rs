//! The check of a trial's bytes: their count and their content.

use bytecost_engine::{Mover, Receiver};
use bytecost_spec::sample::Truth;
use bytecost_spec::{Cell, Transport};

use crate::protocol::Done;
use crate::trial_error::{TrialError, TrialFailure};

/// Checks the bytes of a trial; none of a mover that moves nothing. Without another end, count and
/// comparison are the mover's own. Units of work and a ping-pong's numbers fail where one is wrong.
pub(crate) fn check(
    cell: &Cell,
    mover: Option<&Mover>,
    is_own_file: bool,
    sender: &Done,
    receiver: Option<&Done>,
) -> Result<Option<Truth>, TrialError> {
    if let Some(receiver) = receiver {
        return check_both(cell, is_own_file, sender, receiver).map(Some);
    }
    Ok(mover.filter(|m| !m.moves_nothing()).map(|mover| {
        let bytes = sender.total_bytes.iter().sum();
        let (compared_bytes, checked) = match sender.compared_bytes {
            _ if mover.route.is_of_cpus() => (bytes, "result"),
            0 => (0, "count"),
            compared => (compared, "content"),
        };
        Truth {
            sent_bytes: bytes,
            received_bytes: bytes,
            compared_bytes,
            checked: checked.to_owned(),
        }
    }))
}

/// The first flow whose bytes have not all arrived, given the bytes sent and received of each.
fn lost(flows: impl Iterator<Item = (u64, u64)>) -> Option<TrialFailure> {
    let (flow, (sent, got)) = flows.enumerate().find(|(_, (sent, got))| sent != got)?;
    Some(TrialFailure {
        reason: format!("flow {flow}: {sent} bytes were sent, {got} arrived"),
        wrong_bytes: true,
        ..TrialFailure::default()
    })
}

/// Checks the counts of two sides. Content is checked where it arrives; that of a file that is not
/// our own is unknown.
fn check_both(
    cell: &Cell,
    is_own_file: bool,
    sender: &Done,
    receiver: &Done,
) -> Result<Truth, TrialError> {
    let flows = [sender, receiver].map(|side| side.total_bytes.len());
    if cell.transport == Transport::Peer && flows != [cell.threads as usize; 2] {
        return Err(TrialError::failed(format!(
            "flows that were sent and received: {flows:?}, not {} each",
            cell.threads
        )));
    }
    let sent = sender.total_bytes.iter().copied();
    if let Some(failure) = lost(sent.zip(receiver.total_bytes.iter().copied())) {
        return Err(TrialError::Failed(failure));
    }
    let sees_content = is_own_file
        && cell.transport.has_receiver()
        && Receiver::named(&cell.receiver).is_some_and(|r| r.sees_content);
    let received: u64 = receiver.total_bytes.iter().sum();
    if sees_content && received > 0 && receiver.compared_bytes == 0 {
        return Err(TrialError::failed("the content was not compared"));
    }
    Ok(Truth {
        sent_bytes: sender.total_bytes.iter().sum(),
        received_bytes: received,
        compared_bytes: receiver.compared_bytes,
        checked: if sees_content { "content" } else { "count" }.to_owned(),
    })
}
