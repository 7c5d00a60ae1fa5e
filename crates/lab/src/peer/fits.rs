//! The bounds of a task from a coordinator on another host: it names no path, CPU or program of this one,
//! and fits into its memory.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytecost_spec::cell::{MAX_CALL_BYTES, MAX_CONNECTIONS, MAX_SIZE_BYTES, MAX_THREADS};
use bytecost_spec::{Transport, units};

use crate::protocol::{ConnectionSetup, Role, Task};

/// The share of the memory that buffers may take, as a divisor.
const MEMORY_SHARE: u64 = 2;
/// The longest that a call may go without progress, and the longest window.
const MOST_TIMEOUT_MS: u64 = 60_000;
const MOST_WINDOW: Duration = Duration::from_secs(3600);

/// The addresses at which an endpoint may listen, and to which it may connect.
#[derive(Clone, Copy)]
pub(super) struct Addresses<'a> {
    /// Those of this host.
    pub(super) own: &'a [IpAddr],
    /// Those of the coordinator's host, as connectivity checks have found them.
    pub(super) partners: &'a [IpAddr],
}

/// Checks a task for a host with these addresses and so much memory; an error has the reason and the
/// remedy.
pub(super) fn fits(
    task: &Task,
    window: Duration,
    addresses: Addresses<'_>,
    memory_bytes: u64,
) -> Result<(), String> {
    let cell = &task.cell;
    if task.here != task.here.elsewhere() {
        return Err("a path, a CPU or a program of this host was named, which is not for the other host to choose".to_owned());
    }
    if cell.transport != Transport::Peer || task.role == Role::Background {
        return Err("only a side of a trial between two hosts is played here".to_owned());
    }
    match &task.connection {
        ConnectionSetup::None => return Err("a side without another was asked for".to_owned()),
        ConnectionSetup::Listen { at, .. } if !at.is_some_and(|at| addresses.own.contains(&at)) => {
            return Err("an address to listen at was named that is none of this host's".to_owned());
        }
        ConnectionSetup::Connect(to) => {
            let to: SocketAddr = to
                .parse()
                .map_err(|_| "an address to connect to was named that is none")?;
            if !addresses.partners.contains(&to.ip()) {
                return Err("an address to connect to was named that is none of the host that runs the study".to_owned());
            }
        }
        ConnectionSetup::Listen { .. } => {}
    }
    let in_bounds = (1..=MAX_THREADS).contains(&cell.threads)
        && (1..=MAX_SIZE_BYTES).contains(&cell.size_bytes)
        && cell.read_bytes() <= MAX_CALL_BYTES
        && cell.serving.all_connections() <= u64::from(MAX_CONNECTIONS)
        && task.keys.len() == cell.threads as usize
        && task.min_messages <= 3 * cell.ring_slots().max(cell.file_slots())
        && task.timeout_ms <= MOST_TIMEOUT_MS
        && window <= MOST_WINDOW;
    if !in_bounds {
        return Err("a size, a time or a number of flows is out of bounds".to_owned());
    }
    let ring = cell.size_bytes.saturating_mul(cell.ring_slots());
    let buffers = ring
        .saturating_add(cell.read_bytes())
        .saturating_mul(cell.threads.into());
    let room = memory_bytes / MEMORY_SHARE;
    if memory_bytes > 0 && !cell.is_served() && buffers > room {
        Err(format!(
            "buffers of {} would be needed, more than half of the memory: choose a smaller --ring or --size, or fewer --threads",
            units::bytes_in_words(buffers)
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    use bytecost_spec::{Axis, Cell};

    use crate::file_task::FileTask;
    use crate::flow_key::FlowKey;
    use crate::protocol::{ContentCheck, LocalSettings};

    const OWN: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))];
    const PARTNERS: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))];

    fn listens(at: Option<IpAddr>) -> ConnectionSetup {
        ConnectionSetup::Listen {
            at,
            port: None,
            from: None,
        }
    }

    fn task() -> Task {
        let mut cell = Cell::default();
        cell.set(Axis::Transport, "peer").unwrap();
        Task {
            role: Role::Receiver,
            cell,
            connection: listens(Some(OWN[0])),
            keys: vec![FlowKey::default()],
            check: ContentCheck::Quick,
            min_messages: 0,
            timeout_ms: 5000,
            here: LocalSettings {
                file: Some(FileTask::elsewhere(true)),
                ..LocalSettings::default()
            },
        }
    }

    #[test]
    fn what_a_trial_needs_fits_and_what_names_a_place_or_is_out_of_bounds_does_not() {
        let check_in = |memory_bytes, part: &str, change: &dyn Fn(&mut Task)| {
            let mut task = task();
            change(&mut task);
            let addresses = Addresses {
                own: &OWN,
                partners: &PARTNERS,
            };
            let refused = fits(&task, Duration::ZERO, addresses, memory_bytes).err();
            let why = refused.unwrap_or_default();
            assert!(
                why.is_empty() == part.is_empty() && why.contains(part),
                "{why}"
            );
        };
        let check = |part: &str, change: &dyn Fn(&mut Task)| check_in(1 << 30, part, change);
        check("", &|_| {});
        check_in(1024, "more than half of the memory", &|_| {});
        let place = "a path, a CPU";
        check(place, &|t| t.here.pins = vec![vec![0]]);
        check(place, &|t| t.here.java = Some("/bin/sh".into()));
        check(place, &|t| t.here.cgroup_procs = vec!["/etc/passwd".into()]);
        let file = |t: &mut Task, change: fn(&mut FileTask)| change(t.here.file.as_mut().unwrap());
        check(place, &|t| file(t, |f| f.path = "/etc/shadow".into()));
        check(place, &|t| {
            file(t, |f| f.target = Some("/etc/shadow".into()))
        });
        let side = "only a side of a trial";
        check(side, &|t| t.role = Role::Background);
        check(side, &|t| t.cell = Cell::default());
        check("without another", &|t| t.connection = ConnectionSetup::None);
        check("none of this host's", &|t| t.connection = listens(None));
        let everywhere = Some(Ipv4Addr::UNSPECIFIED.into());
        check("none of this host's", &|t| {
            t.connection = listens(everywhere)
        });
        check("", &|t| {
            t.connection = ConnectionSetup::Connect("192.0.2.7:80".into())
        });
        check("none of the host that runs the study", &|t| {
            t.connection = ConnectionSetup::Connect("192.0.2.8:80".into());
        });
        check("that is none", &|t| {
            t.connection = ConnectionSetup::Connect("bytecost-1-0".into())
        });
        let bounds = "out of bounds";
        check(bounds, &|t| t.keys = Vec::new());
        check(bounds, &|t| t.cell.threads = u32::MAX);
        check(bounds, &|t| t.cell.size_bytes = 0);
        check(bounds, &|t| t.min_messages = u64::MAX);
        check(bounds, &|t| t.timeout_ms = u64::MAX);
    }
}
