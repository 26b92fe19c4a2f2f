//! A process of the operator.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::hub::{DEPLOY, Hub, eventually};

pub(crate) struct Replica {
    pub(crate) name: String,
    child: Child,
    log: PathBuf,
}

impl Replica {
    /// Starts it with the arguments of the shipped Deployment, other places, the
    /// kubeconfig that stands for the pod's account, and less patience.
    pub(crate) fn start(hub: &Hub, name: &str) -> Self {
        let log = hub.file(&format!("{name}.log"));
        let snapshots = hub.file("snapshots");
        let mut command = Command::new(env!("CARGO_BIN_EXE_talos-operator"));
        for argument in shipped() {
            let argument = match argument.split_once('=') {
                Some(("--listen", _)) => "--listen=127.0.0.1:0".to_owned(),
                Some(("--snapshots", _)) => format!("--snapshots={}", snapshots.display()),
                _ => argument,
            };
            command.arg(argument);
        }
        let child = command
            .args(["--look-every=5s", "--lease-duration=4s", "--kubeconfig"])
            .arg(hub.file("account"))
            .env("POD_NAME", name)
            .env("POD_NAMESPACE", "vitistack-system")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("the binary runs");
        Self { name: name.to_owned(), child, log }
    }

    /// What it answers to a question.
    pub(crate) fn ask(&self, path: &str) -> String {
        self.try_ask(path).unwrap_or_default()
    }

    /// Where it listens: the system picked the port, and the log says which.
    fn address(&self) -> Option<SocketAddr> {
        let log = std::fs::read_to_string(&self.log).ok()?;
        let line = log.lines().find(|line| line.contains("health and metrics are told"))?;
        let (_, rest) = line.split_once("address=")?;
        rest.split_whitespace().next()?.parse().ok()
    }

    fn try_ask(&self, path: &str) -> std::io::Result<String> {
        let address = self.address().ok_or(std::io::ErrorKind::NotConnected)?;
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Waits until it is alive and ready.
    pub(crate) fn is_ready(&self) {
        for path in ["/healthz", "/readyz"] {
            eventually(&format!("{} {path}", self.name), || {
                self.ask(path).starts_with("HTTP/1.1 200").then_some(())
            });
        }
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Asks it to end, as a pod's end does. What it logged comes back.
    pub(crate) fn terminate(mut self) -> String {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        assert!(told.success());
        let ended = eventually("the end of a replica", || self.child.try_wait().expect("it ran"));
        assert!(ended.success(), "{ended}");
        std::fs::read_to_string(&self.log).expect("a log")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments of the shipped Deployment.
fn shipped() -> Vec<String> {
    let text = std::fs::read_to_string(format!("{DEPLOY}/40-operator.yaml")).expect("a manifest");
    let first = text.split("\n---").next().expect("a document");
    let deployment: serde_json::Value = serde_saphyr::from_str(first).expect("YAML");
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments = arguments.as_array().expect("arguments");
    arguments.iter().map(|it| it.as_str().expect("text").to_owned()).collect()
}
