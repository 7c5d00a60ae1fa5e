//! Two hosts as two network namespaces, joined by a veth pair; they need root.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytecost_lab::host_questions::HostQuestions;
use bytecost_lab::peer::PeerLink;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::Role;
use bytecost_lab::settings::Settings;
use bytecost_lab::short_trials::Surveyor;
use bytecost_lab::transports::link::LinkChoice;
use bytecost_lab::transports::veth::{RECEIVER, VethPair};
use bytecost_lab::{Event, EvidenceTrial, Watch};
use bytecost_spec::evidence::CountedEvent::{Acknowledgements, Packets, Segments};
use bytecost_spec::evidence::Means;
use bytecost_spec::{Counter, Host, PeerSide, Reading, Record};
use libtest_mimic::Trial;

use super::{
    CELLS, NO_STOP, SERVED, SIDES, Way, arrives, case, cell, is_answered, meanwhile, read,
    settings, trial_in,
};
use crate::harness::lack::{Lack, skipped};

pub fn trials() -> Vec<Trial> {
    let trial = |what: &str, check: fn(&Two)| {
        case(format!("two networks: {what}"), move || match Two::new() {
            Some(two) => check(&two),
            None => skipped(Lack::Right, "it needs root"),
        })
    };
    vec![
        trial("every cell, both ways", every_cell),
        trial("packets are counted whichever side listens", counted),
        trial("over IPv6", over_ipv6),
        trial("packets that become smaller", changed_mtu),
        trial("a link that is down for a while", link_down),
    ]
}

/// Two networks, and somebody who stays in the other one.
struct Two {
    pair: VethPair,
    keeper: Child,
}

impl Drop for Two {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

impl Two {
    /// None without the rights.
    fn new() -> Option<Two> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let pair = VethPair::new(LinkChoice::default()).unwrap();
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").stdin(Stdio::null());
        pair.network(Role::Receiver).start_in(&mut sleep).unwrap();
        let keeper = sleep.spawn().unwrap();
        Some(Two { pair, keeper })
    }

    fn way(&self, side: PeerSide, data_from_here: bool) -> Way {
        Way {
            prefix: format!("nsenter --net=/proc/{}/ns/net", self.keeper.id()),
            side,
            data_from_here,
            ..Way::default()
        }
    }

    /// Does something where this host is to be.
    fn here<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pair.network(Role::Sender).within(work).unwrap()
    }

    fn ip(&self, role: Role, words: &str) {
        let run = || Command::new("ip").args(words.split(' ')).status();
        let status = self.pair.network(role).within(run).unwrap().unwrap();
        assert!(status.success(), "ip {words}: {status}");
    }
}

fn every_cell(two: &Two) {
    for side in SIDES {
        for data_from_here in [false, true] {
            let way = two.way(side, data_from_here);
            two.here(|| {
                let link = PeerLink::open(&way.options(), &NO_STOP).unwrap();
                let host = link.host();
                assert_eq!(host.address, RECEIVER.to_string());
                assert_eq!(host.path_mtu, Some(1500));
                let names = [&host.cards, &link.own_cards()]
                    .map(|cards| cards.iter().map(|c| c.name.clone()).collect::<Vec<_>>());
                assert_eq!(names, [["bytecost1"], ["bytecost0"]]);
                drop(link);
                let mut lab = way.lab(settings());
                for (name, values) in CELLS {
                    println!("{name}");
                    arrives(&mut lab, &cell(values));
                }
                for (name, values) in SERVED {
                    println!("{name}");
                    is_answered(&mut lab, values);
                }
            });
        }
    }
}

fn counted(two: &Two) {
    for data_from_here in [false, true] {
        let (program, host) = (Program::own().unwrap(), Host::default());
        let surveyor = Surveyor::new(&program, &NO_STOP);
        let refused = HostQuestions::new(&surveyor, &host).evidence_refusal(Means::Counts);
        if let Some(why) = refused {
            return skipped(Lack::Right, why);
        }
        let mut watch = Watch::by(&[Means::Counts], Duration::from_millis(500));
        let (way, mut seen) = (two.way(PeerSide::Receiver, data_from_here), None);
        two.here(|| {
            let mut lab = way.lab(settings());
            let trial = EvidenceTrial {
                round: 0,
                number: 0,
                cell: cell(""),
            };
            lab.watch(&mut watch, [trial], None, &NO_STOP, &mut |event| {
                if let Event::TrialEnded(record) = event {
                    seen = Some(record);
                }
            })
        });
        let Some(Record::Evidence(found)) = seen.map(|record| *record) else {
            panic!("the trial failed");
        };
        let counted: Vec<bool> = [Packets, Segments, Acknowledgements]
            .iter()
            .map(|event| {
                let of = found.counts.iter().find(|c| c.event == *event).unwrap();
                match &of.count {
                    // On a busy machine they may begin too late.
                    Reading::Absent { absent } => absent.contains("the counters began"),
                    count => count.measured() > Some(0),
                }
            })
            .collect();
        assert_eq!(counted, [true, true, false], "{:?}", found.counts);
    }
}

/// Each trial records the largest packets of its path.
fn changed_mtu(two: &Two) {
    let way = two.way(PeerSide::Receiver, false);
    two.here(|| {
        let mut lab = way.lab(settings());
        for mtu in [1500, 1400] {
            two.ip(Role::Sender, &format!("link set bytecost0 mtu {mtu}"));
            two.ip(Role::Receiver, &format!("link set bytecost1 mtu {mtu}"));
            let sample = arrives(&mut lab, &cell(""));
            let mtu_read = read(&sample.sender.readings, Counter::TcpPathMtuBytes);
            assert_eq!(mtu_read, Some(mtu));
        }
    });
}

fn over_ipv6(two: &Two) {
    for (role, device, number) in [(Role::Sender, 0, 1), (Role::Receiver, 1, 2)] {
        let address = format!("fd00:0:0:9::{number}/64 dev bytecost{device}");
        two.ip(role, &format!("address add {address} nodad"));
    }
    for side in SIDES {
        let way = Way {
            address: Some("fd00:0:0:9::2"),
            ..two.way(side, false)
        };
        two.here(|| {
            let mut lab = way.lab(settings());
            arrives(&mut lab, &cell(""));
            for (_, values) in SERVED {
                is_answered(&mut lab, values);
            }
        });
    }
}

/// The channel does not go by the link; the trial in flight is lost at most.
fn link_down(two: &Two) {
    let way = two.way(PeerSide::Receiver, false);
    let long = Settings {
        window: Duration::from_secs(1),
        ..settings()
    };
    two.here(|| {
        let mut lab = way.lab(long);
        let ((), first) = meanwhile(
            |_| {
                way.program.process("endpoint");
                two.ip(Role::Sender, "link set bytecost0 down");
                std::thread::sleep(Duration::from_secs(2));
                two.ip(Role::Sender, "link set bytecost0 up");
            },
            || trial_in(&mut lab, &cell("")),
        );
        println!("the trial in flight: {:?}", first.err().map(|f| f.reason));
        for _ in 0..3 {
            arrives(&mut lab, &cell(""));
        }
    });
}
