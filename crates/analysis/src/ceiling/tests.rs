use super::*;
use bytecost_spec::Axis;
use bytecost_spec::host::Cpu;

fn estimate(value: f64, by: f64) -> Estimate {
    Estimate {
        value,
        low: Some(value / by),
        high: Some(value * by),
        trials: 10,
    }
}

fn rate(kind: CeilingKind, working_set_bytes: u64, depth: u32, gbit_per_s: f64) -> CeilingRate {
    CeilingRate {
        kind,
        mover: "pread".into(),
        size_bytes: 65_536,
        working_set_bytes,
        depth,
        gbit_per_s: estimate(gbit_per_s, 1.1),
    }
}

fn measured() -> Ceiling {
    Ceiling {
        run: "quiet-otter".into(),
        started: "2026-11-21T03:00:00Z".into(),
        dir: Some("/there".into()),
        device: Some(7),
        disturbed: None,
        rates: vec![
            rate(CeilingKind::UserCopy, 1 << 20, 1, 300.0),
            rate(CeilingKind::KernelRead, 64 << 10, 1, 200.0),
            rate(CeilingKind::KernelRead, 4 << 20, 1, 160.0),
            rate(CeilingKind::KernelRead, 256 << 20, 1, 80.0),
            rate(CeilingKind::KernelWrite, 4 << 20, 1, 140.0),
            rate(CeilingKind::DiskSequential, 256 << 20, 1, 10.0),
            rate(CeilingKind::DiskSequential, 256 << 20, 16, 16.0),
            rate(CeilingKind::DiskRandom, 256 << 20, 32, 4.0),
        ],
    }
}

/// The rate that a cell is compared with.
fn of(route: Route, changes: &[(Axis, &str)]) -> Option<f64> {
    on(route, changes, Some(7))
}

fn on(route: Route, changes: &[(Axis, &str)], device: Option<u64>) -> Option<f64> {
    let mut cell = Cell::default();
    cell.set(Axis::Size, "64KiB").unwrap();
    for (axis, value) in changes {
        cell.set(*axis, value).unwrap();
    }
    let ceiling = measured();
    let found = ceiling.of(&cell, route, device);
    found.map(|r| r.gbit_per_s.value)
}

#[test]
fn a_cell_is_compared_with_the_copy_at_the_working_set_that_is_nearest() {
    let ring = |ring| of(Route::FileToMemory, &[(Axis::Ring, ring)]);
    assert_eq!(ring("64KiB"), Some(200.0));
    assert_eq!(ring("512KiB"), Some(200.0));
    assert_eq!(ring("1MiB"), Some(160.0));
    assert_eq!(ring("16MiB"), Some(160.0));
    assert_eq!(ring("2GiB"), Some(80.0));
    let file = (Axis::Ring, "4MiB");
    assert_eq!(of(Route::MemoryToFile, &[file]), Some(140.0));
    assert_eq!(of(Route::FileToFile, &[file]), Some(160.0));
    assert_eq!(of(Route::MemoryToSocket, &[file]), Some(160.0));
    assert_eq!(of(Route::FileToSocket, &[file]), Some(160.0));
}

#[test]
fn what_the_ceiling_says_nothing_of_is_compared_with_nothing() {
    let ring = (Axis::Ring, "4MiB");
    for (route, change) in [
        (Route::Nowhere, ring),
        (Route::MemoryToMemory, ring),
        (Route::FileToMemory, (Axis::Threads, "2")),
        (Route::MemoryToSocket, (Axis::Pattern, "ask")),
        (Route::MemoryToSocket, (Axis::Transport, "wire")),
        (Route::FileToSocket, (Axis::Transport, "wire")),
        (Route::MemoryToFile, (Axis::Cache, "direct")),
        (Route::MemoryToFile, (Axis::Cache, "cold")),
        (Route::FileToFile, (Axis::Cache, "direct")),
        (Route::FileToNull, (Axis::Mover, "sendfile-null")),
    ] {
        assert_eq!(of(route, &[ring, change]), None, "{route:?} {change:?}");
    }
    let random = [(Axis::Cache, "direct"), (Axis::Access, "random")];
    assert_eq!(of(Route::FileToMemory, &random), None);
}

#[test]
fn a_disk_is_compared_with_its_own_most_and_another_disk_with_nothing() {
    for cache in ["cold", "direct"] {
        let at = [(Axis::Cache, cache), (Axis::Ring, "1MiB")];
        assert_eq!(of(Route::FileToMemory, &at), Some(16.0), "{cache}");
        for device in [Some(8), None] {
            assert_eq!(on(Route::FileToMemory, &at, device), None, "{cache}");
        }
        let mut small = at.to_vec();
        small.extend([(Axis::Access, "random"), (Axis::Size, "4KiB")]);
        assert_eq!(of(Route::FileToMemory, &small), Some(4.0), "{cache}");
    }
    let warm = [(Axis::Cache, "warm"), (Axis::Ring, "4MiB")];
    assert_eq!(on(Route::FileToMemory, &warm, None), Some(160.0));
}

#[test]
fn a_share_has_an_interval_from_those_of_both() {
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    let ceiling = rate(CeilingKind::KernelRead, 1, 1, 160.0);
    let found = share(&estimate(80.0, 1.1), &ceiling).unwrap();
    let wide = (1.1_f64.ln() * 2.0_f64.sqrt()).exp();
    assert!(near(found.share.unwrap(), 0.5), "{found:?}");
    assert!(near(found.low.unwrap(), 0.5 / wide), "{found:?}");
    assert!(near(found.high.unwrap(), 0.5 * wide), "{found:?}");
    // One that is known for sure adds nothing.
    let sure = CeilingRate {
        gbit_per_s: estimate(160.0, 1.0),
        ..ceiling.clone()
    };
    let found = share(&estimate(120.0, 1.1), &sure).unwrap();
    assert!(near(found.share.unwrap(), 0.75) && near(found.high.unwrap(), 0.825));
    let alone = Estimate {
        low: None,
        high: None,
        ..estimate(80.0, 1.0)
    };
    let found = share(&alone, &ceiling).unwrap();
    assert_eq!((found.low, found.high), (None, None));
    assert_eq!(share(&estimate(0.0, 1.0), &ceiling), None);
}

#[test]
fn a_share_above_the_whole_is_withheld_with_its_reason() {
    let ceiling = rate(CeilingKind::KernelRead, 1, 1, 160.0);
    let found = share(&estimate(170.0, 1.1), &ceiling).unwrap();
    assert_eq!((found.share, found.low, found.high), (None, None, None));
    assert!(found.withheld.unwrap().contains("above 100 %"));
    let found = share(&estimate(160.0, 1.1), &ceiling).unwrap();
    assert_eq!((found.share, found.withheld), (Some(1.0), None));
}

fn host() -> Host {
    Host {
        kernel: "6.18.44".into(),
        architecture: "x86_64".into(),
        cpu_model: "AMD EPYC".into(),
        memory_bytes: 48 << 30,
        cpus: vec![Cpu {
            cpu: 0,
            core: Some(0),
            siblings: vec![0],
            ..Cpu::default()
        }],
        ..Host::default()
    }
}

#[test]
fn another_machine_or_kernel_is_another() {
    let same = |change: fn(&mut Host)| {
        let mut other = host();
        change(&mut other);
        is_same_machine(&host(), &other)
    };
    assert!(same(|_| ()));
    assert!(same(|h| h.memory_bytes -= 100 << 20));
    assert!(same(|h| h.cpus[0].governor = Some("powersave".into())));
    assert!(same(|h| h.congestion_default = Some("bbr".into())));
    assert!(!same(|h| h.memory_bytes /= 2));
    assert!(!same(|h| h.kernel = "6.19.0".into()));
    assert!(!same(|h| h.cpu_model = "Xeon".into()));
    assert!(!same(|h| h.cpus.clear()));
    assert!(!same(|h| h.virtualization = Some("KVM".into())));
}
