//! Surveys of this machine by real endpoint processes. The same program plays the endpoints.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytecost_engine::{MOVERS, Mover, RECEIVERS, Route, SERVERS, SERVICES};
use bytecost_lab::files::Files;
use bytecost_lab::helpers::Helpers;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::settings::Settings;
use bytecost_lab::short_trials::Surveyor;
use bytecost_lab::survey::{helped, helped_as_one, links, one_helped, survey};
use bytecost_lab::{file_survey, isolation_survey, server_survey};
use bytecost_spec::cell::Device;
use bytecost_spec::survey::{FileSupport, FileSurvey, LinkSupport};
use bytecost_spec::{Cache, Cell, Class, Host, Support, Survey, Transport};
use harness::{case, cell};
use rustix::process::geteuid;

mod harness;

/// The longest time of a survey that is stopped or finds nothing to start.
const SOON: Duration = Duration::from_secs(30);
static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    if let Some(code) = harness::endpoint() {
        return code;
    }
    harness::run_many(vec![
        // Invariant 5.
        case(
            "every row is there, with the reason if it is refused",
            every_row,
        ),
        case("a sender that fails behind its window says why", fails_late),
        case("movers that start a program are tried apart", helped_apart),
        case("a Java that is started once stands for all", one_for_all),
        case("veth and wire work for root alone", made_networks),
        case(
            "a transport that is not asked for is not tried",
            not_asked_for,
        ),
        case(
            "each link is tried once, with its largest packet",
            each_link,
        ),
        case(
            "movers of files are tried in every state of the cache",
            every_state,
        ),
        case(
            "a file system in memory is neither cold nor passed by",
            in_memory,
        ),
        case("a file of the user's is read and never written", user_file),
        case(
            "every server is tried, and its bounds are known",
            every_server,
        ),
        case("a class and a control group are tried once", isolation),
        // Invariant 8.
        case("a survey that is stopped ends soon", stopped),
        case(
            "a program that plays no endpoint refuses everything",
            no_endpoint,
        ),
    ])
}

fn with_surveyor<T>(work: impl FnOnce(&Surveyor<'_>) -> T) -> T {
    let program = Program::own().unwrap();
    work(&Surveyor::new(&program, &STOP))
}

fn survey_over(transports: &[Transport]) -> Survey {
    with_surveyor(|surveyor| survey(surveyor, &Host::default(), transports))
}

/// A unix socket has no TCP_CORK, which the first message finds out. A window of no length may have closed
/// by then; a full check has messages sent all the same.
fn fails_late() {
    let settings = Settings {
        window: Duration::ZERO,
        warmup: Duration::ZERO,
        ..harness::settings(ContentCheck::Full)
    };
    let mut lab = harness::lab(settings, Files::new(std::env::temp_dir(), None));
    let corked = cell("transport=unix mover=sendfile-cork receiver=recv size=4KiB");
    for _ in 0..40 {
        let failure = harness::trial_in(&mut lab, &corked).unwrap_err();
        assert!(failure.reason.contains("EOPNOTSUPP"), "{}", failure.reason);
    }
}

fn every_row() {
    let survey = survey_over(Transport::WITHIN);
    let apart = |m: &&Mover| m.route.is_of_files() || m.route.is_of_cpus() || m.is_helped();
    let (movers, all) = (MOVERS.iter().filter(|m| !apart(m)), Transport::WITHIN.len());
    assert_eq!(survey.movers.len(), movers.count() * all);
    assert_eq!(survey.receivers.len(), RECEIVERS.len() * all);
    assert_eq!(survey.mover_refused("send", Transport::Loopback), None);
    assert_eq!(survey.mover_refused("send", Transport::Unix), None);
    let of_mover = survey.mover_refused("send-zerocopy", Transport::Unix);
    let words = "this socket does not support it (EOPNOTSUPP)";
    assert_eq!(of_mover.as_deref(), Some(words));
    let of_receiver = survey.receiver_refused("recv-discard", Transport::Unix);
    let is_named = of_receiver.as_ref().unwrap().contains("TCP only");
    assert!(is_named, "{of_receiver:?}");
}

fn helped_apart() {
    with_surveyor(|surveyor| {
        let places = [Transport::Loopback, Transport::Unix];
        let helpers = Helpers::ready();
        let found = helped(surveyor, &helpers, &places);
        let movers = MOVERS.iter().filter(|m| m.is_helped());
        assert_eq!(found.len(), movers.count() * places.len());
        let works = |row: &Support| row.refused.is_none();
        let has_java = helpers.java_version().is_some();
        assert!(found.iter().all(|row| works(row) == has_java), "{found:?}");
        let none = Helpers::missing("there is no java");
        let without_java = helped(surveyor, &none, &places);
        let is_refused = |row: &Support| row.refused.as_deref() == Some("there is no java");
        assert!(without_java.iter().all(is_refused), "{without_java:?}");
    });
}

fn one_for_all() {
    with_surveyor(|surveyor| {
        let survey = survey(surveyor, &Host::default(), Transport::WITHIN);
        let tried = helped(surveyor, &Helpers::ready(), Transport::WITHIN);
        // Without root the reason over veth is that of its network, and Java is not asked for.
        let is_compared = |row: &Support| !row.transport.is_made() || geteuid().is_root();
        let mut found = helped_as_one(surveyor, one_helped(surveyor), &survey);
        found.retain(is_compared);
        assert!(
            tried.iter().filter(|row| is_compared(row)).eq(&found),
            "{found:?}"
        );
        let none = helped_as_one(surveyor, Err("no java".to_owned()), &survey);
        assert_eq!(none.len(), tried.len());
    });
}

fn made_networks() {
    for transport in [Transport::Veth, Transport::Wire] {
        let survey = survey_over(&[transport]);
        let refused = survey.mover_refused("send", transport);
        if geteuid().is_root() {
            assert_eq!(refused, None);
            assert_eq!(survey.receiver_refused("recv", transport), None);
            let other = survey.receiver_refused("recvmsg", transport);
            assert_eq!(other.is_none(), transport.has_receiver());
            continue;
        }
        let why = refused.unwrap();
        assert!(why.contains("sudo bytecost"), "{why}");
        let has_peer = |m: &&Support| Mover::named(&m.name).unwrap().has_peer();
        let movers = survey.movers.iter().filter(has_peer);
        for row in movers.chain(&survey.receivers) {
            assert_eq!(row.refused.as_ref(), Some(&why), "{row:?}");
        }
    }
}

fn not_asked_for() {
    let survey = survey_over(&[Transport::Unix]);
    assert!(survey.movers.iter().all(|m| m.transport == Transport::Unix));
    let why = survey.mover_refused("send", Transport::Veth).unwrap();
    assert!(why.contains("was not tried over veth"), "{why}");
}

fn each_link() {
    let linked = |transport, device| Cell {
        transport,
        device,
        ..Cell::default()
    };
    let cells = [
        linked(Transport::Loopback, Device::Veth),
        linked(Transport::Wire, Device::Tun),
        linked(Transport::Wire, Device::Veth),
        linked(Transport::Wire, Device::Tun),
        linked(Transport::Veth, Device::Tun),
    ];
    let found = with_surveyor(|surveyor| links(surveyor, &cells));
    let is_of = |l: &LinkSupport| (l.transport, l.device);
    let expected = [
        (Transport::Wire, Device::Tun),
        (Transport::Wire, Device::Veth),
        (Transport::Veth, Device::Tun),
    ];
    assert!(found.iter().map(is_of).eq(expected), "{found:?}");
    for link in found {
        if geteuid().is_root() {
            assert_eq!(link.refused, None);
            // Before Linux 5.19 it is not reported.
            assert!(link.segment_bytes_most.is_none_or(|most| most >= 65_536));
        } else {
            assert!(link.refused.unwrap().contains("sudo bytecost"));
        }
    }
}

fn file_survey_in(dir: &str, user: Option<PathBuf>) -> FileSurvey {
    let mut files = Files::new(PathBuf::from(dir), user);
    with_surveyor(|surveyor| file_survey::survey(surveyor, &mut files)).unwrap()
}

fn refused(found: &FileSurvey, name: &str, cache: Cache) -> Option<String> {
    let of_it = |m: &&FileSupport| m.name == name && m.cache == cache;
    found.movers.iter().find(of_it).unwrap().refused.clone()
}

fn every_state() {
    let found = file_survey_in(env!("CARGO_MANIFEST_DIR"), None);
    let is_tried = |m: &&Mover, cache: Cache| {
        let sends = m.route == Route::FileToSocket && matches!(cache, Cache::Warm | Cache::Cold);
        !m.is_helped() && (m.route.is_of_files() || sends)
    };
    let tried = |cache: &Cache| MOVERS.iter().filter(|m| is_tried(m, *cache)).count();
    let all: usize = Cache::ALL.iter().map(tried).sum();
    assert_eq!(found.movers.len(), all);
    assert!(found.free_bytes > 0 && !found.file_system.is_empty());
    assert!(found.device.is_some());
    for name in ["pread", "pwrite", "sendfile"] {
        assert_eq!(refused(&found, name, Cache::Warm), None);
    }
    let mapped = refused(&found, "mmap-touch", Cache::Direct).unwrap();
    let expected = "a mapping shows the page cache";
    assert!(mapped.starts_with(expected), "{mapped}");
    let direct = refused(&found, "pread", Cache::Direct);
    assert_eq!(direct.is_none(), found.direct_bytes.is_some(), "{direct:?}");
}

fn in_memory() {
    if !Path::new("/dev/shm").is_dir() {
        return;
    }
    let found = file_survey_in("/dev/shm", None);
    assert_eq!(found.file_system, "tmpfs");
    assert_eq!(found.direct_bytes, None);
    assert_eq!(refused(&found, "pread", Cache::Warm), None);
    for (cache, word) in [
        (Cache::Cold, "not cold"),
        (Cache::Direct, "past the page cache"),
    ] {
        for mover in ["pread", "pwrite", "uring-read"] {
            let why = refused(&found, mover, cache).unwrap();
            assert!(why.contains(word) && why.contains("--dir"), "{why}");
        }
    }
}

fn user_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine");
    std::fs::write(&path, vec![3; 10_000]).unwrap();
    let found = file_survey_in(dir.path().to_str().unwrap(), Some(path.clone()));
    assert_eq!(found.user_file_bytes, Some(10_000));
    for mover in ["read", "sendfile", "copy_file_range"] {
        assert_eq!(refused(&found, mover, Cache::Warm), None, "{mover}");
    }
    let not_memory = refused(&found, "read", Cache::Memory).unwrap();
    assert!(not_memory.contains("not a memory file"), "{not_memory}");
    for mover in MOVERS.iter().filter(|m| m.route == Route::MemoryToFile) {
        for cache in [Cache::Warm, Cache::Cold] {
            let why = refused(&found, mover.name, cache).unwrap();
            assert!(why.contains("never written"), "{why}");
        }
    }
    assert_eq!(std::fs::read(&path).unwrap(), vec![3; 10_000]);
    std::fs::write(&path, [7; 5]).unwrap();
    let short = file_survey_in(dir.path().to_str().unwrap(), Some(path.clone()));
    assert_eq!(refused(&short, "read", Cache::Warm), None);
    std::fs::write(&path, []).unwrap();
    for bad in [path, dir.path().to_owned(), PathBuf::from("/nowhere")] {
        let word = bad.display().to_string();
        let mut files = Files::new(dir.path().to_owned(), Some(bad));
        let why = with_surveyor(|surveyor| file_survey::survey(surveyor, &mut files)).unwrap_err();
        assert!(why.to_string().contains(&word), "{why}");
    }
}

fn every_server() {
    let survey = with_surveyor(server_survey::survey);
    assert_eq!(survey.servers.len(), SERVERS.len());
    assert_eq!(survey.services.len(), SERVICES.len());
    for server in &survey.servers {
        // io_uring may be closed here; all others are of every kernel.
        let works = server.refused.is_none() || server.name == "uring";
        assert!(works, "{server:?}");
    }
    let limits = survey.limits.unwrap();
    assert!(limits.descriptors > 64 && limits.tasks > 64 && limits.ports > 64);
    assert!(!limits.tasks_by.is_empty());
    if let Some(why) = survey.filter_refused {
        assert!(why.contains("SO_ATTACH_FILTER"), "{why}");
    }
    let generator = survey.generator.unwrap();
    let is_known = generator == "io_uring" || generator.starts_with("epoll: no ring (");
    assert!(is_known, "{generator}");
}

fn isolation() {
    let cells = ["", "class=batch", "mover=null class=batch", "class=idle"].map(cell);
    let host = Host::default();
    let found = with_surveyor(|surveyor| isolation_survey::survey(surveyor, &host, &cells));
    let classes: Vec<Class> = found.iter().map(|f| f.class).collect();
    assert_eq!(classes, [cells[1].class, cells[3].class]);
    assert!(found.iter().all(|f| f.refused.is_none()), "{found:?}");
    let unknown = [cell("cgroup=cpuset=999")];
    let refused = with_surveyor(|surveyor| isolation_survey::survey(surveyor, &host, &unknown));
    assert!(refused[0].refused.is_some(), "{refused:?}");
}

fn stopped() {
    let (program, stop) = (Program::own().unwrap(), AtomicBool::new(false));
    let surveyor = Surveyor::new(&program, &stop);
    let began = Instant::now();
    stop.store(true, Ordering::Relaxed);
    let survey = survey(&surveyor, &Host::default(), &[Transport::Loopback]);
    let refused = survey.mover_refused("send", Transport::Loopback);
    assert_eq!(refused.as_deref(), Some("interrupted"));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

fn no_endpoint() {
    let program = Program::at("/bin/true".as_ref()).unwrap();
    let surveyor = Surveyor::new(&program, &STOP);
    let found = survey(&surveyor, &Host::default(), &[Transport::Loopback]);
    let why = found.mover_refused("send", Transport::Loopback).unwrap();
    assert!(
        why.contains("ended with status 0 and said nothing"),
        "{why}"
    );
    let servers = server_survey::survey(&surveyor).servers;
    assert!(servers.iter().all(|s| s.refused.is_some()), "{servers:?}");
}
