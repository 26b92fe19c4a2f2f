//! Controlling a running cluster: faults, and the speed of time.
//!
//! The simulator listens on a loopback port and stores the port and a password in its folder,
//! readable by their owner. One line of JSON is a request, one line the reply.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::driver::{Driver, Inside};
use crate::model::NodeIndex;
use crate::schedule::{self, FaultError, Planned};
use crate::server;
use crate::store::{self, StoreError};

/// The longest line that is read.
const MAX_LINE: u64 = 64 * 1024;

/// Every request here is quick.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The address and password of a running simulator.
#[derive(Clone, Serialize, Deserialize)]
pub struct Control {
    address: SocketAddr,
    password: String,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({})", self.address)
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Inject a fault.
    Inject {
        /// On this node, or on all.
        node: Option<String>,
        /// Such as `slow-pull=5`.
        fault: String,
        /// For this long (virtual time); until it is cleared if `None`.
        lasting: Option<Duration>,
    },
    /// End a fault.
    Clear {
        /// On this node, or on all.
        node: Option<String>,
        /// Its name.
        fault: String,
    },
    /// List the active faults.
    Faults,
    /// Change the speed of time.
    Speed(f64),
}

/// An active fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveFault {
    /// The node's name.
    pub node: String,
    /// Such as `slow-pull=5`.
    pub fault: String,
}

/// The reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlReply {
    /// Done; these faults are active now.
    Faults(Vec<ActiveFault>),
    /// Refused, with the reason.
    Refused(String),
}

/// Why the request to a running simulator failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The folder holds none.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing listens on the port any more.
    #[error("no simulator is running for this folder")]
    Gone(#[source] std::io::Error),
    /// The answer is not the expected JSON.
    #[error("the simulator of this folder gave an unexpected answer; is it another version?")]
    Strange,
    /// It refused the request.
    #[error("{0}")]
    Refused(String),
}

#[derive(Serialize, Deserialize)]
struct Line {
    password: String,
    ask: Ask,
}

/// Sends a request to the simulator that runs in a folder.
pub async fn ask(folder: &Path, ask: Ask) -> Result<Vec<ActiveFault>, ControlError> {
    let control: Control = store::read_control(folder)?;
    let line = Line { password: control.password, ask };
    let exchange = async {
        let mut stream = TcpStream::connect(control.address).await?;
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        stream.write_all(&text).await?;
        let mut answer = String::new();
        BufReader::new(stream.take(MAX_LINE)).read_line(&mut answer).await?;
        Ok(answer)
    };
    let answer = tokio::time::timeout(TIMEOUT, exchange)
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
        .map_err(ControlError::Gone)?;
    match serde_json::from_str(&answer) {
        Ok(ControlReply::Faults(faults)) => Ok(faults),
        Ok(ControlReply::Refused(why)) => Err(ControlError::Refused(why)),
        Err(_) => Err(ControlError::Strange),
    }
}

/// Opens the control port: its address and password, and the socket for [`serve`].
pub fn open() -> std::io::Result<(Control, TcpListener)> {
    let listener = server::listen((Ipv4Addr::LOCALHOST, 0).into())?;
    let mut random = [0; 32];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut random)
        .map_err(|_| std::io::Error::other("the system has no random numbers"))?;
    let control = Control {
        address: listener.local_addr()?,
        password: crate::talosconfig::encode_bytes(&random),
    };
    Ok((control, listener))
}

/// Serves until the task is aborted.
pub async fn serve(listener: TcpListener, control: Control, driver: Driver) {
    while let Ok((stream, _)) = listener.accept().await {
        let (control, driver) = (control.clone(), driver.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(TIMEOUT, answer(stream, &control, &driver)).await;
        });
    }
}

async fn answer(stream: TcpStream, control: &Control, driver: &Driver) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut text = String::new();
    BufReader::new(reader.take(MAX_LINE)).read_line(&mut text).await?;
    let reply = match serde_json::from_str::<Line>(&text) {
        Ok(line) if line.password == control.password => driver
            .visit(move |inside| execute(inside, &line.ask))
            .await
            .unwrap_or_else(|| ControlReply::Refused("the simulator is stopping".to_owned())),
        _ => ControlReply::Refused("the request is malformed or its password is wrong".to_owned()),
    };
    let mut text = serde_json::to_vec(&reply)?;
    text.push(b'\n');
    writer.write_all(&text).await
}

/// Carries out a request.
pub fn execute(inside: &mut Inside, ask: &Ask) -> ControlReply {
    match try_obey(inside, ask) {
        Ok(()) => ControlReply::Faults(active(inside)),
        Err(error) => ControlReply::Refused(error.to_string()),
    }
}

fn try_obey(inside: &mut Inside, ask: &Ask) -> Result<(), FaultError> {
    let Inside { world, clock, schedule, .. } = inside;
    let now = clock.now();
    match ask {
        Ask::Inject { node, fault, lasting } => {
            let planned = Planned {
                node: node.clone(),
                fault: schedule::parse_fault(fault)?,
                after: None,
                on: None,
                lasting: *lasting,
            };
            schedule.add(world, now, &planned)?;
            schedule.advance(world, now);
        }
        Ask::Clear { node, fault } => {
            let kind = schedule::parse_kind(fault)?;
            let node = match node {
                None => None,
                Some(name) => {
                    let found = world.find(name);
                    Some(found.ok_or_else(|| FaultError::Node(name.clone()))?)
                }
            };
            schedule.forget(node, kind);
            world.clear(now, node, kind);
        }
        Ask::Faults => {}
        Ask::Speed(speed) => clock.set_speed(*speed),
    }
    Ok(())
}

fn active(inside: &Inside) -> Vec<ActiveFault> {
    let world = &inside.world;
    let name = |NodeIndex(index): NodeIndex| match world.spec().nodes.get(index) {
        Some(node) => node.hostname.clone(),
        None => String::new(),
    };
    world
        .faults()
        .iter()
        .map(|(node, fault)| ActiveFault { node: name(*node), fault: schedule::fault_text(fault) })
        .collect()
}
