//! The ports of the components.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use crate::credentials::random;
use crate::{Component, Error};

/// The range of automatically chosen ports: above the well-known ones and below the ephemeral ones,
/// which an outgoing connection may take before the component starts.
const CHOICE: std::ops::Range<u16> = 20_000..32_000;

/// Enough attempts to find four free ports if there are any.
const TRIES: usize = 1_000;

/// How often a port must appear taken before it counts as taken. A process started by another
/// thread holds copies of this process's sockets until it executes its own program, so a port that
/// was just released may still be in use.
const CHECKS: usize = 100;
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);

/// One port for each component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    etcd: u16,
    api_server: u16,
    controller_manager: u16,
    scheduler: u16,
}

impl Ports {
    pub(crate) fn of(self, component: Component) -> u16 {
        match component {
            Component::Etcd => self.etcd,
            Component::ApiServer => self.api_server,
            Component::ControllerManager => self.controller_manager,
            Component::Scheduler => self.scheduler,
        }
    }

    /// Four consecutive ports. The API server has the first, because people type that one.
    pub(crate) fn from_base(base: u16) -> Result<Self, Error> {
        let port = |offset| base.checked_add(offset).ok_or(Error::PortBase { base });
        let ports = Self {
            api_server: base,
            etcd: port(1)?,
            controller_manager: port(2)?,
            scheduler: port(3)?,
        };
        if base == 0 { Err(Error::PortBase { base }) } else { Ok(ports) }
    }

    /// Four ports that are free now.
    pub(crate) fn choose() -> Result<Self, Error> {
        // Hold each until all four are found, so that they differ.
        let mut held = Vec::new();
        let mut failure = None;
        for _ in 0..TRIES {
            let number = u16::from_le_bytes(random()?);
            let port = CHOICE.start + number % (CHOICE.end - CHOICE.start);
            match listen(port) {
                Ok(listener) => held.push((port, listener)),
                Err(error) => failure = Some((port, error)),
            }
            if let [(etcd, _), (api_server, _), (controller_manager, _), (scheduler, _)] = held[..]
            {
                return Ok(Self { etcd, api_server, controller_manager, scheduler });
            }
        }
        let (port, source) =
            failure.unwrap_or_else(|| (CHOICE.start, io::ErrorKind::AddrInUse.into()));
        Err(Error::Port { port, source })
    }

    /// Whether all of them are free.
    pub(crate) fn check_free(self) -> Result<(), Error> {
        for component in Component::ALL {
            let port = self.of(component);
            for check in 1.. {
                match listen(port) {
                    Ok(_) => break,
                    Err(source) if check >= CHECKS => return Err(Error::Port { port, source }),
                    Err(_) => thread::sleep(BETWEEN_CHECKS),
                }
            }
        }
        Ok(())
    }

    /// The format in the folder.
    pub(crate) fn to_text(self) -> String {
        Component::ALL.map(|it| format!("{it} {}\n", self.of(it))).concat()
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let of = |component: Component| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(name, _)| *name == component.name())?.1.parse().ok()
        };
        Some(Self {
            etcd: of(Component::Etcd)?,
            api_server: of(Component::ApiServer)?,
            controller_manager: of(Component::ControllerManager)?,
            scheduler: of(Component::Scheduler)?,
        })
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_gives_four_consecutive_ports() {
        let ports = Ports::from_base(21_000).expect("four ports");
        assert_eq!(Component::ALL.map(|it| ports.of(it)), [21_001, 21_000, 21_002, 21_003]);
        for base in [0, u16::MAX - 2] {
            assert!(matches!(Ports::from_base(base), Err(Error::PortBase { .. })), "{base}");
        }
        Ports::from_base(u16::MAX - 3).expect("the last four");
    }

    #[test]
    fn chosen_ports_are_free_and_kept_as_text() {
        let ports = Ports::choose().expect("four ports");
        ports.check_free().expect("free");
        assert_eq!(Ports::from_text(&ports.to_text()), Some(ports));
        assert_eq!(Ports::from_text("etcd 1\n"), None);
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("its address").port();
        let ports = Ports { scheduler: port, ..Ports::choose().expect("four ports") };
        let error = ports.check_free().expect_err("taken");
        assert!(matches!(error, Error::Port { port: named, .. } if named == port), "{error}");
    }

    #[test]
    fn a_port_that_was_just_released_is_free() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = held.local_addr().expect("its address").port();
        let ports = Ports { scheduler: port, ..Ports::choose().expect("four ports") };
        let holder = thread::spawn(move || {
            thread::sleep(10 * BETWEEN_CHECKS);
            drop(held);
        });
        ports.check_free().expect("free again");
        holder.join().expect("the holder");
    }
}
