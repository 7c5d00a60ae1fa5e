//! `thread`: a thread for each connection, with blocking calls.
//!
//! Each thread is a server of one client, written as if there were no others; the scheduler does
//! the rest. Two system calls a request, as with `single`, but a stack for each connection, and a
//! context switch whenever a client was waited for.

use std::io;
use std::thread::Builder;

use super::conversation::Worker;
use super::open_connections::OpenConnections;
use crate::servers::{ONE_THREAD, Server, ServerFacts, ServerSetup, ServerTally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "thread",
        summary: "a thread for each connection, which blocks until its client sends a request",
        task_per_connection: true,
        ..ONE_THREAD
    },
    serve,
};

/// Address space for each stack. Memory is taken only where a stack is touched, but thousands
/// of the usual 2 MiB could exceed what the system lets a process map.
const STACK_BYTES: usize = 256 << 10;

fn serve(setup: ServerSetup) -> io::Result<ServerTally> {
    let new_worker = Worker::opener(&setup);
    let open = OpenConnections::new(setup)?;
    let counted = &open;
    open.each(|scope, connection| {
        let new_worker = new_worker.clone();
        let work = move || {
            let mut worker = new_worker();
            connection.serve(&mut worker);
            counted.add(worker.tally);
        };
        let thread = Builder::new().stack_size(STACK_BYTES);
        if thread.spawn_scoped(scope, work).is_err() {
            // No thread, no service: the connection is gone with the work, and the client sees
            // its connection closed.
            counted.turned_away();
        }
    })
}
