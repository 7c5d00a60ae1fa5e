//! Movers that have a Java virtual machine send a file over a socket: by FileInputStream.read, and by
//! FileChannel.transferTo.

use std::io;

use bytecost_spec::survey::Release;
use rustix::fs::OFlags;

use super::file_send::take;
use crate::block_order::BlockOrder;
use crate::java::{self, Jvm, START_PATIENCE, Start, Way};
use crate::mover::{FILE_SENT, Helper, InFlight, Move, Mover, MoverFacts, Offer, Open};
use crate::setup::Setup;
use crate::statement::{Each, READ_AND_SENT, Requirement, SEEKS, TAKEN, call};
use crate::tally::Tally;

pub const STREAM: Mover = Mover {
    facts: MoverFacts {
        name: "java-stream",
        summary: "Java: FileInputStream.read into an array of `block` bytes, and that written to the socket's stream, which copies it once more on the way out",
        in_flight: InFlight::OneByProcess,
        descriptors_per_flow: DESCRIPTORS,
        caution: Some(CAUTION),
        ..FILE_SENT
    },
    states: READ_AND_SENT
        .by(&[
            call("read").each(Each::Block),
            call("write").each(Each::Block),
            SEEKS,
        ])
        .needing(&[Requirement::Java, Requirement::Receiver]),
    open: Open::Stream(|setup| open(setup, Way::Stream)),
};

pub const TRANSFER_TO: Mover = Mover {
    facts: MoverFacts {
        name: "java-transfer-to",
        summary: "Java: FileChannel.transferTo to the socket, which is sendfile(2) on Linux",
        release: Release::Never,
        ..STREAM.facts
    },
    states: TAKEN
        .by(&[call("sendfile")])
        .needing(&[Requirement::Java, Requirement::Receiver]),
    open: Open::Stream(|setup| open(setup, Way::TransferTo)),
};

/// Descriptors of a flow in this process: the socket, the file, and its ends of three pipes to the Java
/// virtual machine.
const DESCRIPTORS: u32 = 5;
const CAUTION: &str = "a Java virtual machine does the work and gets each message's order through a pipe, which costs some 10 µs: compare it at sizes of 1 MiB and more";

/// A mover at work: each message is an order to the Java virtual machine.
struct Java {
    jvm: Jvm,
    order: BlockOrder,
    size: usize,
    tally: Tally,
}

fn open(mut setup: Setup, way: Way) -> io::Result<Box<dyn Move>> {
    let socket = setup.take_socket()?;
    let work = take(&mut setup)?;
    if rustix::fs::fcntl_getfl(&work.file)?.contains(OFlags::DIRECT) {
        let why = "the Java program cannot bypass the page cache: choose --cache warm or cold";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let start = Start {
        socket,
        file: work.file,
        way,
        block: work.block.max(1),
        compiled: setup.java.take(),
        start_patience: START_PATIENCE,
        patience: setup.patience,
    };
    Ok(Box::new(Java {
        jvm: Jvm::start(&java::find()?, start)?.0,
        order: work.order,
        size: setup.size,
        tally: Tally::default(),
    }))
}

impl Move for Java {
    fn offer(&mut self) -> io::Result<Offer> {
        // The calls that exchange orders and answers over pipes are not counted: a Java program that sends
        // a file makes none of them.
        self.tally.calls += self.jvm.send(self.order.next_offset(), self.size as u64)?;
        self.tally.moved(self.size);
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn helper(&self) -> Option<Helper> {
        Some(Helper::Process(self.jvm.pid()))
    }
}
