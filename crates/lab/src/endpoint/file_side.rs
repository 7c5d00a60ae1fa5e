//! One flow of a mover of files: there is no other side.

use std::io;
use std::time::Duration;

use bytecost_engine::{InFlight, Mover, Route, Setup, Walk, file};
use bytecost_meter::ProcessMeter;
use bytecost_spec::Cache;

use super::gate_control::FlowHandle;
use super::probed::Probed;
use super::side::FlowDone;
use crate::edges::WindowEnd;
use crate::file_task::FileTask;
use crate::files;
use crate::page_cache;
use crate::protocol::{ContentCheck, Task};
use crate::requests::{Content, Requests};

/// Bytes of each request that a timed trial compares: the first word.
const QUICK_BYTES: usize = 8;

/// Blocks that are looked at after a timed trial has written them.
const QUICK_BLOCKS: u64 = 1000;

pub(super) fn run(
    task: &Task,
    mover: &Mover,
    flow: u32,
    handle: FlowHandle<'_>,
) -> io::Result<FlowDone> {
    let cell = &task.cell;
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "no file was named");
    let at = task.here.file.as_ref().ok_or_else(none)?;
    let work = files::open(cell, mover, at, flow)?;
    let patience = Duration::from_millis(task.patience_ms);
    files::settle(cell, &work, patience)?;
    let kept = work.file.try_clone()?;
    let gone = Gone {
        walk: work.walk,
        size: usize::try_from(cell.size_bytes).map_err(|_| io::ErrorKind::InvalidInput)?,
        depth: work.depth,
        block: work.block,
    };
    let mut engine = mover.open_file(Setup {
        file: Some(work),
        flow,
        ..Setup::new(gone.size, patience)
    })?;
    let mut seen = None;
    if flow == 0 && !task.here.probed.is_empty() {
        let (probed, found) = Probed::around(engine, cell.size_bytes, &task.here.probed);
        (engine, seen) = (probed, Some(found));
    }
    let full = task.check == ContentCheck::Full;
    let content = (at.own && mover.route.reads_a_file()).then(|| Content {
        pattern: file::content(),
        most: if full { usize::MAX } else { QUICK_BYTES },
    });
    let (offset, len) = gone.walk.part();
    // Other flows may be writing to folios that this part shares with theirs.
    let mut cool = || page_cache::cool(&kept, offset, len, patience);
    let cold = (cell.cache == Cache::Cold).then_some((gone.walk.blocks(), &mut cool as _));
    let places = match mover.route {
        Route::MemoryToFile => file::written_places(gone.size, gone.depth),
        _ => gone.depth,
    };
    let mut requests = Requests::new(&mut *engine, places, content, cold);
    let end = WindowEnd {
        on_close: || handle.closed(),
        min_messages: task.min_messages,
    };
    handle.ready();
    let of_process = mover.in_flight == InFlight::SeveralByThreads;
    let thread = task.here.meters.thread();
    let mut done = if of_process {
        let mut meter = handle.metered(flow, ProcessMeter(thread));
        let segments = requests.run(handle.gate, &mut meter, end)?;
        FlowDone::from_segments(&segments, &meter)
    } else {
        let mut meter = handle.metered(flow, thread);
        let segments = requests.run(handle.gate, &mut meter, end)?;
        FlowDone::from_segments(&segments, &meter)
    };
    done.of_process = of_process;
    done.compared_bytes = requests.compared_bytes;
    done.latency_ns = Some(requests.latency_ns);
    drop(engine);
    done.compared_bytes += look_after(at, mover, &gone, done.total.messages, full)?;
    done.footprint = seen.map(|seen| seen.take());
    Ok(done)
}

struct Gone {
    walk: Walk,
    size: usize,
    depth: usize,
    block: usize,
}

/// Compares what was written, after all of it was: how many bytes that were.
fn look_after(
    at: &FileTask,
    mover: &Mover,
    gone: &Gone,
    messages: u64,
    full: bool,
) -> io::Result<u64> {
    let open = |path| file::open(path, file::Opening::default());
    let (walk, size, block) = (gone.walk, gone.size, gone.block);
    let (blocks, most) = match full {
        true => (u64::MAX, usize::MAX),
        false => (QUICK_BLOCKS, QUICK_BYTES),
    };
    if let Some(copy) = &at.target {
        let calls = size.div_ceil(block.max(1)) as u64;
        let blocks = messages.min((blocks / calls).max(1));
        let (from, to) = (open(&at.path)?, open(copy)?);
        return file::check_copied(from, to, walk, blocks, (size, block), most);
    }
    if mover.route != Route::MemoryToFile {
        return Ok(0);
    }
    let (file, blocks) = (open(&at.path)?, messages.min(blocks));
    file::check_written(file, walk, blocks, size, gone.depth, most)
}
