//! Refusals: the needs of a cell compared with the features and limits of a host.

use bytecost_host::placement;
use bytecost_spec::cell::{Answer, Pattern, Payload, Reaping};
use bytecost_spec::survey::{FileSurvey, InFlight, MoverFacts, Release};
use bytecost_spec::units::{bytes_in_words, count};
use bytecost_spec::{
    Cache, Cell, Class, Host, HugePages, PeerHost, PeerSide, Placement, Route, Survey, Transport,
};

use crate::candidates::{congestion_controls, has_peer, is_of_cpus, is_of_files};
use crate::host_sides::{DESCRIPTORS_BESIDES, HostSides};
use crate::{Pins, SurveyedHost, link, served};

/// The most bytes of one request: the kernel's MAX_RW_COUNT.
const MOST_REQUEST_BYTES: u64 = 0x7fff_f000;
/// The most bytes of one buffer that io_uring registers: io_uring_register(2).
const MOST_REGISTERED_BYTES: u64 = 1 << 30;

/// The reason why a cell is not available on this host, with the remedy; none if it is.
pub fn refused(cell: &Cell, here: SurveyedHost<'_>) -> Option<String> {
    match cell.transport {
        Transport::Peer => Some(
            "transport peer leads to another host, and none is known: name it with --peer"
                .to_owned(),
        ),
        _ => refused_at(HostSides::Both, cell, here),
    }
}

/// The reason why a cell is not available with one side on a peer, with the host that refuses it.
pub(crate) fn refused_between(
    cell: &Cell,
    here: SurveyedHost<'_>,
    peer: &PeerHost,
) -> Option<String> {
    let [sides_here, sides_there] = match peer.side {
        PeerSide::Receiver => [HostSides::Sender, HostSides::Receiver],
        PeerSide::Sender => [HostSides::Receiver, HostSides::Sender],
    };
    let of_peer = || {
        let why = refused_at(sides_there, cell, peer.into())?;
        Some(format!("on {}: {why}", peer.name))
    };
    apart(cell, peer.side)
        .or_else(|| refused_at(sides_here, cell, here))
        .or_else(of_peer)
}

/// The refusal of features that need both sides, or the sender, on this host.
fn apart(cell: &Cell, side: PeerSide) -> Option<String> {
    if let Placement::Near(nearness) = cell.placement {
        return Some(format!(
            "placement {}: the two ends are on two hosts: choose --placement free, or CPUs as in 0:1",
            nearness.name()
        ));
    }
    if !cell.cgroup.is_none() {
        return Some(format!(
            "cgroup {}: control groups are made on this machine alone: leave --cgroup or --peer out",
            cell.cgroup
        ));
    }
    (!cell.neighbour.is_idle() && side == PeerSide::Sender).then(|| {
        format!(
            "background load {}: it runs beside the sender, which is on the other host: leave --background or --reverse out",
            cell.neighbour
        )
    })
}

/// The refusal of a host that runs these sides.
fn refused_at(sides: HostSides, cell: &Cell, machine: SurveyedHost<'_>) -> Option<String> {
    let SurveyedHost { host, survey } = machine;
    if cell.is_served() {
        return served::refused(cell, host.memory_bytes, survey, sides)
            .or_else(|| congestion(cell, machine))
            .or_else(|| Pins::new(cell, true, host).err());
    }
    let by_kind = if has_peer(survey, cell) {
        ends(sides, cell, survey)
            .or_else(|| link::refused(cell, survey))
            .or_else(|| payload(cell, survey))
            .or_else(|| reaping(cell, survey))
            .or_else(|| sides.sends().then(|| congestion(cell, machine))?)
            .or_else(|| socket_buffer(cell, host))
            .or_else(|| sides.sends().then(|| sent_file(cell, survey))?)
    } else if is_of_files(survey, cell) {
        file(cell, survey)
    } else {
        huge_pages(cell, survey)
    };
    // A survey is refused too what has no threads, and knows no more than that.
    threads(sides, cell, host)
        .or(by_kind)
        .or_else(|| Pins::new(cell, has_peer(survey, cell), host).err())
        .or_else(|| isolation(cell, machine))
        .or_else(|| spinning(cell, machine))
        .or_else(|| descriptors(cell, machine))
        .or_else(|| {
            sides
                .sends()
                .then(|| too_long_for_a_request(cell, survey))?
        })
        .or_else(|| sides.sends().then(|| locked_memory(cell, machine))?)
        .or_else(|| memory(cell, machine))
}

/// The refusal of huge pages that the system does not provide.
fn huge_pages(cell: &Cell, survey: &Survey) -> Option<String> {
    let why = survey.huge_pages_refused.as_ref()?;
    (cell.huge_pages == HugePages::On).then(|| format!("huge pages: {why}"))
}

/// The refusal of socket buffers that the kernel would silently reduce: it doubles the requested size,
/// bounded by these settings, socket(7).
fn socket_buffer(cell: &Cell, host: &Host) -> Option<String> {
    let bytes = cell.socket_buffer_bytes?;
    let (name, most) = [
        ("wmem_max", host.wmem_max_bytes),
        ("rmem_max", host.rmem_max_bytes),
    ]
    .into_iter()
    .filter_map(|(name, most)| Some((name, most?)))
    .min_by_key(|(_, most)| *most)?;
    (bytes > most.saturating_mul(2)).then(|| {
        format!(
            "socket buffers of {}: net.core.{name} is {most} bytes, and the kernel gives twice that: choose a smaller --socket-buffer, or raise net.core.wmem_max and net.core.rmem_max",
            bytes_in_words(bytes)
        )
    })
}

/// The refusal of two threads that spin on one CPU: each turn would last a time slice of the scheduler.
fn spinning(cell: &Cell, SurveyedHost { host, survey }: SurveyedHost<'_>) -> Option<String> {
    if survey.mover(&cell.mover)?.route != Route::PingPongSpinning {
        return None;
    }
    let pins = Pins::new(cell, false, host).ok()?;
    let set_of_both = match pins.sender.len() {
        0 => Some(host.cpus_allowed.as_slice()),
        sets => (0..cell.threads as usize)
            .map(|flow| [2 * flow, 2 * flow + 1].map(|thread| &pins.sender[thread % sets]))
            .find(|[a, b]| a == b)
            .map(|[a, _]| a.as_slice()),
    };
    let [_one] = set_of_both? else { return None };
    Some(format!(
        "mover `{}` with both threads on one CPU: they spin, so each waits until the scheduler takes the CPU from the other: choose two CPUs, or a mover that sleeps, such as ping-futex",
        cell.mover
    ))
}

/// The refusal of a mover or receiver over the cell's transport.
fn ends(sides: HostSides, cell: &Cell, survey: &Survey) -> Option<String> {
    let over = cell.transport.name();
    if cell.pattern == Pattern::RequestResponse && !cell.transport.has_receiver() {
        return Some(format!(
            "pattern `request-response` over {over}: there is no receiver to respond: choose --pattern stream"
        ));
    }
    if cell.cache == Cache::Cold && !cell.transport.has_receiver() {
        return Some(format!(
            "cold files over {over}: both ends must agree on the passes over the file, and there is no receiver: choose --cache memory or warm"
        ));
    }
    if let Some(why) = long_answer(cell) {
        return Some(why);
    }
    let mover = || {
        let why = survey.mover_refused(&cell.mover, cell.transport)?;
        Some(format!("mover `{}` over {over}: {why}", cell.mover))
    };
    let receiver = || {
        let why = survey.receiver_refused(&cell.receiver, cell.transport)?;
        Some(format!("receiver `{}` over {over}: {why}", cell.receiver))
    };
    let mover = sides.sends().then(mover).flatten();
    mover.or_else(|| sides.receives().then(receiver)?)
}

fn long_answer(cell: &Cell) -> Option<String> {
    let is_default = cell.answer == Cell::default().answer;
    let Answer::Bytes(bytes) = cell.answer else {
        return None;
    };
    (cell.pattern == Pattern::RequestResponse && !is_default && bytes > cell.size_bytes).then(|| {
        format!(
            "responses of {} to messages of {}: a response is never longer than its message: choose a smaller --response, or a larger --size",
            bytes_in_words(bytes),
            bytes_in_words(cell.size_bytes)
        )
    })
}

/// The refusal of a file that is sent: with O_DIRECT, on a disk without space, or longer than the user's.
fn sent_file(cell: &Cell, survey: &Survey) -> Option<String> {
    let (mover, cache) = (&cell.mover, cell.cache.name());
    if !survey.mover(mover)?.sends_a_file() {
        return None;
    }
    let files = survey.files.as_ref();
    match cell.cache {
        Cache::Memory if files.is_some_and(|f| f.user_file.is_some()) => {
            return Some(
                "a file given with --file is not a memory file: choose --cache warm or cold"
                    .to_owned(),
            );
        }
        Cache::Memory => return None,
        Cache::Direct => {
            return Some(format!(
                "mover `{mover}` sends from the page cache, which O_DIRECT bypasses: choose --cache memory, warm or cold"
            ));
        }
        Cache::Warm | Cache::Cold => {}
    }
    if let Some(why) = survey.file_refused(mover, cell.cache) {
        return Some(format!("mover `{mover}` with cache {cache}: {why}"));
    }
    no_room(sent_bytes(cell), Route::FileToSocket, cell, files?)
}

fn sent_bytes(cell: &Cell) -> u64 {
    cell.ring_slots()
        .saturating_mul(cell.size_bytes)
        .saturating_mul(u64::from(cell.threads))
}

/// The refusal of a file that is longer than the user's, or than the free space. A copy needs two files
/// of bytecost's own, or one if its source is the user's.
fn no_room(length: u64, route: Route, cell: &Cell, files: &FileSurvey) -> Option<String> {
    let count = u64::from(files.user_file_bytes.is_none()) + u64::from(route == Route::FileToFile);
    let made = length.saturating_mul(count);
    match files.user_file_bytes {
        Some(has) if length > has => Some(format!(
            "the file has {has} bytes, and {length} are needed: choose a --ring of at most {has}, or a larger file",
        )),
        _ if cell.cache != Cache::Memory && made > files.free_bytes => Some(format!(
            "no space: {} needed in {}, which has {}: choose another directory with --dir, or a smaller --ring or --size",
            match count {
                2 => format!("two files of {} are", bytes_in_words(length)),
                _ => format!("a file of {} is", bytes_in_words(length)),
            },
            files.dir,
            bytes_in_words(files.free_bytes)
        )),
        _ => None,
    }
}

/// The refusal to rewrite a payload that lies in a file, or that the kernel reads for an unknown time.
fn payload(cell: &Cell, survey: &Survey) -> Option<String> {
    let mover = survey.mover(&cell.mover)?;
    if cell.payload == Payload::Prepared || mover.can_refill() {
        return None;
    }
    let why = match mover.release {
        Release::Never => "nothing reports when its pages were read, so they must not change",
        _ => "it does not send from its own memory",
    };
    Some(format!(
        "payload `refilled` with mover `{}`: {why}: choose --payload prepared",
        cell.mover
    ))
}

/// The refusal to leave completions unread, if the mover's results are in the same ring.
fn reaping(cell: &Cell, survey: &Survey) -> Option<String> {
    let mover = survey.mover(&cell.mover)?;
    let is_possible = cell.reaping == Reaping::Full
        || mover.release != Release::AtCompletion
        || mover.leaves_completions;
    (!is_possible).then(|| {
        format!(
            "reaping `{}` with mover `{}`: its completions and results share one ring, so all must be taken: choose --reaping full",
            cell.reaping.name(),
            cell.mover
        )
    })
}

/// The refusal of a mover of files: its cache state, and the sizes of file, requests and blocks.
fn file(cell: &Cell, survey: &Survey) -> Option<String> {
    let (mover, cache) = (&cell.mover, cell.cache.name());
    if let Some(why) = survey.file_refused(mover, cell.cache) {
        return Some(format!("mover `{mover}` with cache {cache}: {why}"));
    }
    let files = survey.files.as_ref()?;
    let size = cell.size_bytes;
    if cell.file_slots() == 0 {
        return Some(format!(
            "no request of {} fits into the part of {} that each flow has: choose a larger --ring, a smaller --size, or fewer --threads",
            bytes_in_words(size),
            cell.ring
        ));
    }
    let route = survey.mover(mover).map_or(Route::Nowhere, |m| m.route);
    let unit = files.direct_bytes.unwrap_or(1).max(1);
    if cell.cache == Cache::Direct && !size.is_multiple_of(unit) {
        return Some(format!(
            "O_DIRECT needs requests in multiples of {unit} bytes on this file system: choose a --size that is a multiple of {unit}, unlike {size}"
        ));
    }
    let block = cell.block_bytes;
    let in_blocks = route.goes_by_blocks() && block < size;
    if cell.cache == Cache::Direct && in_blocks && !block.is_multiple_of(unit) {
        return Some(format!(
            "O_DIRECT needs calls in multiples of {unit} bytes on this file system: choose a --block that is a multiple of {unit}, unlike {block}"
        ));
    }
    let length = cell.file_slots() * size * u64::from(cell.threads);
    no_room(length, route, cell, files)
}

fn congestion(cell: &Cell, machine: SurveyedHost<'_>) -> Option<String> {
    let name = &cell.congestion;
    let available = congestion_controls(machine);
    let is_available = !cell.transport.is_tcp()
        || name == "default"
        || available.is_empty()
        || available.contains(name);
    if is_available {
        return None;
    }
    let remedy = if machine.host.congestion_available.contains(name) {
        "as root add it to net.ipv4.tcp_allowed_congestion_control".to_owned()
    } else {
        format!("as root load it with `modprobe tcp_{name}`, if the kernel has it")
    };
    Some(format!(
        "congestion control `{name}` is not available to this process ({} are): choose one of these with --congestion; or {remedy}",
        available.join(", ")
    ))
}

/// The refusal of a scheduler class or control group, alone or together with other features.
fn isolation(cell: &Cell, SurveyedHost { host, survey }: SurveyedHost<'_>) -> Option<String> {
    let (class, cgroup) = (cell.class, &cell.cgroup);
    if class == Class::Deadline && cell.placement != Placement::Free {
        return Some(format!(
            "class deadline with placement {}: its threads must be allowed to run on every CPU: choose --placement free",
            cell.placement
        ));
    }
    if class == Class::Deadline && survey.mover(&cell.mover).is_some_and(|m| m.route.is_ping()) {
        return Some(format!(
            "class deadline with mover `{}`: threads do not inherit it, so its second thread would have another class: choose --class fifo",
            cell.mover
        ));
    }
    if let Some(cpus) = &cgroup.cpuset {
        if class == Class::Deadline {
            return Some(
                "class deadline with a cpuset: its threads must be allowed to run on every CPU: choose another --cgroup".to_owned(),
            );
        }
        if cell.placement != Placement::Free {
            return Some(format!(
                "cgroup {cgroup} with placement {}: pinned threads already stay on their CPUs: choose --placement free",
                cell.placement
            ));
        }
        if let Some(why) = cpus
            .iter()
            .find_map(|cpu| placement::unusable_reason(*cpu, host))
        {
            return Some(why);
        }
    }
    survey.isolation_refused(class, cgroup)
}

fn descriptors(cell: &Cell, SurveyedHost { host, survey }: SurveyedHost<'_>) -> Option<String> {
    let each = survey.mover(&cell.mover)?.descriptors_per_flow;
    let needed = u64::from(cell.threads) * u64::from(each.max(1)) + DESCRIPTORS_BESIDES;
    let limit = host.nofile_limit;
    let flows = match cell.threads {
        1 => "1 flow".to_owned(),
        n => format!("{n} flows"),
    };
    (limit > 0 && needed > limit).then(|| {
        format!(
            "RLIMIT_NOFILE: {flows} of `{}` need {needed} open files, the limit is {limit}: raise it with `ulimit -n {needed}`, or choose fewer --threads",
            cell.mover
        )
    })
}

/// The refusal of more threads than the limit: one for each flow on each side, and a process for each side
/// and for each side of the next trial, which is started at the same time.
fn threads(sides: HostSides, cell: &Cell, host: &Host) -> Option<String> {
    let limit = host.threads_limit.as_ref()?;
    let sides = if sides == HostSides::Both { 2 } else { 1 };
    let needed = sides * (u64::from(cell.threads) + 2);
    (needed > limit.left()).then(|| {
        format!(
            "{} with {needed} threads and processes: {} of {} are left ({}): raise the limit, or choose fewer --threads",
            count(cell.threads as usize, "flow"),
            limit.left(),
            limit.limit,
            limit.name
        )
    })
}

/// The refusal of a message that is one request, or of memory that is registered as one buffer: the
/// request's for a file, else the ring.
fn too_long_for_a_request(cell: &Cell, survey: &Survey) -> Option<String> {
    let mover = survey.mover(&cell.mover)?;
    let (name, size) = (&cell.mover, cell.size_bytes);
    let by_parts = matches!(mover.in_flight, InFlight::One | InFlight::OneByProcess);
    if size > MOST_REQUEST_BYTES && !by_parts && !mover.sends_a_file() {
        return Some(format!(
            "mover `{name}` with messages of {}: each is one request, which moves at most {MOST_REQUEST_BYTES} bytes: choose a smaller --size",
            bytes_in_words(size)
        ));
    }
    let messages = if mover.has_peer() {
        cell.ring_slots()
    } else {
        1
    };
    let buffer = messages.saturating_mul(size);
    (buffer > MOST_REGISTERED_BYTES && mover.locks_rings > 0).then(|| {
        format!(
            "mover `{name}` with a buffer of {buffer} bytes: io_uring registers at most 1 GiB as one: choose a smaller --ring or --size"
        )
    })
}

fn locked_memory(cell: &Cell, SurveyedHost { host, survey }: SurveyedHost<'_>) -> Option<String> {
    let rings = u64::from(survey.mover(&cell.mover)?.locks_rings);
    let limit = host.memlock_limit_bytes?;
    let needed = payload_bytes(cell, survey).saturating_mul(rings);
    (!host.memlock_exempt && needed > limit).then(|| {
        format!(
            "RLIMIT_MEMLOCK: `{}` locks {} of payload, the limit is {}: raise it with `ulimit -l {}`, or choose a smaller --ring",
            cell.mover,
            bytes_in_words(needed),
            bytes_in_words(limit),
            needed.div_ceil(1024)
        )
    })
}

/// The refusal of more than half of the machine's memory, or of a limit of memory.
fn memory(cell: &Cell, SurveyedHost { host, survey }: SurveyedHost<'_>) -> Option<String> {
    let (who, needed) = if is_of_cpus(survey, cell) {
        ("the threads need", payload_bytes(cell, survey))
    } else if is_of_files(survey, cell) {
        ("the file and its requests need", file_bytes(cell, survey))
    } else if survey.mover(&cell.mover).is_some_and(|m| m.sends_a_file()) {
        let of_file = match cell.cache {
            Cache::Memory | Cache::Warm => sent_bytes(cell),
            Cache::Cold | Cache::Direct => 0,
        };
        ("the file needs", of_file)
    } else {
        (
            "both sides need",
            payload_bytes(cell, survey).saturating_mul(2),
        )
    };
    let half = host.memory_bytes / 2;
    let of_machine = (half > 0).then(|| {
        let gib = host.memory_bytes as f64 / f64::from(1 << 30);
        (half, format!("half of this machine's {gib:.1} GiB"))
    });
    let of_group = host.memory_limit.as_ref().map(|group| {
        let words = bytes_in_words(group.limit);
        (
            group.limit / 2,
            format!("half of the {words} of {}", group.name),
        )
    });
    let of_process = host.address_space_limit_bytes.map(|bytes| {
        let words = bytes_in_words(bytes);
        (
            bytes / 2,
            format!("half of the {words} of RLIMIT_AS (`ulimit -v`)"),
        )
    });
    let (most, limit) =
        ([of_machine, of_group, of_process].into_iter().flatten()).min_by_key(|(most, _)| *most)?;
    (needed > most).then(|| {
        format!(
            "memory: {who} {} for {}, more than {limit}: choose a smaller --ring, or fewer --threads",
            bytes_in_words(needed),
            if is_of_cpus(survey, cell) { "work" } else { "payload" },
        )
    })
}

/// Memory for a file that stays in memory, and for the requests in flight.
fn file_bytes(cell: &Cell, survey: &Survey) -> u64 {
    let flows = u64::from(cell.threads);
    let in_flight = cell.size_bytes.saturating_mul(u64::from(cell.depth));
    let file = match cell.cache {
        Cache::Memory | Cache::Warm => {
            let copies = |m: &MoverFacts| m.route == Route::FileToFile;
            let files = 1 + u64::from(survey.mover(&cell.mover).is_some_and(copies));
            let part = cell.file_slots().saturating_mul(cell.size_bytes);
            part.saturating_mul(files)
        }
        Cache::Cold | Cache::Direct => 0,
    };
    file.saturating_add(in_flight).saturating_mul(flows)
}

/// Payload memory of the sending side, all flows.
fn payload_bytes(cell: &Cell, survey: &Survey) -> u64 {
    let messages = if is_of_cpus(survey, cell) {
        1
    } else if is_of_files(survey, cell) {
        u64::from(cell.depth)
    } else {
        cell.ring_slots()
    };
    messages
        .saturating_mul(cell.size_bytes)
        .saturating_mul(u64::from(cell.threads))
}
