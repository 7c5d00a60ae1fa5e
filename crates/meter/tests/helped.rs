//! The counters of all threads of a helper process. The test has a program of its own, since threads that
//! end, as those of other tests do, take their counts with them.

use bytecost_meter::{HelpedMeter, Meter, ThreadMeter};
use bytecost_spec::Counter;
use bytecost_sys::clock;

#[test]
fn the_switches_of_all_threads_are_added_up() {
    let own = ThreadMeter::open_without_perf();
    let mut meter = HelpedMeter::new(own, std::process::id());
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (sender, started) = std::sync::mpsc::channel();
    let start = meter.read_start();
    let thread = std::thread::spawn(move || {
        for _ in 0..5 {
            clock::sleep_until_ns(clock::monotonic_ns() + 100_000);
        }
        sender.send(()).unwrap();
        let _ = wait.recv();
    });
    started.recv().unwrap();
    let end = meter.read_end();
    let readings = meter.difference(&start, &end);
    let switches = readings[&Counter::ContextSwitchesVoluntary].measured();
    assert!(switches.is_some_and(|n| n >= 5), "{switches:?}");
    drop(go);
    thread.join().unwrap();
}
