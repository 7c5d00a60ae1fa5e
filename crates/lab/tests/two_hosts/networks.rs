//! Two hosts as two network namespaces, joined by a veth pair; they need root.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytecost_lab::Lab;
use bytecost_lab::protocol::Role;
use bytecost_lab::transports::link::LinkChoice;
use bytecost_lab::transports::veth::{RECEIVER, VethPair};
use bytecost_lab::trial::Settings;
use bytecost_spec::{Axis, Counter, PeerSide, Reading};
use libtest_mimic::{Failed, Trial};

use super::{
    CELLS, SERVED, Way, arrives, both_are_read, cell, ensure, is_answered, meanwhile, sample,
    settings, trial,
};

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("two networks: every cell, both ways", every_cell),
        Trial::test("two networks: over IPv6", over_ipv6),
        Trial::test("two networks: packets that become smaller", changed_mtu),
        Trial::test("two networks: a link that is down for a while", link_down),
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
    /// None, and the reason printed, without the rights.
    fn new() -> Result<Option<Two>, Failed> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: it needs root");
            return Ok(None);
        }
        let pair = VethPair::new(LinkChoice::default())?;
        let mut keeper = Command::new("sleep");
        keeper.arg("1000").stdin(Stdio::null());
        pair.of(Role::Receiver).start_in(&mut keeper)?;
        let keeper = keeper.spawn()?;
        Ok(Some(Two { pair, keeper }))
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
    fn here<T: Send>(&self, work: impl FnOnce() -> Result<T, Failed> + Send) -> Result<T, Failed> {
        self.pair.of(Role::Sender).within(work)?
    }

    fn ip(&self, role: Role, words: &str) -> Result<(), Failed> {
        let status = self
            .pair
            .of(role)
            .within(|| Command::new("ip").args(words.split(' ')).status())??;
        ensure(status.success(), || format!("ip {words}: {status}"))
    }
}

fn every_cell() -> Result<(), Failed> {
    let Some(two) = Two::new()? else {
        return Ok(());
    };
    for side in [PeerSide::Receiver, PeerSide::Sender] {
        for data_from_here in [false, true] {
            let way = two.way(side, data_from_here);
            two.here(|| {
                let link = way.open()?;
                let host = link.host();
                ensure(host.address == RECEIVER.to_string(), || {
                    host.address.clone()
                })?;
                ensure(host.path_mtu == Some(1500), || {
                    format!("{:?}", host.path_mtu)
                })?;
                let names = [&host.cards, &link.own_cards()]
                    .map(|cards| cards.iter().map(|c| c.name.clone()).collect::<Vec<_>>());
                ensure(names == [["bytecost1"], ["bytecost0"]], || {
                    format!("{names:?}")
                })?;
                drop(link);
                let mut lab = way.lab(settings())?;
                for (name, values) in CELLS {
                    arrives(&mut lab, &cell(values))
                        .map_err(|e| format!("{name}: {}", e.message().unwrap_or_default()))?;
                }
                served(&mut lab)
            })?;
            way.program.are_gone()?;
        }
    }
    Ok(())
}

fn served(lab: &mut Lab) -> Result<(), Failed> {
    for (name, values) in SERVED {
        let values = [values, &[(Axis::Size, "100")][..]].concat();
        let sample = sample(lab, &cell(&values))
            .map_err(|e| format!("{name}: {}", e.message().unwrap_or_default()))?;
        both_are_read(&sample, 1)?;
    }
    Ok(())
}

/// Each trial tells what its packets could be.
fn changed_mtu() -> Result<(), Failed> {
    let Some(two) = Two::new()? else {
        return Ok(());
    };
    let way = two.way(PeerSide::Receiver, false);
    two.here(|| {
        let mut lab = way.lab(settings())?;
        for mtu in [1500, 1400] {
            two.ip(Role::Sender, &format!("link set bytecost0 mtu {mtu}"))?;
            two.ip(Role::Receiver, &format!("link set bytecost1 mtu {mtu}"))?;
            let sample = arrives(&mut lab, &cell(&[]))?;
            let read = sample.sender.readings.get(&Counter::TcpPathMtuBytes);
            ensure(read == Some(&Reading::Measured(mtu)), || {
                format!("{read:?}")
            })?;
        }
        Ok(())
    })?;
    way.program.are_gone()
}

fn over_ipv6() -> Result<(), Failed> {
    let Some(two) = Two::new()? else {
        return Ok(());
    };
    two.ip(
        Role::Sender,
        "address add fd00:0:0:9::1/64 dev bytecost0 nodad",
    )?;
    two.ip(
        Role::Receiver,
        "address add fd00:0:0:9::2/64 dev bytecost1 nodad",
    )?;
    for side in [PeerSide::Receiver, PeerSide::Sender] {
        let way = Way {
            address: Some("fd00:0:0:9::2"),
            ..two.way(side, false)
        };
        two.here(|| {
            let mut lab = way.lab(settings())?;
            arrives(&mut lab, &cell(&[]))?;
            let mut served = SERVED.iter();
            served.try_for_each(|(_, values)| is_answered(&mut lab, values))
        })?;
        way.program.are_gone()?;
    }
    Ok(())
}

/// The channel does not go by the link; the trial in flight is lost at most.
fn link_down() -> Result<(), Failed> {
    let Some(two) = Two::new()? else {
        return Ok(());
    };
    let way = two.way(PeerSide::Receiver, false);
    let long = Settings {
        window: Duration::from_secs(1),
        ..settings()
    };
    two.here(|| {
        let mut lab = way.lab(long)?;
        let (done, first) = meanwhile(
            |_| -> Result<(), Failed> {
                way.program.process("endpoint")?;
                two.ip(Role::Sender, "link set bytecost0 down")?;
                std::thread::sleep(Duration::from_secs(2));
                two.ip(Role::Sender, "link set bytecost0 up")
            },
            || trial(&mut lab, &cell(&[])),
        );
        done?;
        println!("the trial in flight: {:?}", first.err().map(|f| f.reason));
        for _ in 0..3 {
            arrives(&mut lab, &cell(&[]))?;
        }
        Ok(())
    })?;
    way.program.are_gone()
}
