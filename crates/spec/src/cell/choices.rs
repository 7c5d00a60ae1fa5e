//! The choices that a cell is made of, where they are more than a number or a name.

choice! {
    /// What lies between the two ends.
    pub enum Transport {
        /// TCP over the loopback device.
        #[default]
        Loopback,
        /// A stream socket of the Unix domain.
        Unix,
        /// TCP over a veth pair between two network namespaces.
        Veth,
        /// TCP over a device that takes packets for nobody, with a process that acknowledges them.
        Wire,
        /// TCP to another host.
        Peer,
    }
}

impl Transport {
    /// Those within one machine, which its survey tries, in the order of the documentation.
    pub const WITHIN: &[Transport] = Transport::ALL.split_at(Transport::Peer as usize).0;

    /// What it is, for lists.
    pub fn summary(self) -> &'static str {
        match self {
            Transport::Loopback => "TCP over 127.0.0.1; zero-copy sends are copied on delivery",
            Transport::Unix => "a Unix stream socket",
            Transport::Veth => {
                "TCP over a veth pair between two network namespaces of the run's own; needs root; zero-copy sends are copied on delivery"
            }
            Transport::Wire => {
                "TCP over a device that frees packets instead of delivering them, in a network namespace of the run's own; the sender's cost alone, with zero-copy sends that are not copied; needs root and BPF"
            }
            Transport::Peer => "TCP to the host that --peer names",
        }
    }

    /// Whether somebody takes in what is sent; else there is no receiving side, and no answer.
    pub fn has_receiver(self) -> bool {
        !self.is_wire()
    }

    /// Whether it is made for a run, with special rights: tried only where a study asks for it. Its
    /// MTU can be chosen, since nobody else uses it.
    pub fn is_made(self) -> bool {
        self == Transport::Veth || self.is_wire()
    }

    /// Whether what is sent is freed as it leaves, and delivered to nobody.
    pub fn is_wire(self) -> bool {
        self == Transport::Wire
    }

    /// Whether it speaks TCP, so that congestion control and TCP_NODELAY mean something.
    pub fn is_tcp(self) -> bool {
        self != Transport::Unix
    }
}

choice! {
    /// What takes the packets of a wire.
    pub enum Device {
        /// A tun device: packets of IP, without frames.
        #[default]
        Tun,
        /// One end of a veth pair: frames of Ethernet, as a card has.
        Veth,
    }
}

impl Device {
    /// What it is, in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Device::Tun => "a tun device",
            Device::Veth => "one end of a veth pair",
        }
    }
}

choice! {
    /// Who waits for whom.
    pub enum Pattern {
        /// The sender sends without pause.
        #[default]
        Stream,
        /// The sender waits for an answer after each message.
        #[serde(rename = "request-response")]
        #[strum(serialize = "request-response")]
        Ask,
    }
}

choice! {
    /// TCP_NODELAY: whether small writes go out at once.
    pub enum Nodelay {
        /// On where answers are waited for, off while streaming: what a careful program does.
        #[default]
        Auto,
        /// On.
        On,
        /// Off: the system's default.
        Off,
    }
}

choice! {
    /// Transparent huge pages under the memory that work is done on (madvise(2)).
    pub enum HugePages {
        /// As the system does it.
        #[default]
        Auto,
        /// All of it lies in huge pages.
        On,
        /// None of it does.
        Off,
    }
}

choice! {
    /// When the payload is written.
    pub enum Payload {
        /// Once, before the trial; messages then go round in the ring.
        #[default]
        Prepared,
        /// Every field of every message is filled with memset before it is sent.
        Refilled,
    }
}

choice! {
    /// What a sender does about zero-copy completions.
    pub enum Reaping {
        /// It takes them all, and never writes to a buffer that the kernel still reads.
        #[default]
        Full,
        /// After each send it looks at the error queue once, without waiting, and uses the buffer again.
        OneLook,
        /// It never looks, waits 1 µs when the kernel has no room (ENOBUFS), and uses the buffer again.
        Never,
    }
}

choice! {
    /// Where the pages of a file are when it is read.
    pub enum Cache {
        /// It is a memory file: there is no disk behind it.
        #[default]
        Memory,
        /// In the page cache.
        Warm,
        /// On the disk: dropped from the page cache first.
        Cold,
        /// On the disk, and read past the page cache (O_DIRECT).
        Direct,
    }
}

choice! {
    /// In which order a file is gone through.
    pub enum Access {
        /// From the beginning to the end.
        #[default]
        Sequential,
        /// In a random order of blocks.
        Random,
    }
}

choice! {
    /// How a client comes to its connection.
    pub enum Connect {
        /// It has one and keeps it.
        #[default]
        Kept,
        /// It opens a new one for each request.
        New,
    }
}

choice! {
    /// When requests of an open loop are due.
    pub enum Arrivals {
        /// At even distances, as a metronome beats.
        #[default]
        Fixed,
        /// As those of many independent clients are: gaps are exponential.
        Poisson,
    }
}

choice_or_bytes! {
    /// What a receiver asks for in one call.
    pub enum ReadSize {
        /// One field.
        #[default]
        Field,
        /// One message.
        Message,
    }
}

choice_or_bytes! {
    /// Payload memory of one flow.
    pub enum Ring {
        /// Exactly one message.
        #[default]
        Message,
    }
}

choice_or_bytes! {
    /// What an answer consists of.
    pub enum Answer {
        /// As much as one field.
        #[default]
        Field,
    }
}
