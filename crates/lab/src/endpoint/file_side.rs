//! One flow of a mover of files: there is no other side.

use std::io;

use bytecost_engine::{InFlight, Mover, Setup};
use bytecost_meter::ProcessMeter;
use bytecost_spec::Cache;

use super::gate_control::FlowHandle;
use super::probed::Probed;
use super::side::FlowDone;
use crate::file_part::FilePart;
use crate::files;
use crate::page_cache;
use crate::requests::Requests;

pub(super) fn run(handle: FlowHandle<'_>, mover: &Mover) -> io::Result<FlowDone> {
    let FlowHandle { task, flow, .. } = handle;
    let cell = &task.cell;
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "no file was named");
    let at = task.here.file.as_ref().ok_or_else(none)?;
    let work = files::open(cell, mover, at, flow)?;
    let timeout = handle.timeout();
    files::prepare_pages(cell, &work, timeout)?;
    let kept = work.file.try_clone()?;
    let part = FilePart {
        cell,
        mover,
        task: at,
        walk: work.walk,
        check: task.check,
    };
    let mut engine = mover.open_file(Setup {
        file: Some(work),
        flow,
        ..Setup::new(part.size(), timeout)
    })?;
    let mut seen = None;
    if flow == 0 && !task.here.probed.is_empty() {
        let (probed, found) = Probed::around(engine, cell.size_bytes, &task.here.probed);
        (engine, seen) = (probed, Some(found));
    }
    let (offset, len) = part.walk.part();
    // Other flows may be writing to folios that this part shares with theirs.
    let mut cool = || page_cache::cool(&kept, offset, len, timeout);
    let cold = (cell.cache == Cache::Cold).then_some((part.walk.blocks(), &mut cool as _));
    let mut requests = Requests::new(&mut *engine, part.places(), part.content(), cold);
    let end = handle.window_end();
    handle.ready();
    let of_process = mover.in_flight == InFlight::SeveralByThreads;
    let thread = handle.thread_meter();
    let mut done = if of_process {
        let mut meter = handle.metered(ProcessMeter(thread));
        FlowDone::from_segments(&requests.run(handle.gate, &mut meter, end)?, &meter)
    } else {
        let mut meter = handle.metered(thread);
        FlowDone::from_segments(&requests.run(handle.gate, &mut meter, end)?, &meter)
    };
    done.of_process = of_process;
    done.compared_bytes = requests.compared_bytes;
    done.latency_ns = Some(requests.latency_ns);
    drop(engine);
    done.compared_bytes += part.check_written(done.total.messages)?;
    done.footprint = seen.map(|seen| seen.take());
    Ok(done)
}
