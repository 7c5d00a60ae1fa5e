//! Enums of a cell's fields: the choices that are neither a number nor a name.

choice! {
    /// The path between the two ends.
    pub enum Transport {
        /// TCP over the loopback device.
        #[default]
        Loopback,
        /// A stream socket of the Unix domain.
        Unix,
        /// TCP over a veth pair between two network namespaces.
        Veth,
        /// TCP over a device that frees packets, with a process that acknowledges them.
        Wire,
        /// TCP to another host.
        Peer,
    }
}

impl Transport {
    /// Transports within one machine, which its survey tries, in the order of the documentation.
    pub const WITHIN: &[Transport] = Transport::ALL.split_at(Transport::Peer as usize).0;

    /// Description for lists of transports.
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

    /// Returns true if a receiver reads what is sent; else there is no receiving side and no response.
    pub fn has_receiver(self) -> bool {
        !self.is_wire()
    }

    /// Returns true for a link that is made for the run and needs privileges: it is tried only if the
    /// study names it. Its MTU can be chosen, since nobody else uses it.
    pub fn is_made(self) -> bool {
        self == Transport::Veth || self.is_wire()
    }

    /// Returns true if packets are freed as they leave and never delivered.
    pub fn is_wire(self) -> bool {
        self == Transport::Wire
    }

    /// Returns true for a transport over TCP, which has congestion control and TCP_NODELAY.
    pub fn is_tcp(self) -> bool {
        self != Transport::Unix
    }
}

choice! {
    /// The device that takes the packets of [`Transport::Wire`].
    pub enum Device {
        /// A tun device: IP packets without Ethernet frames.
        #[default]
        Tun,
        /// One end of a veth pair: Ethernet frames, as a network card has.
        Veth,
    }
}

impl Device {
    /// Noun phrase for sentences.
    pub fn in_words(self) -> &'static str {
        match self {
            Device::Tun => "a tun device",
            Device::Veth => "one end of a veth pair",
        }
    }
}

choice! {
    /// The order of messages and responses on a connection.
    pub enum Pattern {
        /// The sender sends without pause.
        #[default]
        Stream,
        /// The sender waits for a response after each message.
        #[serde(rename = "request-response")]
        #[strum(serialize = "request-response")]
        RequestResponse,
    }
}

choice! {
    /// TCP_NODELAY, which sends small writes at once.
    pub enum Nodelay {
        /// On with responses, off while streaming: what a careful program does.
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
        /// The system's setting.
        #[default]
        Auto,
        /// All of it lies in huge pages.
        On,
        /// None of it does.
        Off,
    }
}

choice! {
    /// The time at which the payload is written.
    pub enum Payload {
        /// Once, before the trial; the sender then cycles through the ring.
        #[default]
        Prepared,
        /// Every field of every message is filled with memset before it is sent.
        Refilled,
    }
}

choice! {
    /// The treatment of zero-copy completions by the sender.
    pub enum Reaping {
        /// It takes them all, and never writes to a buffer that the kernel still reads.
        #[default]
        Full,
        /// After each send it reads the error queue once, without waiting, and reuses the buffer.
        OneLook,
        /// It never reads the error queue, waits 1 µs when the kernel has no room (ENOBUFS), and reuses the buffer.
        Never,
    }
}

choice! {
    /// The place of a file's pages when they are read.
    pub enum Cache {
        /// In a memory file: there is no disk behind it.
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
    /// The order of the requests to a file.
    pub enum Access {
        /// From the beginning to the end.
        #[default]
        Sequential,
        /// In a random order of blocks.
        Random,
    }
}

choice! {
    /// The life of a client's connection.
    pub enum Connect {
        /// One connection for all requests.
        #[default]
        Kept,
        /// A new connection for each request.
        New,
    }
}

choice! {
    /// The distribution of an open loop's requests over time.
    pub enum Arrivals {
        /// At equal intervals.
        #[default]
        Fixed,
        /// A Poisson process, as of many independent clients: intervals are exponential.
        Poisson,
    }
}

choice_or_bytes! {
    /// Bytes that a receiver asks for in one call.
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
    /// The size of a response.
    pub enum Answer {
        /// As many bytes as one field.
        #[default]
        Field,
    }
}
