//! Raw, uncorrected counters of a side or of the machine in one trial.
//!
//! A new counter is a row here and is read in `crates/meter`; where it cannot be read it is absent, with
//! the reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One raw reading, or the reason why there is none; never a zero in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Reading {
    /// The counter's increase over the window, or its value at the end where its row says so.
    Measured(u64),
    /// The counter was not available.
    Absent {
        /// The reason, in a sentence without a full stop.
        absent: String,
    },
}

impl Reading {
    /// A reading that was not available, with the reason.
    pub fn absent(why: impl Into<String>) -> Reading {
        Reading::Absent { absent: why.into() }
    }

    /// The number; none for an absent reading.
    pub fn measured(&self) -> Option<u64> {
        match self {
            Reading::Measured(n) => Some(*n),
            Reading::Absent { .. } => None,
        }
    }

    /// The sum of two readings; absent if one of them is.
    pub fn plus(&self, other: &Reading) -> Reading {
        match (self, other) {
            (Reading::Measured(a), Reading::Measured(b)) => Reading::Measured(a.saturating_add(*b)),
            (Reading::Absent { .. }, _) => self.clone(),
            (_, Reading::Absent { .. }) => other.clone(),
        }
    }
}

/// The readings of one side or of the machine, by counter.
pub type Readings = BTreeMap<Counter, Reading>;

/// The part of a trial whose activity a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each side, summed over its threads.
    Side,
    /// The whole machine, once.
    Machine,
}

rows! {
    /// A counter. Its row in [`COUNTERS`] defines it; its name ends in its unit.
    enum Counter;
    /// A row of the table of counters.
    struct CounterRow {
        counter,
        /// The part of a trial that it counts.
        scope: Scope,
        /// Its definition and its source.
        summary: &'static str,
    }
    /// All counters, in the order of tables and columns.
    const COUNTERS;
    Bytes "bytes" { scope: Scope::Side, summary: "payload bytes moved within the window" }
    Messages "messages" { scope: Scope::Side, summary: "whole messages within the window" }
    Calls "calls" { scope: Scope::Side, summary: "system calls that moved them, completions included" }
    ElapsedNs "elapsed_ns" { scope: Scope::Side, summary: "length of the window, CLOCK_MONOTONIC, mean over threads" }
    CpuNs "cpu_ns" { scope: Scope::Side, summary: "CPU time of the threads, CLOCK_THREAD_CPUTIME_ID (by other means where that leaves out interrupts, see thread_cpu_ns), and of all that works for them in their process or as its child (workers_ns)" }
    WorkersNs "workers_ns" { scope: Scope::Side, summary: "of cpu_ns, what worked for the threads: workers and pollers of io_uring, threads of POSIX aio, a Java process; by their own clocks, up to the moment of reading" }
    EdgesNs "edges_ns" { scope: Scope::Side, summary: "CPU time of the side's process at the edges of its window, in none of its other readings: its threads read their meters, and one watches the clock" }
    UserNs "user_ns" { scope: Scope::Side, summary: "user CPU time, getrusage" }
    SystemNs "system_ns" { scope: Scope::Side, summary: "system CPU time, getrusage" }
    TaskClockNs "task_clock_ns" { scope: Scope::Side, summary: "perf software event task-clock" }
    ContextSwitchesVoluntary "context_switches_voluntary" { scope: Scope::Side, summary: "getrusage ru_nvcsw: the thread waited" }
    ContextSwitchesInvoluntary "context_switches_involuntary" { scope: Scope::Side, summary: "getrusage ru_nivcsw: the thread was taken off its CPU" }
    Migrations "migrations" { scope: Scope::Side, summary: "moves to another CPU, perf software event or /proc/self/sched" }
    PageFaultsMinor "page_faults_minor" { scope: Scope::Side, summary: "getrusage ru_minflt" }
    PageFaultsMajor "page_faults_major" { scope: Scope::Side, summary: "getrusage ru_majflt" }
    RunQueueNs "run_queue_ns" { scope: Scope::Side, summary: "time for which the threads were ready and waited for a CPU, /proc/thread-self/schedstat" }
    Cycles "cycles" { scope: Scope::Side, summary: "hardware cycles, kernel included" }
    Instructions "instructions" { scope: Scope::Side, summary: "hardware instructions, kernel included" }
    L1dLoadMisses "l1d_load_misses" { scope: Scope::Side, summary: "L1 data cache load misses, kernel included" }
    LlcLoadMisses "llc_load_misses" { scope: Scope::Side, summary: "last level cache load misses, kernel included" }
    Branches "branches" { scope: Scope::Side, summary: "branch instructions, kernel included" }
    BranchMisses "branch_misses" { scope: Scope::Side, summary: "mispredicted branches, kernel included" }
    BusCycles "bus_cycles" { scope: Scope::Side, summary: "perf event bus-cycles; read of servers and their clients" }
    CacheMisses "cache_misses" { scope: Scope::Side, summary: "perf event cache-misses: the last level, kernel included; as bus_cycles" }
    PerfEnabledNs "perf_enabled_ns" { scope: Scope::Side, summary: "time for which the hardware group was enabled" }
    PerfRunningNs "perf_running_ns" { scope: Scope::Side, summary: "time for which it was on the CPU; less than enabled makes the group absent" }
    Completions "completions" { scope: Scope::Side, summary: "zero-copy buffers that came back; over the whole trial where the sender left them lying" }
    CompletionsCopied "completions_copied" { scope: Scope::Side, summary: "of these, buffers that the kernel says it copied after all" }
    Enobufs "enobufs" { scope: Scope::Side, summary: "times that the kernel had no room to note another zero-copy send (ENOBUFS)" }
    NowaitMisses "nowait_misses" { scope: Scope::Side, summary: "requests that RWF_NOWAIT could not serve from the page cache, made again without it" }
    BeatsMissed "beats_missed" { scope: Scope::Side, summary: "beats of the window that were over before the thread woke from an earlier one; each is in the latencies" }
    AsideNs "aside_ns" { scope: Scope::Side, summary: "CPU time within the window on what is not measured: dropping the page cache between two passes, and reading what a process did that works for the mover" }
    Tasks "tasks" { scope: Scope::Side, summary: "threads of a server's processes with everyone connected, before the window; each has a kernel stack" }
    HugeMemoryBytes "huge_memory_bytes" { scope: Scope::Side, summary: "memory of the sending process in huge pages before the window, where it registers its buffers (AnonHugePages and hugetlb of smaps_rollup)" }
    MemoryBytes "memory_bytes" { scope: Scope::Side, summary: "anonymous memory (Pss_Anon) and page tables of a server's processes with everyone connected, before the window" }
    ErrorsRefused "errors_refused" { scope: Scope::Side, summary: "connections that the server refused, warm-up included" }
    ErrorsReset "errors_reset" { scope: Scope::Side, summary: "connections that were reset, as errors_refused" }
    ErrorsClosed "errors_closed" { scope: Scope::Side, summary: "connections that the server closed, as errors_refused" }
    ErrorsTimeout "errors_timeout" { scope: Scope::Side, summary: "requests without a response within the patience, as errors_refused" }
    ErrorsWrong "errors_wrong" { scope: Scope::Side, summary: "wrong responses, as errors_refused" }
    ErrorsLocal "errors_local" { scope: Scope::Side, summary: "connections that this machine could not open, as errors_refused" }
    Unanswered "unanswered" { scope: Scope::Side, summary: "requests of the window that had no response at its end" }
    AnswersLeast "answers_least" { scope: Scope::Side, summary: "responses within the window to the connection that got fewest" }
    AnswersMedian "answers_median" { scope: Scope::Side, summary: "responses within the window to the median connection" }
    AnswersMost "answers_most" { scope: Scope::Side, summary: "responses within the window to the connection that got most" }
    GeneratorBusyNs "generator_busy_ns" { scope: Scope::Side, summary: "time within the window in which the busiest thread of the clients was busy" }
    GeneratorLateNsP99 "generator_late_ns_p99" { scope: Scope::Side, summary: "how much later than possible 1 of 100 requests was sent" }
    GeneratorLimited "generator_limited" { scope: Scope::Side, summary: "how the clients may have limited the rate themselves: 1 where they were always busy, which is no limit beside a server that was never idle; 2 where they sent late; else 0" }
    CpusAllowed "cpus_allowed" { scope: Scope::Side, summary: "CPUs that a server may run on (sched_getaffinity)" }
    ThreadCpuNs "thread_cpu_ns" { scope: Scope::Side, summary: "where cpu_ns is not it: CPU time by the threads' own clocks, which leave out interrupts" }
    InterruptNs "interrupt_ns" { scope: Scope::Side, summary: "where cpu_ns holds it: irq and softirq of the threads' CPUs, /proc/stat, 10 ms steps" }
    TcpRttUs "tcp_rtt_us" { scope: Scope::Side, summary: "TCP_INFO smoothed round-trip time at the end, largest flow" }
    TcpMinRttUs "tcp_min_rtt_us" { scope: Scope::Side, summary: "TCP_INFO least round-trip time at the end, largest flow" }
    TcpCwndSegments "tcp_cwnd_segments" { scope: Scope::Side, summary: "TCP_INFO congestion window at the end, smallest flow" }
    TcpPacingRateBytesPerS "tcp_pacing_rate_bytes_per_s" { scope: Scope::Side, summary: "TCP_INFO pacing rate at the end, smallest flow; absent where nothing paces" }
    TcpDeliveryRateBytesPerS "tcp_delivery_rate_bytes_per_s" { scope: Scope::Side, summary: "TCP_INFO delivery rate at the end, smallest flow" }
    TcpBusyUs "tcp_busy_us" { scope: Scope::Side, summary: "TCP_INFO time with data in flight within the window, sum of flows" }
    TcpRwndLimitedUs "tcp_rwnd_limited_us" { scope: Scope::Side, summary: "TCP_INFO time limited by the receive window, sum of flows" }
    TcpSndbufLimitedUs "tcp_sndbuf_limited_us" { scope: Scope::Side, summary: "TCP_INFO time limited by the send buffer, sum of flows" }
    TcpRetransmits "tcp_retransmits" { scope: Scope::Side, summary: "TCP_INFO retransmitted segments within the window, sum of flows" }
    TcpDataSegments "tcp_data_segments" { scope: Scope::Side, summary: "TCP_INFO segments with data sent within the window, sum of flows" }
    TcpMarkedSegments "tcp_marked_segments" { scope: Scope::Side, summary: "TCP_INFO delivered segments that the path marked for congestion (ECN) within the window, sum of flows" }
    TcpPathMtuBytes "tcp_path_mtu_bytes" { scope: Scope::Side, summary: "TCP_INFO largest packet of the path at the end, smallest flow" }
    SendBufferBytes "send_buffer_bytes" { scope: Scope::Side, summary: "SO_SNDBUF as the kernel has it at the end, first flow" }
    ReceiveBufferBytes "receive_buffer_bytes" { scope: Scope::Side, summary: "SO_RCVBUF as the kernel has it at the end, first flow" }
    ReceiveBufferStartBytes "receive_buffer_start_bytes" { scope: Scope::Side, summary: "SO_RCVBUF as the kernel had it when the window opened, first flow" }
    WarmupNs "warmup_ns" { scope: Scope::Machine, summary: "time for which bytes moved before the window opened" }
    WarmupBounded "warmup_bounded" { scope: Scope::Machine, summary: "1 where connections still grew when the warm-up had lasted as long as it may, 0 where they had stopped growing" }
    StrangersDropped "strangers_dropped" { scope: Scope::Machine, summary: "connections that were turned away since they were not the other side's, where there were any" }
    MachineElapsedNs "machine_elapsed_ns" { scope: Scope::Machine, summary: "time between the two machine readings" }
    MachineCpus "machine_cpus" { scope: Scope::Machine, summary: "CPUs online" }
    MachineBusyNs "machine_busy_ns" { scope: Scope::Machine, summary: "CPU time of everything on the machine, softirq included" }
    MachineBusyResolutionNs "machine_busy_resolution_ns" { scope: Scope::Machine, summary: "how finely machine_busy_ns can be read" }
    MachineIdleNs "machine_idle_ns" { scope: Scope::Machine, summary: "idle time of all CPUs, waiting for I/O included, /proc/stat, 10 ms steps" }
    MachineTasksNs "machine_tasks_ns" { scope: Scope::Machine, summary: "CPU time of all tasks, the scheduler's own account: cpuacct.usage of the root, cgroup version 1; no interrupts on idle CPUs" }
    SenderProcessesNs "sender_processes_ns" { scope: Scope::Machine, summary: "CPU time of the sender's process and its children between the two machine readings, by the processes' clocks (clients, where there is a server)" }
    ReceiverProcessesNs "receiver_processes_ns" { scope: Scope::Machine, summary: "as sender_processes_ns, of the receiver (the server, where there is one)" }
    KernelThreadsNs "kernel_threads_ns" { scope: Scope::Machine, summary: "as sender_processes_ns, of all kernel threads: ksoftirqd, kworker and others, which work on nobody's clock" }
    SoftirqThreadsNs "softirq_threads_ns" { scope: Scope::Machine, summary: "of kernel_threads_ns, that of threads which handle interrupts and packets: ksoftirqd, threaded NAPI and threaded interrupts" }
    InstrumentNs "instrument_ns" { scope: Scope::Machine, summary: "as sender_processes_ns, of bytecost itself: who coordinates the trial, and over wire who acknowledges" }
    OtherProcessesNs "other_processes_ns" { scope: Scope::Machine, summary: "as sender_processes_ns, of all processes that are not ours; those that began and ended within the window are in none of these" }
    MachineSoftirqNs "machine_softirq_ns" { scope: Scope::Machine, summary: "CPU time in softirq, /proc/stat, 10 ms steps" }
    MachineStealNs "machine_steal_ns" { scope: Scope::Machine, summary: "time that the hypervisor took, /proc/stat, 10 ms steps" }
    FrequencyKhz "frequency_khz" { scope: Scope::Machine, summary: "highest frequency of a CPU at the end of the window, scaling_cur_freq" }
    CoreToCoreBeforeNs "core_to_core_before_ns" { scope: Scope::Machine, summary: "where the ends of a trial have two CPUs between them: how long a cache line took from one of these to the other before the warm-up, half a round trip, least of four means of 50" }
    CoreToCoreAfterNs "core_to_core_after_ns" { scope: Scope::Machine, summary: "as core_to_core_before_ns, after the window" }
    ThermalThrottles "thermal_throttles" { scope: Scope::Machine, summary: "times within the window that a core or package was slowed down for its heat, thermal_throttle" }
    CgroupPeriods "cgroup_periods" { scope: Scope::Machine, summary: "periods of its quota in which the cell's group ran, cpu.stat nr_periods" }
    CgroupThrottledPeriods "cgroup_throttled_periods" { scope: Scope::Machine, summary: "of these, periods in which the quota was used up, cpu.stat nr_throttled" }
    CgroupThrottledNs "cgroup_throttled_ns" { scope: Scope::Machine, summary: "time for which the quota kept threads that could run from running, cpu.stat throttled_usec or throttled_time, sum over CPUs" }
    QuotaThrottledPeriods "quota_throttled_periods" { scope: Scope::Machine, summary: "periods since the trial before in which a quota around the whole run was used up, cpu.stat nr_throttled of bytecost's own control group and of those above it" }
    QuotaThrottledNs "quota_throttled_ns" { scope: Scope::Machine, summary: "time for which such quotas kept threads that could run from running, as quota_throttled_periods, sum over CPUs" }
    NeighbourNs "neighbour_ns" { scope: Scope::Machine, summary: "CPU time of the background load of the cell; no time of others" }
    TcpDelayedAcks "tcp_delayed_acks" { scope: Scope::Machine, summary: "acknowledgements that the timer of delayed ones sent (TcpExt DelayedACKs), all of the network that the trial is in: the host's on loopback, both private ones on veth" }
    TcpDelayedAckLost "tcp_delayed_ack_lost" { scope: Scope::Machine, summary: "segments that came twice since their acknowledgement was late (TcpExt DelayedACKLost), as tcp_delayed_acks" }
    TcpAutoCorking "tcp_auto_corking" { scope: Scope::Machine, summary: "writes that waited for more since earlier ones had not left (TcpExt TCPAutoCorking), as tcp_delayed_acks" }
    TcpOutSegs "tcp_out_segs" { scope: Scope::Machine, summary: "segments sent (Tcp OutSegs), as tcp_delayed_acks" }
    TcpInSegs "tcp_in_segs" { scope: Scope::Machine, summary: "segments received, those that an offload has joined as one (Tcp InSegs), as tcp_delayed_acks" }
    TcpRetransSegs "tcp_retrans_segs" { scope: Scope::Machine, summary: "segments sent again (Tcp RetransSegs), as tcp_delayed_acks" }
    TcpListenDrops "tcp_listen_drops" { scope: Scope::Machine, summary: "where there is a server, since its clients began to connect: connections that a listening socket dropped, most of all since its queue was full (TcpExt ListenDrops), of the network as tcp_delayed_acks" }
    TcpSynRetransmits "tcp_syn_retransmits" { scope: Scope::Machine, summary: "where there is a server, since its clients began to connect: SYN segments sent again, after 1 s or more (TcpExt TCPSynRetrans), of the network as tcp_delayed_acks" }
    WirePackets "wire_packets" { scope: Scope::Machine, summary: "over wire: packets with payload that were taken off, each of up to what --segment says, all flows" }
    WireAcknowledgements "wire_acknowledgements" { scope: Scope::Machine, summary: "over wire: acknowledgements written" }
    WireGaps "wire_gaps" { scope: Scope::Machine, summary: "over wire: packets that began after what was expected, out of order, which count as lost" }
    WireRepeats "wire_repeats" { scope: Scope::Machine, summary: "over wire: packets with nothing new" }
    ResponderCpuNs "responder_cpu_ns" { scope: Scope::Machine, summary: "over wire: CPU time of the process that acknowledges; it looks without pause, so this is no cost of the sender's" }
    ResponderWritingNs "responder_writing_ns" { scope: Scope::Machine, summary: "over wire: of the responder's time, that within writing acknowledgements, where the kernel does a part of the sender's work" }
}

impl Counter {
    /// Errors of the requests and connections of a server's clients, of each kind.
    pub const REQUEST_ERRORS: [Counter; 6] = [
        Counter::ErrorsRefused,
        Counter::ErrorsReset,
        Counter::ErrorsClosed,
        Counter::ErrorsTimeout,
        Counter::ErrorsWrong,
        Counter::ErrorsLocal,
    ];

    /// The counter's name in files and columns.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_with_something_absent_is_absent() {
        let (one, gone) = (Reading::Measured(1), Reading::absent("gone"));
        assert_eq!(one.plus(&one), Reading::Measured(2));
        assert_eq!((one.plus(&gone), gone.plus(&one)), (gone.clone(), gone));
    }
}
