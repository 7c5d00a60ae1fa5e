//! A flow's part of a file, with the check of its content.

use std::io;

use bytecost_engine::{BlockOrder, Mover, Route, file};
use bytecost_spec::Cell;

use crate::file_task::FileTask;
use crate::protocol::ContentCheck;
use crate::requests::Content;

/// Bytes of each request that a timed trial compares: the first word.
const QUICK_BYTES: usize = 8;

/// Blocks that are looked at after a timed trial has written them.
const QUICK_BLOCKS: u64 = 1000;

/// The requests of a flow to its part of a file.
pub(crate) struct FilePart<'t> {
    pub(crate) cell: &'t Cell,
    pub(crate) mover: &'t Mover,
    pub(crate) task: &'t FileTask,
    pub(crate) order: BlockOrder,
    pub(crate) check: ContentCheck,
}

impl FilePart<'_> {
    pub(crate) fn size(&self) -> usize {
        self.cell.size_bytes as usize
    }

    fn depth(&self) -> usize {
        self.cell.depth as usize
    }

    /// Blocks, and bytes of each, that are compared at most.
    fn bounds(&self) -> (u64, usize) {
        match self.check {
            ContentCheck::Full => (u64::MAX, usize::MAX),
            ContentCheck::Quick => (QUICK_BLOCKS, QUICK_BYTES),
        }
    }

    /// The content that is read, where that is known.
    pub(crate) fn content(&self) -> Option<Content> {
        let is_known = self.task.own && self.mover.route.reads_a_file();
        is_known.then(|| Content {
            pattern: file::content(),
            most: self.bounds().1,
        })
    }

    /// The number of the mover's buffers at most.
    pub(crate) fn places(&self) -> usize {
        match self.mover.route {
            Route::MemoryToFile => file::written_places(self.size(), self.depth()),
            _ => self.depth(),
        }
    }

    /// Compares the bytes that so many requests wrote, after all of them. Returns the number of compared
    /// bytes.
    pub(crate) fn check_written(&self, requests: u64) -> io::Result<u64> {
        let open = |path| file::open(path, file::Opening::default());
        let (order, size) = (self.order, self.size());
        let (blocks, most) = self.bounds();
        if let Some(copy) = &self.task.target {
            let block = self.cell.block_bytes as usize;
            let calls = size.div_ceil(block.max(1)) as u64;
            let blocks = requests.min((blocks / calls).max(1));
            let (from, to) = (open(&self.task.path)?, open(copy)?);
            return file::check_copied(from, to, order, blocks, (size, block), most);
        }
        if self.mover.route != Route::MemoryToFile {
            return Ok(0);
        }
        let (file, blocks) = (open(&self.task.path)?, requests.min(blocks));
        file::check_written(file, order, blocks, size, self.depth(), most)
    }
}
