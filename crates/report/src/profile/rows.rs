//! Rows of a profile's table, and the names of ways.

use bytecost_spec::profile::{CallFlag, Descriptor, DescriptorKind, OtherEnd, Profile, Way};

/// Ways in one row: file systems and sizes of files are put together.
pub(super) struct Row<'p> {
    pub(super) name: String,
    /// Positions of the ways in the profile.
    pub(super) positions: Vec<usize>,
    pub(super) ways: Vec<&'p Way>,
}

impl Row<'_> {
    pub(super) fn sum(&self, of: fn(&Way) -> u64) -> u64 {
        self.ways.iter().map(|way| of(way)).sum()
    }

    pub(super) fn cpu_ns(&self) -> u64 {
        self.sum(|way| way.cpu_ns.unwrap_or(0))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sum(|way| way.bytes)
    }

    pub(super) fn lengths(&self) -> Vec<u64> {
        let longest = self
            .ways
            .iter()
            .map(|way| way.lengths.len())
            .max()
            .unwrap_or(0);
        let at = |power: usize| {
            let of = self.ways.iter().filter_map(|way| way.lengths.get(power));
            of.sum()
        };
        (0..longest).map(at).collect()
    }
}

pub(super) fn rows(profile: &Profile) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (position, way) in profile.ways.iter().enumerate() {
        let name = name(way);
        let known = rows.iter().position(|row| row.name == name);
        let at = known.unwrap_or_else(|| {
            rows.push(Row {
                name,
                positions: Vec::new(),
                ways: Vec::new(),
            });
            rows.len() - 1
        });
        rows[at].positions.push(position);
        rows[at].ways.push(way);
    }
    rows.sort_by_key(|row| std::cmp::Reverse((row.cpu_ns(), row.bytes())));
    rows
}

/// A way as the screen has it: `read ← file`, `sendfile file → tcp`.
pub(super) fn name(way: &Way) -> String {
    let call = way.call.strip_prefix("IORING_OP_").map_or_else(
        || way.call.clone(),
        |opcode| format!("io_uring {}", opcode.to_lowercase()),
    );
    let moves = match (&way.from, &way.to) {
        (Some(from), Some(to)) => format!("{call} {} → {}", end(from), end(to)),
        (Some(from), None) => format!("{call} ← {}", end(from)),
        (None, Some(to)) => format!("{call} → {}", end(to)),
        (None, None) => call,
    };
    let flags = way.flags.iter().filter_map(|flag| match flag {
        CallFlag::ZeroCopy => Some(" MSG_ZEROCOPY"),
        CallFlag::ErrorQueue => Some(" MSG_ERRQUEUE"),
        CallFlag::More | CallFlag::DontWait => None,
    });
    moves + &flags.collect::<String>()
}

fn end(of: &Descriptor) -> String {
    let name = match of.kind {
        DescriptorKind::File => "file",
        DescriptorKind::Block => "block device",
        DescriptorKind::Device => match of.on.as_deref() {
            Some("1:3") => "/dev/null",
            Some("1:5") => "/dev/zero",
            Some("1:8" | "1:9") => "/dev/random",
            Some(numbers) if numbers.starts_with("136:") || numbers.starts_with("5:") => "terminal",
            _ => "device",
        },
        DescriptorKind::Pipe => "pipe",
        DescriptorKind::Tcp => "tcp",
        DescriptorKind::Udp => "udp",
        DescriptorKind::Unix => "unix",
        DescriptorKind::Socket => "socket",
        DescriptorKind::Directory => "directory",
        DescriptorKind::Other => "event",
    };
    let is_direct = if of.is_direct { " O_DIRECT" } else { "" };
    let is_elsewhere = match (of.kind, of.other_end) {
        (DescriptorKind::Tcp | DescriptorKind::Udp, Some(OtherEnd::Network)) => " (network)",
        _ => "",
    };
    format!("{name}{is_direct}{is_elsewhere}")
}
