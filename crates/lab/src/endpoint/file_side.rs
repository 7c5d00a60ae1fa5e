//! One flow of a mover between a file and memory, which has no receiving side.

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
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "no file was named");
    let file_task = task.here.file.as_ref().ok_or_else(no_file)?;
    let work = files::open(cell, mover, file_task, flow)?;
    let timeout = handle.timeout();
    files::prepare_pages(cell, &work, timeout)?;
    let file = work.file.try_clone()?;
    let part = FilePart {
        cell,
        mover,
        task: file_task,
        order: work.order,
        check: task.check,
    };
    let mut engine = mover.open_file(Setup {
        file: Some(work),
        flow,
        ..Setup::new(part.size(), timeout)
    })?;
    let mut footprint = None;
    if flow == 0 && !task.here.probed.is_empty() {
        let (probed, shared) = Probed::around(engine, cell.size_bytes, &task.here.probed);
        (engine, footprint) = (probed, Some(shared));
    }
    let (offset, len) = part.order.part();
    // Waits if other flows write to folios at the edges of this part, as these cannot be dropped then.
    let mut cool = || page_cache::cool(&file, offset, len, timeout);
    let cold = (cell.cache == Cache::Cold).then_some((part.order.blocks(), &mut cool as _));
    let mut requests = Requests::new(&mut *engine, part.places(), part.content(), cold);
    let end = handle.window_end();
    handle.ready();
    let has_threads = mover.in_flight == InFlight::SeveralByThreads;
    let thread = handle.thread_meter();
    let mut done = if has_threads {
        let mut meter = handle.metered(ProcessMeter(thread));
        FlowDone::from_segments(&requests.run(handle.gate, &mut meter, end)?, &meter)
    } else {
        let mut meter = handle.metered(thread);
        FlowDone::from_segments(&requests.run(handle.gate, &mut meter, end)?, &meter)
    };
    done.of_process = has_threads;
    done.compared_bytes = requests.compared_bytes;
    done.latency_ns = Some(requests.latency_ns);
    drop(engine);
    done.compared_bytes += part.check_written(done.total.messages)?;
    done.footprint = footprint.map(|shared| shared.take());
    Ok(done)
}
