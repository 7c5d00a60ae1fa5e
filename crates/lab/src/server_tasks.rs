//! The threads or processes of a server, which are looked at one by one before its window opens.

use bytecost_engine::Server;
use bytecost_meter::MOST_THREADS;
use bytecost_spec::Cell;

/// The most of them that are looked at for a cell; 0 of a server that has none for each connection.
pub(crate) fn max_looked_at(server: &Server, cell: &Cell) -> u64 {
    let connections = cell.serving.all_connections();
    if !server.task_per_connection {
        0
    } else if server.needs_lone_thread {
        connections
    } else {
        connections.min(MOST_THREADS as u64)
    }
}
