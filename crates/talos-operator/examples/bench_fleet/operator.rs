//! The operator: the built binary as a process of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Measure;
use crate::host::{memory, now, processor};
use crate::hub::Hub;

/// Starts the operator, tells its process, and ends it when stdin ends: also
/// when this process is killed outright.
const SCRIPT: &str = r#"
log=$1; shift
"$@" </dev/null >/dev/null 2>"$log" &
echo $!
exec >&-
cat >/dev/null
kill -TERM $!
wait $!
"#;

pub(crate) struct Operator {
    shell: Child,
    pub(crate) pid: u32,
    address: SocketAddr,
    log: PathBuf,
}

impl Operator {
    /// Starts it with the shipped flags.
    pub(crate) fn start(measure: &Measure, hub: &Hub) -> Self {
        // An address of our own: no other process listens there, whatever the port.
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = SocketAddr::from((Ipv4Addr::new(127, 159, high, low), 8080));
        let log = hub.file("operator.log");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(&log)
            .arg(&measure.operator)
            .args(["operator", "--log=info", &format!("--listen={address}")])
            .arg(format!("--snapshots={}", hub.file("snapshots").display()))
            .arg(format!("--look-every={}s", measure.look_every))
            .arg("--kubeconfig")
            .arg(hub.account())
            .env("POD_NAME", "bench")
            .env("POD_NAMESPACE", "vitistack-system")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What ends us at a terminal is no business of its.
            .process_group(0)
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let read = BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut line);
        read.expect("a line");
        let pid = line.trim().parse().expect("a process");
        Self { shell, pid, address, log }
    }

    /// Its metrics; empty while it does not listen yet.
    pub(crate) fn metrics(&self) -> String {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))?;
            stream.set_read_timeout(Some(Duration::from_mins(1)))?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().unwrap_or_default()
    }

    /// A number that it tells; zero if it does not.
    pub(crate) fn number(&self, series: &str) -> usize {
        let text = self.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    /// Memory now and at most, in MiB.
    pub(crate) fn memory(&self) -> (f64, f64) {
        let (now, most) = memory(self.pid);
        assert!(now.is_finite(), "the operator is gone: {}", self.last_words());
        (now, most)
    }

    /// Processor time used so far, in seconds.
    pub(crate) fn processor(&self) -> f64 {
        let used = processor(self.pid);
        assert!(used.is_finite(), "the operator is gone: {}", self.last_words());
        used
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Asks it to end; how long that took, in seconds.
    pub(crate) fn end(mut self) -> f64 {
        let began = now();
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        began.elapsed().as_secs_f64()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
