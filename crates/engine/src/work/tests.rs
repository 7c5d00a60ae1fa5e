//! The promises of a unit of work: its result is correct, and a wrong one is detected.

use bytecost_spec::LoadKind;

use super::*;

fn units(work: &mut dyn Work, n: usize) {
    for _ in 0..n {
        work.unit().unwrap();
    }
    assert!(work.steps().0 > 0);
}

#[test]
fn every_work_comes_to_the_right_result() {
    units(&mut Integer::new(0), 5);
    units(&mut Integer::new(7), 5);
    units(&mut Float::new(0), 5);
    units(&mut Float::new(3), 5);
    for order in Order::ALL {
        for pages in [Pages::Any, Pages::Small] {
            units(&mut Reads::new(*order, 1 << 20, pages).unwrap(), 9);
        }
    }
    for bytes in [128, 4096, 5000, 1 << 20] {
        units(&mut Chase::new(bytes, 1, Pages::Small).unwrap(), 9);
        units(&mut Triad::new(bytes, Pages::Small).unwrap(), 1000);
    }
}

#[test]
fn so_little_memory_cannot_be_worked_on() {
    for bytes in [0, 64, 127] {
        assert!(Chase::new(bytes, 0, Pages::Any).is_err());
        assert!(Reads::new(Order::Random, bytes, Pages::Any).is_err());
        assert!(Triad::new(bytes, Pages::Any).is_err());
    }
}

#[test]
fn noises_are_work() {
    for noise in LoadKind::ALL {
        match of_noise(*noise, 1 << 16).unwrap() {
            Some(mut work) => units(&mut *work, 3),
            None => assert_eq!(*noise, LoadKind::Idle),
        }
    }
}
