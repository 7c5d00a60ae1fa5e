//! Requests to io_uring that this process makes, counted by the kernel as it takes them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use aya::include_bytes_aligned;
use bytecost_evidence::bpf::{self, Object};

/// Built from the file beside the object.
static OBJECT: &[u8] = include_bytes_aligned!("../../../evidence/bpf/requests.bpf.o");
/// Words of `struct sums` in `requests.bpf.c`, of which the first is set here.
const WORDS: usize = 1 + 64;

/// Requests that rows name, by their opcodes in linux/io_uring.h.
const NAMES: &[(usize, &str)] = &[
    (4, "IORING_OP_READ_FIXED"),
    (5, "IORING_OP_WRITE_FIXED"),
    (22, "IORING_OP_READ"),
    (23, "IORING_OP_WRITE"),
    (26, "IORING_OP_SEND"),
    (30, "IORING_OP_SPLICE"),
    (47, "IORING_OP_SEND_ZC"),
];
/// The row that stands for all others.
const ANOTHER: &str = "IORING_OP_…";

pub struct UringRequests(Object<WORDS>);

impl UringRequests {
    pub fn open(root: &Path) -> io::Result<UringRequests> {
        let types = bpf::types(root)?;
        let mut object = Object::load(OBJECT, types, &[])?;
        object.attach("submitted", "io_uring_submit_req", types)?;
        Ok(UringRequests(object))
    }

    pub fn begin(&mut self) -> io::Result<()> {
        self.0.begin(&[u64::from(std::process::id())])
    }

    /// By name, how many were made; they have no flags.
    pub fn counted(&self) -> BTreeMap<(&'static str, u32), u64> {
        let mut all = BTreeMap::new();
        let words = self.0.words();
        let made = words[1..].iter().copied().enumerate();
        for (opcode, count) in made.filter(|(_, count)| *count > 0) {
            let row = NAMES.iter().find(|(code, _)| *code == opcode);
            let name = row.map_or(ANOTHER, |(_, name)| name);
            *all.entry((name, 0)).or_default() += count;
        }
        all
    }
}
