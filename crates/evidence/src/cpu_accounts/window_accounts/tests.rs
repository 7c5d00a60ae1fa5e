use super::*;

const FROM_NS: u64 = 1_000;
const TO_NS: u64 = 2_000;
const COORDINATOR: u64 = 100;
const SENDER: u64 = 200;
const RECEIVER: u64 = 300;
const SHELL: u64 = 50;

fn words(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    [word(0), word(8)]
}

fn who([tid, tgid, parent, flags]: [u64; 4], name: &str) -> [u64; WHO_WORDS] {
    let own = format!("{}-own", &name[..name.len().min(8)]);
    let ([a, b], [c, d]) = (words(name), words(&own));
    [tid, tgid, parent, flags, a, b, c, d]
}

/// A CPU that has run `running` since a time.
fn cpu(since_ns: u64, running: [u64; WHO_WORDS], idle: [u64; 2], now: u64) -> [u64; CPU_WORDS] {
    let mut all = [0; CPU_WORDS];
    all[..8].copy_from_slice(&[FROM_NS, since_ns, 0, 0, now, idle[0], idle[1], 0]);
    all[8..].copy_from_slice(&running);
    all
}

#[derive(Default)]
struct World {
    tasks: BTreeMap<u32, [u64; TASK_WORDS]>,
    creators: BTreeMap<u32, Creator>,
}

impl World {
    /// A world with 10 ns of the coordinator.
    fn new() -> World {
        World::default().with(10, [COORDINATOR, COORDINATOR, SHELL, 0], "bytecost")
    }

    fn with(mut self, ns: u64, numbers: [u64; 4], name: &str) -> World {
        let mut all = [0; TASK_WORDS];
        all[..3].copy_from_slice(&[FROM_NS, ns, 1]);
        all[3..].copy_from_slice(&who(numbers, name));
        self.tasks.insert(numbers[0] as u32, all);
        self
    }

    fn created(mut self, task: u64, thread: u64, process: u64) -> World {
        let (thread, process) = (thread as u32, process as u32);
        let creator = Creator { thread, process };
        self.creators.insert(task as u32, creator);
        self
    }

    fn accounts(self, cpus: &[[u64; CPU_WORDS]]) -> WindowAccounts {
        let window = WindowRange {
            from_ns: FROM_NS,
            to_ns: TO_NS,
        };
        WindowAccounts::new(window, cpus, self.tasks, self.creators)
    }

    fn lines(self, processes: &AccountedProcesses) -> Vec<(CpuUser, String, u64)> {
        let accounts = self.accounts(&[]).by_user(processes);
        let of_tasks = accounts.lines.into_iter().filter(|l| l.ns > 0);
        of_tasks.map(|l| (l.user, l.name, l.ns)).collect()
    }
}

fn processes() -> AccountedProcesses {
    AccountedProcesses {
        coordinator: COORDINATOR as u32,
        sender: SENDER as u32,
        receiver: Some(RECEIVER as u32),
        background: Some(400),
        controlled: true,
    }
}

#[test]
fn each_task_has_a_user() {
    let world = World::new()
        .with(1, [SENDER, SENDER, COORDINATOR, 0], "bytecost")
        .with(2, [201, SENDER, COORDINATOR, 0], "bytecost")
        .with(3, [202, SENDER, COORDINATOR, PF_IO_WORKER], "iou-wrk-201")
        .with(4, [203, SENDER, COORDINATOR, 0], "helper")
        .with(5, [500, 500, SENDER, 0], "java")
        .with(6, [301, RECEIVER, COORDINATOR, 0], "bytecost")
        .with(7, [600, 600, RECEIVER, 0], "child")
        .with(8, [401, 400, COORDINATOR, 0], "bytecost")
        .with(9, [700, 700, COORDINATOR, 0], "bytecost")
        .with(11, [20, 20, 2, PF_KTHREAD], "ksoftirqd/1")
        .with(12, [21, 21, 2, PF_KTHREAD], "kworker/u8:2")
        .with(13, [22, 22, 2, PF_KTHREAD], "rcu_preempt")
        .with(14, [23, 23, 2, PF_KTHREAD], "migration/0")
        .with(15, [800, 800, SHELL, 0], "cc1")
        .created(201, SENDER, SENDER)
        .created(203, 201, SENDER)
        .created(301, RECEIVER, RECEIVER);
    let expected = [
        (CpuUser::SenderThreads, "", 2),
        (CpuUser::SenderWorkers, "helper", 4),
        (CpuUser::SenderWorkers, "iou-wrk", 3),
        (CpuUser::SenderChildren, "java-own", 5),
        (CpuUser::ReceiverThreads, "", 6),
        (CpuUser::ReceiverChildren, "child-own", 7),
        (CpuUser::KernelThreads, "migration", 14),
        (CpuUser::KernelThreads, "rcu", 13),
        (CpuUser::KernelThreads, "kworker", 12),
        (CpuUser::KernelThreads, "ksoftirqd", 11),
        (CpuUser::Background, "", 8),
        // The coordinator, a child of it that is no side, and the thread that controls a side.
        (CpuUser::Instrument, "", 10 + 9 + 1),
        (CpuUser::OtherProcesses, "cc1-own", 15),
    ]
    .map(|(user, name, ns)| (user, name.to_owned(), ns));
    assert_eq!(world.lines(&processes()), expected);
}

#[test]
fn the_first_thread_of_a_server_serves() {
    let world = World::new().with(5, [RECEIVER, RECEIVER, 250, 0], "bytecost");
    let served = AccountedProcesses {
        controlled: false,
        ..processes()
    };
    let expected = (CpuUser::ReceiverThreads, String::new(), 5);
    assert_eq!(world.lines(&served)[0], expected);
}

#[test]
fn a_descendant_whose_parent_has_ended_is_known_by_who_started_it() {
    // Its parent, 501, never ran within the window, and it is now a child of process 1.
    let orphan = || World::new().with(5, [502, 502, 1, 0], "worker");
    let world = orphan().created(502, 501, 501).created(501, 201, SENDER);
    let expected = (CpuUser::SenderChildren, "worker-own".to_owned(), 5);
    assert_eq!(world.lines(&processes())[0], expected);
    let stranger = orphan().lines(&processes());
    assert_eq!(stranger[1].0, CpuUser::OtherProcesses);
    // Numbers that are used again may make a circle.
    let circle = orphan().created(502, 501, 501).created(501, 502, 502);
    assert_eq!(circle.lines(&processes())[1].0, CpuUser::OtherProcesses);
}

#[test]
fn the_largest_are_named_and_the_rest_are_one_line() {
    let mut world = World::new();
    for i in 0..12_u64 {
        world = world.with(100 + i, [900 + i, 900 + i, SHELL, 0], &format!("p{i}"));
    }
    let lines = world.lines(&processes());
    let others: Vec<_> = lines
        .iter()
        .filter(|l| l.0 == CpuUser::OtherProcesses)
        .map(|l| (l.1.as_str(), l.2))
        .collect();
    assert_eq!(others.len(), MOST_NAMED + 1);
    assert_eq!(others[0], ("p11-own", 111));
    assert_eq!(others[MOST_NAMED], ("", 100 + 101 + 102 + 103));
}

#[test]
fn what_runs_at_the_edge_counts_up_to_it_and_all_adds_up() {
    // One spun without a switch, one was idle since 1,600, one was switched after the window.
    let spins = who([201, SENDER, COORDINATOR, 0], "bytecost");
    let idle = who([0, 0, 0, 0], "swapper/1");
    let cpus = [
        cpu(400, spins, [0, 0], 30),
        cpu(1_600, idle, [500, 20], 5),
        cpu(2_100, spins, [900, 0], 0),
    ];
    let mut world = World::new().with(90, [301, RECEIVER, COORDINATOR, 0], "bytecost");
    // The sum of another window does not count.
    let mut stale = world.tasks[&301];
    (stale[0], stale[3]) = (FROM_NS - 1, 302);
    world.tasks.insert(302, stale);
    let accounts = world.accounts(&cpus).by_user(&processes());
    let sum_of = |user| {
        let line = accounts.lines.iter().find(|l| l.user == user).unwrap();
        (line.ns, line.interrupts_ns)
    };
    assert_eq!((accounts.cpus, accounts.elapsed_ns), (3, 1_000));
    assert_eq!(sum_of(CpuUser::SenderThreads), (1_000, 30));
    assert_eq!(sum_of(CpuUser::ReceiverThreads), (90, 1));
    assert_eq!(sum_of(CpuUser::Interrupts), (25, 25));
    assert_eq!(sum_of(CpuUser::Idle), (500 + 400 + 900 - 25, 0));
    let used: u64 = accounts.lines.iter().map(|l| l.ns).sum();
    assert_eq!(used as i64 + accounts.left_over_ns, 3_000);
    assert_eq!(accounts.left_over_ns, 3_000 - (1_000 + 90 + 10 + 1_800));
}

#[test]
fn a_cpu_that_is_not_known_is_left_over_and_one_of_another_window_has_its_task_alone() {
    let swapper = who([0, 0, 0, 0], "swapper/1");
    let mut other = cpu(300, swapper, [700, 50], 40);
    other[0] = FROM_NS - 500;
    let accounts = World::new()
        .accounts(&[[0; CPU_WORDS], other])
        .by_user(&processes());
    assert_eq!(accounts.left_over_ns, 1_000 - 10);
    let idle = accounts.ns_of(|l| l.user == CpuUser::Idle);
    assert_eq!(idle, Some(1_000));
}

#[test]
fn there_are_no_accounts_without_room_for_all_tasks() {
    let mut full = cpu(2_100, who([0; 4], "swapper/0"), [0, 0], 0);
    full[LOST] = 3_000_000;
    let accounts = World::new().accounts(&[full]).by_user(&processes());
    let why = accounts.refused.unwrap();
    assert!(why.contains("3.000 ms"), "{why}");
    assert!(accounts.lines.is_empty());
}
