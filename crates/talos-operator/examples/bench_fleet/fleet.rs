//! The clusters of a size, in processes of their own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use tokio::sync::mpsc;
use upgrade_controller::rlimit;

use crate::host::processor;
use crate::serve::ServedCluster;

/// How many clusters share a process, if it may have enough files.
const TOGETHER: usize = 200;

/// The files of a cluster: fifteen sockets, and what the operator connects to.
const FILES: u64 = 30;

/// Processes full of clusters. They end when this is dropped, and with this
/// process, however that ends: their stdin does.
pub(crate) struct Fleet(Vec<Child>);

impl Fleet {
    /// Starts them; the clusters come as they are ready.
    pub(crate) fn start(count: usize) -> (Self, mpsc::UnboundedReceiver<ServedCluster>) {
        let program = std::env::current_exe().expect("this program");
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut fleet = Self(Vec::new());
        let fit = rlimit::raise_nofile_limit().and_then(|most| usize::try_from(most / FILES).ok());
        let together = fit.map_or(TOGETHER, |fit| fit.clamp(1, TOGETHER));
        for first in (0..count).step_by(together) {
            let here = together.min(count - first);
            let mut child = Command::new(&program)
                .arg("serve")
                .args(["--first", &first.to_string(), "--count", &here.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program runs");
            let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            fleet.0.push(child);
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    let cluster = serde_json::from_str(&line).expect("a cluster");
                    if sender.send(cluster).is_err() {
                        break;
                    }
                }
            });
        }
        (fleet, receiver)
    }

    /// Processor time that all clusters together have used, in seconds.
    pub(crate) fn processor(&self) -> f64 {
        self.0.iter().map(|child| processor(child.id())).sum()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
