//! The axes of a tier or of a place, as they stand in the file.

use serde::Deserialize;
use toml::Spanned;

use super::value::Values;
use crate::axis::Axis;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct RawAxes {
    transport: Option<Spanned<Values>>,
    pattern: Option<Spanned<Values>>,
    mover: Option<Spanned<Values>>,
    receiver: Option<Spanned<Values>>,
    size: Option<Spanned<Values>>,
    fields: Option<Spanned<Values>>,
    threads: Option<Spanned<Values>>,
    congestion: Option<Spanned<Values>>,
    socket_buffer: Option<Spanned<Values>>,
    read_size: Option<Spanned<Values>>,
    ring: Option<Spanned<Values>>,
    nodelay: Option<Spanned<Values>>,
    placement: Option<Spanned<Values>>,
    payload: Option<Spanned<Values>>,
    answer: Option<Spanned<Values>>,
    reaping: Option<Spanned<Values>>,
    cork: Option<Spanned<Values>>,
    quickack: Option<Spanned<Values>>,
    mtu: Option<Spanned<Values>>,
    segment: Option<Spanned<Values>>,
    device: Option<Spanned<Values>>,
    ack_bytes: Option<Spanned<Values>>,
    block: Option<Spanned<Values>>,
    depth: Option<Spanned<Values>>,
    cache: Option<Spanned<Values>>,
    access: Option<Spanned<Values>>,
    mem_node: Option<Spanned<Values>>,
    neighbour: Option<Spanned<Values>>,
    huge_pages: Option<Spanned<Values>>,
    class: Option<Spanned<Values>>,
    cgroup: Option<Spanned<Values>>,
    server: Option<Spanned<Values>>,
    service: Option<Spanned<Values>>,
    connections: Option<Spanned<Values>>,
    idle: Option<Spanned<Values>>,
    connect: Option<Spanned<Values>>,
    rate: Option<Spanned<Values>>,
    think: Option<Spanned<Values>>,
    perf: Option<Spanned<Values>>,
}

impl RawAxes {
    pub(crate) fn get(&self, axis: Axis) -> Option<&Spanned<Values>> {
        match axis {
            Axis::Transport => self.transport.as_ref(),
            Axis::Pattern => self.pattern.as_ref(),
            Axis::Mover => self.mover.as_ref(),
            Axis::Receiver => self.receiver.as_ref(),
            Axis::Size => self.size.as_ref(),
            Axis::Fields => self.fields.as_ref(),
            Axis::Threads => self.threads.as_ref(),
            Axis::Congestion => self.congestion.as_ref(),
            Axis::SocketBuffer => self.socket_buffer.as_ref(),
            Axis::ReadSize => self.read_size.as_ref(),
            Axis::Ring => self.ring.as_ref(),
            Axis::Nodelay => self.nodelay.as_ref(),
            Axis::Placement => self.placement.as_ref(),
            Axis::Payload => self.payload.as_ref(),
            Axis::Answer => self.answer.as_ref(),
            Axis::Reaping => self.reaping.as_ref(),
            Axis::Cork => self.cork.as_ref(),
            Axis::Quickack => self.quickack.as_ref(),
            Axis::Mtu => self.mtu.as_ref(),
            Axis::Segment => self.segment.as_ref(),
            Axis::Device => self.device.as_ref(),
            Axis::AckBytes => self.ack_bytes.as_ref(),
            Axis::Block => self.block.as_ref(),
            Axis::Depth => self.depth.as_ref(),
            Axis::Cache => self.cache.as_ref(),
            Axis::Access => self.access.as_ref(),
            Axis::MemNode => self.mem_node.as_ref(),
            Axis::Neighbour => self.neighbour.as_ref(),
            Axis::HugePages => self.huge_pages.as_ref(),
            Axis::Class => self.class.as_ref(),
            Axis::Cgroup => self.cgroup.as_ref(),
            Axis::Server => self.server.as_ref(),
            Axis::Service => self.service.as_ref(),
            Axis::Connections => self.connections.as_ref(),
            Axis::Idle => self.idle.as_ref(),
            Axis::Connect => self.connect.as_ref(),
            Axis::Rate => self.rate.as_ref(),
            Axis::Think => self.think.as_ref(),
            Axis::Perf => self.perf.as_ref(),
        }
    }
}
