//! The questions, in the order in which they are told.

use super::{
    Of, Question, asynchronous, cache_steps, caches, causes, copies, cpu_distance, cpu_time,
    huge_pages, isolation, one_call, placements, sendfile, servers, shared_core, threads,
    unexpected, zero_copy, zero_copy_from,
};

/// The questions of every run that was watched, whatever it is about.
pub(super) const OF_ALL: &[Question] = &[
    Question {
        key: "why-one-way-wins",
        text: "Why is one way better than another?",
        of: Of::All,
        ask: causes::ask,
    },
    Question {
        key: "copies-per-byte",
        text: "How often is each byte copied, and where?",
        of: Of::All,
        ask: copies::ask,
    },
    Question {
        key: "cpu-time-by-kind",
        text: "Where does the CPU time go, and what does one way save against another?",
        of: Of::All,
        ask: cpu_time::ask,
    },
];

/// Every other question, in the order in which they are told.
pub(super) const QUESTIONS: &[Question] = &[
    Question {
        key: "zero-copy-not-fastest",
        text: "Why is zero-copy not always fastest?",
        of: Of::Sockets,
        ask: zero_copy::ask,
    },
    Question {
        key: "cache-level",
        text: "Which cache level gains most from sending without a copy?",
        of: Of::Sockets,
        ask: caches::ask,
    },
    Question {
        key: "threads-and-caches",
        text: "How do threads interact with the caches, apart from there being more threads than CPUs?",
        of: Of::Sockets,
        ask: threads::ask,
    },
    Question {
        key: "one-call-against-several",
        text: "From what message size does one call beat one call for each field, and up to which?",
        of: Of::Sockets,
        ask: one_call::ask,
    },
    Question {
        key: "zero-copy-against-copying",
        text: "From what message size does zero-copy beat copying?",
        of: Of::Sockets,
        ask: zero_copy_from::ask,
    },
    Question {
        key: "asynchronous-slower",
        text: "When is asynchronous slower than synchronous?",
        of: Of::Files,
        ask: asynchronous::ask,
    },
    Question {
        key: "asynchronous-why",
        text: "Why is asynchronous slower, where it is?",
        of: Of::Files,
        ask: asynchronous::ask_why,
    },
    Question {
        key: "sendfile-saves",
        text: "What does sendfile save, and when does it not?",
        of: Of::Files,
        ask: sendfile::ask,
    },
    Question {
        key: "which-server",
        text: "Which model for how many connections?",
        of: Of::Servers,
        ask: servers::which,
    },
    Question {
        key: "idle-connections",
        text: "Where do servers fall off with connections that are only there?",
        of: Of::Servers,
        ask: servers::idle,
    },
    Question {
        key: "memory-per-connection",
        text: "What does a thread or process for each connection cost in memory?",
        of: Of::Servers,
        ask: servers::memory,
    },
    Question {
        key: "single-soonest",
        text: "Does single-threaded really have the least latency?",
        of: Of::Servers,
        ask: servers::single,
    },
    Question {
        key: "unexpected",
        text: "What was unexpected?",
        of: Of::Both,
        ask: unexpected::ask,
    },
];

/// Questions to work that moves nothing.
pub(super) const OF_WORK: &[Question] = &[
    Question {
        key: "cpu-distance",
        text: "What does the distance between two CPUs cost, and does what they share explain it?",
        of: Of::All,
        ask: cpu_distance::ask,
    },
    Question {
        key: "shared-core",
        text: "Do the two CPUs seem to share a core, whatever the kernel tells?",
        of: Of::All,
        ask: shared_core::ask,
    },
    Question {
        key: "pinning",
        text: "What does it change to hold threads on CPUs, alone and beside other load?",
        of: Of::All,
        ask: placements::pinning,
    },
    Question {
        key: "taking-turns",
        text: "Do two threads that slow each other share a core, or take turns on one CPU?",
        of: Of::All,
        ask: placements::turns,
    },
    Question {
        key: "cache-steps",
        text: "Where does an access become dearer, and is that where the kernel reports the caches?",
        of: Of::All,
        ask: cache_steps::ask,
    },
    Question {
        key: "huge-pages",
        text: "From which working set on do huge pages make an access cheaper, and why?",
        of: Of::All,
        ask: huge_pages::ask,
    },
    Question {
        key: "isolation-protects",
        text: "Which scheduler class or control group keeps work from its neighbour?",
        of: Of::All,
        ask: isolation::protects,
    },
    Question {
        key: "isolation-wakes",
        text: "What do a class, a weight and a quota do to wake-ups?",
        of: Of::All,
        ask: isolation::wakes,
    },
];
