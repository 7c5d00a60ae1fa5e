//! `single`: one connection at a time, with blocking calls.
//!
//! The shortest server there is: take a connection, serve it until the client goes, take the
//! next. Two system calls a request and nothing else. Everyone else waits in the listener's
//! queue meanwhile, so one client that is slow holds up all others for as long as the server's
//! patience lasts, and one that never goes for ever.

use std::io;

use super::conversation::Worker;
use super::open_connections::OpenConnections;
use crate::servers::{ONE_THREAD, Server, ServerFacts, ServerSetup, ServerTally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "single",
        summary: "one connection at a time: the next is taken when the one before has gone",
        in_turn: true,
        caution: Some(
            "it serves one connection at a time: of many that are kept open, it serves one",
        ),
        ..ONE_THREAD
    },
    serve,
};

fn serve(setup: ServerSetup) -> io::Result<ServerTally> {
    let mut worker = Worker::new(&setup);
    let open = OpenConnections::new(setup)?;
    let mut tally = open.each(|_, connection| connection.serve(&mut worker))?;
    tally.add(worker.tally);
    Ok(tally)
}
