//! What each row states, until the rows do it themselves.

use bytecost_engine::Mover;
use bytecost_engine::statement::*;
use bytecost_spec::evidence::Leg;

const NOTHING: Statement = Statement {
    calls: &[],
    copies: &[],
    needs: &[],
};
const SENT: Statement = Statement {
    copies: &[Leg::IntoKernel, Leg::ToReader],
    ..NOTHING
};
const PINNED: Statement = Statement {
    copies: &[Leg::Delivery, Leg::ToReader],
    ..NOTHING
};
const TAKEN: Statement = Statement {
    copies: &[Leg::ToReader],
    ..NOTHING
};
const READ_AND_SENT: Statement = Statement {
    copies: &[Leg::FromFile, Leg::IntoKernel, Leg::ToReader],
    ..NOTHING
};
const READ: Statement = Statement {
    copies: &[Leg::FromFile],
    ..NOTHING
};
const WRITTEN: Statement = Statement {
    copies: &[Leg::IntoFile],
    ..NOTHING
};
const READ_AND_WRITTEN: Statement = Statement {
    copies: &[Leg::FromFile, Leg::IntoFile],
    ..NOTHING
};

const TCP_CORK: u32 = 3;
const MSG_ERRQUEUE: u32 = 0x2000;
const MSG_DONTWAIT: u32 = 0x40;
const MAP_SHARED: u32 = 1;
const GETEVENTS: u32 = 1;
const SQ_WAKEUP: u32 = 2;
const EXT_ARG: u32 = 8;
const FUTEX_WAKE_PRIVATE: u32 = 129;

const fn sendto(each: Each) -> Call {
    call("sendto", MSG_NOSIGNAL, each)
}
const fn request(name: &'static str, each: Each) -> Call {
    call(name, 0, each)
}
const WAITS: Call = call("io_uring_enter", GETEVENTS | EXT_ARG, Each::Wait);
const HANDS_OVER: Call = call("io_uring_enter", 0, Each::Several);
const SYNCS: Call = call("fdatasync", 0, Each::Pass);
const SEEKS: Call = call("lseek", 0, Each::Pass);
const MAPS: Call = call("mmap", MAP_SHARED, Each::Pass);
const TURNS: &[Call] = &[call("write", 0, Each::Turn), call("read", 0, Each::Turn)];

pub const ROWS: &[(&str, Statement)] = &[
    ("null", NOTHING),
    (
        "send",
        Statement {
            calls: &[sendto(Each::Message)],
            ..SENT
        },
    ),
    (
        "send-fields",
        Statement {
            calls: &[sendto(Each::Field)],
            needs: &[Need::Stream],
            ..SENT
        },
    ),
    (
        "send-more",
        Statement {
            calls: &[
                call("sendto", MSG_NOSIGNAL | MSG_MORE, Each::FieldButLast),
                sendto(Each::Message),
            ],
            ..SENT
        },
    ),
    (
        "writev",
        Statement {
            calls: &[call("writev", 0, Each::Message)],
            ..SENT
        },
    ),
    (
        "sendmsg",
        Statement {
            calls: &[call("sendmsg", MSG_NOSIGNAL, Each::Message)],
            ..SENT
        },
    ),
    (
        "send-zerocopy",
        Statement {
            calls: &[
                call("sendmsg", MSG_NOSIGNAL | MSG_ZEROCOPY, Each::Message),
                call("recvmsg", MSG_ERRQUEUE | MSG_DONTWAIT, Each::Wait),
            ],
            needs: &[Need::Inet],
            ..PINNED
        },
    ),
    (
        "sendfile",
        Statement {
            calls: &[call("sendfile", 0, Each::Message)],
            needs: &[Need::Stream],
            ..TAKEN
        },
    ),
    (
        "sendfile-cork",
        Statement {
            calls: &[
                call("setsockopt", TCP_CORK, Each::Message).times(2),
                call("sendfile", 0, Each::Message),
            ],
            needs: &[Need::Tcp],
            ..TAKEN
        },
    ),
    (
        "splice",
        Statement {
            calls: &[call("splice", SPLICE_F_MOVE, Each::Message).times(2)],
            needs: &[Need::Stream],
            ..TAKEN
        },
    ),
    (
        "vmsplice",
        Statement {
            calls: &[
                call("vmsplice", 0, Each::Message),
                call("splice", SPLICE_F_MOVE, Each::Message),
            ],
            needs: &[Need::Stream],
            ..TAKEN
        },
    ),
    (
        "uring-send",
        Statement {
            calls: &[
                request("IORING_OP_SEND", Each::Message),
                call("io_uring_enter", GETEVENTS | EXT_ARG, Each::Several),
            ],
            needs: &[Need::Uring],
            ..SENT
        },
    ),
    (
        "uring-send-zc",
        Statement {
            calls: &[request("IORING_OP_SEND_ZC", Each::Message), WAITS],
            needs: &[Need::Uring, Need::Linux(6, 0), Need::Inet],
            ..PINNED
        },
    ),
    (
        "read-write",
        Statement {
            calls: &[
                call("read", 0, Each::Block),
                call("write", 0, Each::Block),
                SEEKS,
            ],
            needs: &[Need::Stream],
            ..READ_AND_SENT
        },
    ),
    (
        "mmap-send",
        Statement {
            calls: &[MAPS, sendto(Each::Block)],
            needs: &[Need::Stream],
            ..SENT
        },
    ),
    (
        "uring-splice",
        Statement {
            calls: &[
                request("IORING_OP_SPLICE", Each::Message).times(2),
                call("io_uring_enter", GETEVENTS | EXT_ARG, Each::Message),
            ],
            needs: &[Need::Uring, Need::Stream],
            ..TAKEN
        },
    ),
    (
        "uring-read-send",
        Statement {
            calls: &[
                request("IORING_OP_READ", Each::Block),
                request("IORING_OP_SEND", Each::Block),
                call("io_uring_enter", GETEVENTS | EXT_ARG, Each::Message),
            ],
            needs: &[Need::Uring, Need::Stream],
            ..READ_AND_SENT
        },
    ),
    (
        "java-stream",
        Statement {
            calls: &[
                call("read", 0, Each::Block),
                call("write", 0, Each::Block),
                SEEKS,
            ],
            needs: &[Need::Java, Need::Receiver],
            ..READ_AND_SENT
        },
    ),
    (
        "java-transfer-to",
        Statement {
            calls: &[call("sendfile", 0, Each::Message)],
            needs: &[Need::Java, Need::Receiver],
            ..TAKEN
        },
    ),
    (
        "read",
        Statement {
            calls: &[call("read", 0, Each::Message), SEEKS],
            ..READ
        },
    ),
    (
        "pread",
        Statement {
            calls: &[call("pread64", 0, Each::Message)],
            ..READ
        },
    ),
    (
        "preadv2",
        Statement {
            calls: &[call("preadv2", 0, Each::Message)],
            ..READ
        },
    ),
    (
        "preadv2-nowait",
        Statement {
            calls: &[call("preadv2", RWF_NOWAIT, Each::Message)],
            needs: &[Need::Disk],
            ..READ
        },
    ),
    (
        "mmap-touch",
        Statement {
            calls: &[MAPS],
            needs: &[Need::PageCache],
            ..NOTHING
        },
    ),
    (
        "posix-aio",
        Statement {
            calls: &[call("pread64", 0, Each::Message)],
            ..READ
        },
    ),
    (
        "libaio",
        Statement {
            calls: &[
                call("io_submit", 0, Each::Several),
                call("io_getevents", 0, Each::Wait),
            ],
            ..READ
        },
    ),
    (
        "uring-read",
        Statement {
            calls: &[request("IORING_OP_READ", Each::Message), HANDS_OVER, WAITS],
            needs: &[Need::Uring],
            ..READ
        },
    ),
    (
        "uring-read-fixed",
        Statement {
            calls: &[
                request("IORING_OP_READ_FIXED", Each::Message),
                HANDS_OVER,
                WAITS,
            ],
            needs: &[Need::Uring],
            ..READ
        },
    ),
    (
        "uring-sqpoll",
        Statement {
            calls: &[
                request("IORING_OP_READ_FIXED", Each::Message),
                WAITS,
                call("io_uring_enter", SQ_WAKEUP, Each::Wait),
                call(
                    "io_uring_enter",
                    GETEVENTS | EXT_ARG | SQ_WAKEUP,
                    Each::Wait,
                ),
            ],
            needs: &[Need::Uring],
            ..READ
        },
    ),
    (
        "write",
        Statement {
            calls: &[call("write", 0, Each::Message), SEEKS],
            ..WRITTEN
        },
    ),
    (
        "write-fdatasync",
        Statement {
            calls: &[call("write", 0, Each::Message), SEEKS, SYNCS],
            ..WRITTEN
        },
    ),
    (
        "pwrite",
        Statement {
            calls: &[call("pwrite64", 0, Each::Message)],
            ..WRITTEN
        },
    ),
    (
        "pwrite-fdatasync",
        Statement {
            calls: &[call("pwrite64", 0, Each::Message), SYNCS],
            ..WRITTEN
        },
    ),
    (
        "uring-write",
        Statement {
            calls: &[request("IORING_OP_WRITE", Each::Message), HANDS_OVER, WAITS],
            needs: &[Need::Uring],
            ..WRITTEN
        },
    ),
    (
        "uring-write-fdatasync",
        Statement {
            calls: &[
                request("IORING_OP_WRITE", Each::Message),
                HANDS_OVER,
                WAITS,
                SYNCS,
            ],
            needs: &[Need::Uring],
            ..WRITTEN
        },
    ),
    (
        "ping-futex",
        Statement {
            calls: &[call("futex", FUTEX_WAKE_PRIVATE, Each::Turn)],
            ..NOTHING
        },
    ),
    (
        "ping-pipe",
        Statement {
            calls: TURNS,
            ..NOTHING
        },
    ),
    (
        "ping-unix",
        Statement {
            calls: TURNS,
            ..NOTHING
        },
    ),
    (
        "ping-tcp",
        Statement {
            calls: TURNS,
            ..NOTHING
        },
    ),
    (
        "read-null",
        Statement {
            calls: &[
                call("pread64", 0, Each::Block),
                call("write", 0, Each::Block),
            ],
            ..READ
        },
    ),
    (
        "sendfile-null",
        Statement {
            calls: &[call("sendfile", 0, Each::Block)],
            ..NOTHING
        },
    ),
    (
        "read-write-file",
        Statement {
            calls: &[
                call("pread64", 0, Each::Block),
                call("pwrite64", 0, Each::Block),
            ],
            ..READ_AND_WRITTEN
        },
    ),
    (
        "copy_file_range",
        Statement {
            calls: &[call("copy_file_range", 0, Each::Block)],
            ..WRITTEN
        },
    ),
    (
        "splice-file",
        Statement {
            calls: &[call("splice", SPLICE_F_MOVE, Each::Block).times(2)],
            ..WRITTEN
        },
    ),
];

pub fn of(mover: &Mover) -> &'static Statement {
    ROWS.iter()
        .find(|(name, _)| *name == mover.name)
        .map_or(&NOTHING, |(_, s)| s)
}
