//! The load generator against servers that misbehave in known ways: what it says is true.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytecost_engine::services::{self, TOO_LONG};
use bytecost_engine::{Server, Service, servers};
use bytecost_lab::load::{Load, LoadError, LoadInterface, LoadOutcome, LoadSpan, Pace, Stage, ask};
use bytecost_spec::Arrivals;
use bytecost_spec::service::Fairness;

const SIZE: usize = 64;
/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Each asks again as soon as it has its answer.
const CLOSED: Pace = Pace::Closed {
    think: Duration::ZERO,
};

fn setup() -> services::ServiceSetup {
    services::ServiceSetup::new(SIZE)
}

/// A server of echoes, each connection with a thread, which treats each message by a function.
fn server(
    does: impl Fn(u64, &mut TcpStream, &mut [u8]) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    server_of(SIZE, does)
}

/// The same for messages of another size.
fn server_of(
    size: usize,
    does: impl Fn(u64, &mut TcpStream, &mut [u8]) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let count = AtomicU64::new(0);
    serving(usize::MAX, move |mut socket| {
        let mut message = vec![0; size];
        while socket.read_exact(&mut message).is_ok() {
            let nth = count.fetch_add(1, Ordering::Relaxed);
            if !does(nth, &mut socket, &mut message) {
                return;
            }
        }
    })
}

/// A server of so many connections, each with a thread; all others are refused.
fn serving(most: usize, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for socket in listener.incoming().take(most).map(Result::unwrap) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(socket));
        }
    });
    address
}

/// A port that is taken, and at which nobody listens.
fn nobody() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let held = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = getsockname(&held).unwrap().try_into().unwrap();
    (held, address)
}

fn honest() -> SocketAddr {
    server(|_, socket, message| socket.write_all(message).is_ok())
}

fn load(address: SocketAddr, way: LoadInterface, span: LoadSpan) -> Load {
    let mut load = Load::once(address, Service::named("echo").unwrap(), setup());
    (load.way, load.span, load.timeout) = (way, span, TIMEOUT);
    load
}

/// Every way that can be had here: io_uring may be forbidden.
fn ways() -> Vec<LoadInterface> {
    let best = load(honest(), LoadInterface::Best, LoadSpan::Requests(1));
    match run(&best).generator.way {
        LoadInterface::Uring => vec![LoadInterface::Epoll, LoadInterface::Uring],
        _ => vec![LoadInterface::Epoll],
    }
}

fn run(load: &Load) -> LoadOutcome {
    load.run(&AtomicBool::new(false), &|_| ()).unwrap()
}

fn all_due(outcome: &LoadOutcome) -> u64 {
    outcome.answers + outcome.unanswered + outcome.errors.number(LoadError::Timeout)
}

fn time(warmup_ms: u64, window_ms: u64) -> LoadSpan {
    LoadSpan::Time {
        warmup: Duration::from_millis(warmup_ms),
        window: Duration::from_millis(window_ms),
    }
}

/// A server that stalls once: a slow request of the closed loop, one for each due of the open loop.
#[test]
fn waiting_in_line_is_latency() {
    for way in ways() {
        const STALL_MS: u64 = 400;
        let stalling = || {
            server(|nth, socket, message| {
                if nth == 20 {
                    std::thread::sleep(Duration::from_millis(STALL_MS));
                }
                socket.write_all(message).is_ok()
            })
        };
        let slow = |outcome: &LoadOutcome| {
            let threshold = STALL_MS / 4 * 1_000_000;
            outcome.latency_ns.count_between(threshold, u64::MAX)
        };
        let span = LoadSpan::Requests(200);
        let closed = run(&load(stalling(), way, span));
        assert_eq!(closed.answers, 200);
        assert!(slow(&closed) >= 1);
        let mut open = load(stalling(), way, span);
        open.pace = Pace::Open { per_s: 200.0 };
        open.arrivals = Arrivals::Fixed;
        let outcome = run(&open);
        assert_eq!((outcome.answers, outcome.unanswered), (200, 0));
        // 80 requests fell due during the stall; three quarters of them waited for more than a
        // quarter of it, whatever else the machine does.
        assert!(slow(&outcome) >= 55, "{} were slow", slow(&outcome));
        assert!(outcome.latency_ns.max() >= STALL_MS * 1_000_000);
    }
}

/// A server that answers nothing after a while: what was due counts, also what was never sent.
#[test]
fn what_is_never_answered_is_not_left_out() {
    for way in ways() {
        let found = |patience_s| {
            let silent =
                server(|nth, socket, message| nth >= 10 || socket.write_all(message).is_ok());
            let mut load = load(silent, way, time(0, 300));
            load.pace = Pace::Open { per_s: 500.0 };
            load.arrivals = Arrivals::Fixed;
            load.timeout = Duration::from_secs(patience_s);
            run(&load)
        };
        let mut outcome = found(1);
        if outcome.answers < 10 {
            outcome = found(20); // the machine stood still meanwhile
        }
        assert_eq!(outcome.answers, 10);
        assert_eq!(all_due(&outcome), 150);
        assert!(outcome.latency_ns.value_at_quantile(0.5) > 100_000_000);
    }
}

/// As many requests fall due beside a silent server as beside another, for the same seed alone.
#[test]
fn no_server_changes_when_it_is_asked() {
    for way in ways() {
        let due = |silent: bool, seed, threads| {
            let does = move |_: u64, socket: &mut TcpStream, message: &mut [u8]| {
                silent || socket.write_all(message).is_ok()
            };
            let mut load = load(server(does), way, time(0, 300));
            load.pace = Pace::Open { per_s: 500.0 };
            (load.seed, load.connections, load.threads) = (seed, 4, threads);
            load.timeout = Duration::from_millis(if silent { 1_000 } else { 60_000 });
            all_due(&run(&load))
        };
        for threads in [1, 2] {
            assert_eq!(due(true, 1, threads), due(false, 1, threads));
            assert_ne!(due(false, 1, threads), due(false, 2, threads));
        }
    }
}

#[test]
fn every_kind_of_error_has_its_name() {
    for way in ways() {
        let (_held, nobody) = nobody();
        let silent = server(|_, _, _| true);
        let closing = server(|_, _, _| false);
        let lying = server(|nth, socket, message| {
            message[SIZE - 1] ^= u8::from(nth == 1);
            socket.write_all(message).is_ok()
        });
        let refusing = server(|_, socket, _| socket.write_all(TOO_LONG).is_ok());
        let chatty = server(|_, socket, message| {
            socket.write_all(message).is_ok() && socket.write_all(b"and more").is_ok()
        });
        let check = |address, kind: &str, expected: std::ops::RangeInclusive<u64>| {
            let mut load = load(address, way, LoadSpan::Requests(3));
            if kind == "timeout" {
                load.timeout = Duration::from_millis(100);
            }
            let outcome = run(&load);
            let mut counts = outcome.errors.by_kind().to_vec();
            counts.retain(|(_, n)| *n > 0);
            let kinds: Vec<&str> = counts.into_iter().map(|(name, _)| name).collect();
            assert_eq!(kinds, [kind]);
            let answers = outcome.answers;
            assert!(expected.contains(&answers), "{kind}: {answers}");
        };
        check(nobody, "refused", 0..=0);
        check(silent, "timeout", 0..=0);
        check(closing, "closed", 0..=0);
        check(lying, "wrong", 2..=2);
        check(refusing, "wrong", 0..=0);
        check(chatty, "wrong", 0..=3);
    }
}

#[test]
fn a_window_begins_and_ends_once() {
    for way in ways() {
        let seen = std::sync::Mutex::new(Vec::new());
        let mut load = load(honest(), way, time(30, 60));
        (load.connections, load.threads, load.idle) = (6, 2, 3);
        load.ramp = Duration::from_millis(20);
        let on_stage = |stage| seen.lock().unwrap().push(stage);
        let outcome = load.run(&AtomicBool::new(false), &on_stage).unwrap();
        let stages = seen.into_inner().unwrap();
        let [
            Stage::Connected(window_ns),
            Stage::WindowOpens,
            Stage::WindowCloses,
        ] = &stages[..]
        else {
            panic!("{stages:?}");
        };
        assert_eq!(window_ns.end - window_ns.start, 60_000_000);
        assert_eq!(outcome.window_ns, 60_000_000);
        assert_eq!(outcome.answers, outcome.answers_in_window);
        // An unanswered request counts with the time for which it has waited.
        let all = outcome.answers + outcome.unanswered;
        assert_eq!(all, outcome.latency_ns.len());
        assert_eq!((outcome.opened, outcome.errors.all()), (9, 0));
        assert_eq!(outcome.answers_by_connection.len(), 6);
        assert!((0.0..=1.0).contains(&outcome.generator.busy_share));
    }
}

#[test]
fn a_stop_ends_it_early() {
    for way in ways() {
        let stop = AtomicBool::new(false);
        let mut load = load(honest(), way, time(0, 3_600_000));
        load.connections = 4;
        let on_stage = |stage| {
            if stage == Stage::WindowOpens {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let outcome = load.run(&stop, &on_stage).unwrap();
        assert!(outcome.window_ns < 3_000_000_000_000);
        assert_eq!(outcome.errors.all(), 0);
        // An open loop with requests for a thousand years.
        stop.store(false, Ordering::Relaxed);
        (load.pace, load.span) = (Pace::Open { per_s: 100.0 }, LoadSpan::Requests(1 << 42));
        let open_loop = load.run(&stop, &on_stage).unwrap();
        assert!(open_loop.window_ns < 3_000_000_000_000);
        assert!(all_due(&open_loop) < 1 << 20);
    }
}

/// More requests than can be counted one by one fall due beside a server that is silent.
#[test]
fn any_number_of_unanswered_requests_is_counted_soon() {
    let mut load = load(server(|_, _, _| true), LoadInterface::Epoll, time(0, 300));
    load.timeout = Duration::from_millis(500);
    for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
        (load.pace, load.arrivals) = (Pace::Open { per_s: 1e8 }, arrivals);
        let outcome = run(&load);
        let due = all_due(&outcome) as f64 / 3e7;
        assert!((due - 1.0).abs() < 0.01, "{due}");
        assert!(outcome.latency_ns.len() >= outcome.unanswered);
        // They were due evenly in the window, and all have waited until after it.
        let at = |quantile| outcome.latency_ns.value_at_quantile(quantile);
        let half = at(0.75) - at(0.25);
        assert!((140_000_000..160_000_000).contains(&half), "{half}");
    }
}

/// A server whose bytes come one by one holds up nobody for longer than the timeout.
#[test]
fn a_response_that_drips_is_late() {
    let drips = server_of(4096, |_, socket, message| {
        message.iter().all(|byte| {
            std::thread::sleep(Duration::from_millis(20));
            socket.write_all(&[*byte]).is_ok()
        })
    });
    let (echo, setup) = (
        Service::named("echo").unwrap(),
        services::ServiceSetup::new(4096),
    );
    let timeout = Duration::from_millis(400);
    let error = ask(drips, echo, &setup, timeout).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(
        error.to_string().contains("no whole response from"),
        "{error}"
    );
}

/// A client that thinks sends fewer requests: at most one a thought.
#[test]
fn thinking_keeps_the_rate_down() {
    for way in ways() {
        let think = Duration::from_millis(50);
        let mut load = load(honest(), way, LoadSpan::Requests(5));
        (load.connections, load.pace) = (3, Pace::Closed { think });
        let outcome = run(&load);
        let Fairness {
            least,
            median,
            most,
        } = outcome.fairness();
        assert_eq!([least, median, most], [5; 3]);
        assert!(Duration::from_nanos(outcome.window_ns) >= 4 * think);
    }
}

/// Ten times as many requests allocate no more than a few.
// Invariant 4.
#[test]
fn asking_does_not_allocate() {
    for way in ways() {
        for kept in [true, false] {
            for pace in [CLOSED, Pace::Open { per_s: 20_000.0 }] {
                let address = honest();
                let allocations = |each| {
                    let mut load = load(address, way, LoadSpan::Requests(each));
                    (load.connections, load.kept, load.pace) = (4, kept, pace);
                    allocation_counter::measure(|| assert_eq!(run(&load).answers, 4 * each))
                        .count_total
                };
                allocations(2);
                assert_eq!(allocations(200), allocations(20), "kept {kept}, {pace:?}");
            }
        }
    }
}

#[test]
fn answers_may_come_in_pieces_and_be_larger_than_a_buffer() {
    for way in ways() {
        for size in [1, 64, 5000, 65_536] {
            let address = server_of(size, |_, socket, message| {
                let (head, tail) = message.split_at(message.len() / 3);
                socket.set_nodelay(true).is_ok()
                    && socket.write_all(head).is_ok()
                    && socket.write_all(tail).is_ok()
            });
            for (kept, depth) in [(true, 1), (true, 5), (false, 1)] {
                let mut load = load(address, way, LoadSpan::Requests(12));
                load.asking.size = size;
                (load.connections, load.kept, load.depth) = (3, kept, depth);
                let outcome = run(&load);
                assert_eq!((outcome.answers, outcome.errors.all()), (36, 0));
                assert_eq!(outcome.generator.way, way);
                assert_eq!(outcome.opened, if kept { 3 } else { 36 });
            }
        }
    }
}

/// A server that goes away now and then: what was lost is counted, and it is asked again.
#[test]
fn who_closes_is_asked_again() {
    for way in ways() {
        for pace in [CLOSED, Pace::Open { per_s: 2000.0 }] {
            let address =
                server(|nth, socket, message| socket.write_all(message).is_ok() && nth % 4 != 3);
            let mut load = load(address, way, LoadSpan::Requests(12));
            (load.connections, load.pace) = (2, pace);
            let outcome = run(&load);
            let errors = outcome.errors;
            assert!(outcome.answers >= 12 && outcome.opened > 2, "{outcome:?}");
            let closed = errors.number(LoadError::Closed) + errors.number(LoadError::Reset);
            assert_eq!(errors.all(), closed, "{errors:?}");
            if matches!(pace, Pace::Closed { .. }) {
                assert_eq!(outcome.answers + errors.all(), 24);
            }
        }
    }
}

#[test]
fn a_load_ends_with_its_server_and_not_while_it_serves_anyone() {
    for way in ways() {
        let of_two = serving(2, |s| drop(std::io::copy(&mut &s, &mut &s)));
        let mut load = load(of_two, way, time(0, 300));
        (load.connections, load.ends_with_server) = (4, true);
        let outcome = run(&load);
        assert_eq!(outcome.window_ns, 300_000_000, "{:?}", outcome.errors);
        assert_eq!(outcome.server_gone_ns, None);
        // Refused from the warm-up on, and all of them within the window.
        let (_held, nobody) = nobody();
        (load.address, load.span) = (nobody, time(50, 60_000));
        (load.connections, load.kept) = (10, false);
        load.pace = Pace::Open { per_s: 100.0 };
        load.arrivals = Arrivals::Fixed;
        let refused = run(&load);
        assert!(refused.server_gone_ns.is_some(), "{:?}", refused.errors);
        assert!(refused.window_ns < 60_000_000_000, "{}", refused.window_ns);
        assert!(refused.generator.busy_share <= 1.0);
    }
}

/// The service with a client that takes `MS` ms to compose each request.
fn slow<const MS: u64>() -> &'static Service {
    struct Slow(Duration);
    impl services::Requester for Slow {
        fn append_request(&self, _: u32, _: u64, out: &mut Vec<u8>) {
            let begun = std::time::Instant::now();
            while begun.elapsed() < self.0 {}
            out.extend_from_slice(&[0; SIZE]);
        }
        fn is_right(&self, _: u32, _: u64, _: usize, _: &[u8]) -> bool {
            true
        }
    }
    Box::leak(Box::new(Service {
        requester: |_| Box::new(Slow(Duration::from_millis(MS))),
        ..*Service::named("echo").unwrap()
    }))
}

/// A generator whose requests take long to make is what limits the rate, and says so.
#[test]
fn a_generator_that_was_the_bottleneck_says_so() {
    for way in ways() {
        let mut load = load(honest(), way, time(0, 800));
        load.service = slow::<10>();
        // While it makes the requests of all, the server has time for each, however slow it is.
        load.connections = 100;
        let said = run(&load).generator_limit().unwrap().to_string();
        assert!(said.contains("busy "), "{said}");
    }
}

/// A server of a crowd, which ends with the test.
fn crowded() -> SocketAddr {
    let limits = servers::Limits::default();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (listener, address) = servers::listen(address, limits.patience).unwrap();
    let (stop, held) = rustix::pipe::pipe().unwrap();
    let setup = servers::ServerSetup {
        listener,
        stop,
        service: Service::named("echo").unwrap(),
        serving: setup(),
        workers: 1,
        limits,
    };
    std::thread::spawn(move || {
        let _held = held;
        (Server::named("epoll").unwrap().serve)(setup).unwrap()
    });
    address
}

/// However slow the machine: what is due in a window shorter than a crowd's rounds is chance.
#[test]
fn a_window_has_time_for_rounds_of_a_crowd() {
    const ASKING: u32 = 20;
    const ROUND_MS: u64 = 2 * ASKING as u64;
    bytecost_lab::descriptors::make_room(5000).unwrap();
    for way in ways() {
        let window_ns = |threads, rounds_least| {
            let mut load = load(crowded(), way, time(0, 1));
            load.service = slow::<2>();
            // Each thread has a crowd of its own.
            let idle = 1000 * threads;
            (load.connections, load.idle) = (ASKING, idle);
            (load.threads, load.rounds_least) = (threads, rounds_least);
            let outcome = run(&load);
            assert_eq!(outcome.errors.all(), 0, "{:?}", outcome.errors);
            assert_eq!(outcome.opened, u64::from(ASKING + idle));
            outcome.window_ns
        };
        assert_eq!(window_ns(1, 0), 1_000_000);
        assert!(window_ns(1, 3) >= 3 * ROUND_MS * 1_000_000);
        // Each asks for half of them.
        assert!(window_ns(2, 3) >= 3 * ROUND_MS / 2 * 1_000_000);
    }
}

#[test]
fn a_person_gets_the_answer_or_the_reason() {
    let echo = Service::named("echo").unwrap();
    let asked = |address, timeout| ask(address, echo, &setup(), timeout);
    assert_eq!(asked(honest(), TIMEOUT).unwrap().len(), SIZE);
    let check = |address, timeout, words: &str| {
        let error = asked(address, timeout).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let refusing = server(|_, socket, _| {
        let _ = socket.write_all(TOO_LONG);
        false
    });
    let bound = "the server says: a request has at most";
    check(refusing, TIMEOUT, bound);
    let soon = Duration::from_millis(200);
    check(server(|_, _, _| true), soon, "within 200ms");
    let remedy = "the same service with the same --size";
    check(server(|_, _, _| false), TIMEOUT, remedy);
    let (_held, nobody) = nobody();
    check(nobody, TIMEOUT, "refused");
}
