//! Reads of all meters at the edges of the timed window do not allocate.

use std::hint::black_box;
use std::path::Path;

use bytecost_meter::{
    Extras, HelpedMeter, LEFT_OUT, MachineMeter, Meter, NetworkMeter, ThreadMeter,
};

fn allocations<M: Meter>(mut meter: M) -> u64 {
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            black_box(meter.read_start());
            black_box(meter.read_end());
        }
    });
    counted.count_total
}

// Invariant 4.
#[test]
fn reading_does_not_allocate() {
    assert_eq!(allocations(ThreadMeter::open()), 0);
    assert_eq!(allocations(ThreadMeter::open_without_perf()), 0);
    let interrupts = Extras {
        hardware: Err(LEFT_OUT.to_owned()),
        task_clock: false,
        interrupts: true,
    };
    assert_eq!(allocations(ThreadMeter::with(&interrupts)), 0);
    let helped = HelpedMeter::new(ThreadMeter::open_without_perf(), std::process::id());
    assert_eq!(allocations(helped), 0);
    assert_eq!(allocations(MachineMeter::open(Path::new("/"))), 0);
    let own = bytecost_sys::proc_view::directory(std::process::id());
    let network = NetworkMeter::open(&[own]);
    let counted = allocation_counter::measure(|| {
        black_box(network.read());
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn the_count_of_allocations_sees_one() {
    let counted = allocation_counter::measure(|| drop(black_box(vec![1_u8])));
    assert_eq!(counted.count_total, 1);
}
