//! A process of the operator.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::{PATIENCE, Tenant};

/// The shipped Deployment.
const DEPLOYMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/40-operator.yaml");

pub(crate) struct Replica {
    pub(crate) name: String,
    child: Child,
    log: PathBuf,
}

impl Replica {
    /// Starts it with the arguments of the shipped Deployment, but with other paths and
    /// ports, the kubeconfig of the service account, shorter intervals, and for the
    /// namespace of this test only.
    pub(crate) fn start(tenant: &Tenant, name: &str) -> Self {
        let snapshots = tenant.file("snapshots");
        let mut command = Self::command();
        for argument in shipped() {
            let argument = match argument.split_once('=') {
                Some(("--listen", _)) => "--listen=127.0.0.1:0".to_owned(),
                Some(("--snapshots", _)) => format!("--snapshots={}", snapshots.display()),
                _ => argument,
            };
            command.arg(argument);
        }
        command
            .args(["--look-every=5s", "--lease-duration=4s", "--kubeconfig"])
            .arg(tenant.account())
            .args(["--watch-namespace", &tenant.namespace])
            .env("POD_NAME", name)
            .env("POD_NAMESPACE", &tenant.namespace);
        Self::spawn(tenant, name, command)
    }

    /// The built binary, with nothing in its environment that says where a hub is.
    pub(crate) fn command() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talos-operator"));
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "POD_NAME", "POD_NAMESPACE"] {
            command.env_remove(variable);
        }
        command
    }

    /// Starts this command in the folder of the test.
    pub(crate) fn spawn(tenant: &Tenant, name: &str, mut command: Command) -> Self {
        let log = tenant.file(&format!("{name}.log"));
        let child = command
            .current_dir(tenant.file("."))
            .env("HOME", tenant.file("."))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("the binary runs");
        Self { name: name.to_owned(), child, log }
    }

    /// The answer to an HTTP request, empty if there is none.
    pub(crate) fn ask(&self, path: &str) -> String {
        self.try_ask(path).unwrap_or_default()
    }

    /// Where it listens: the system chose the port, and the log says which.
    fn address(&self) -> Option<SocketAddr> {
        let log = std::fs::read_to_string(&self.log).ok()?;
        let field = |line: &&str| line.contains("listen=") || line.contains("\"listen\":");
        let (_, rest) = log.lines().find(field)?.split_once("127.0.0.1:")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        format!("127.0.0.1:{digits}").parse().ok()
    }

    fn try_ask(&self, path: &str) -> std::io::Result<String> {
        let address = self.address().ok_or(std::io::ErrorKind::NotConnected)?;
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// Waits until a line of its log has these words.
    pub(crate) async fn logs(&self, words: &str) {
        eventually(words, || self.log().contains(words).then_some(())).await;
    }

    /// Waits until it says that it is not ready, with these words. All that it says.
    pub(crate) async fn is_not_ready(&self, words: &str) -> String {
        let what = format!("{}: not ready: {words}", self.name);
        eventually(&what, || {
            let answer = self.ask("/readyz");
            (answer.starts_with("HTTP/1.1 503") && answer.contains(words)).then_some(answer)
        })
        .await
    }

    /// Waits until it is alive and ready.
    pub(crate) async fn is_ready(&self) {
        for path in ["/healthz", "/readyz"] {
            eventually(&format!("{} {path}", self.name), || {
                self.ask(path).starts_with("HTTP/1.1 200").then_some(())
            })
            .await;
        }
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Stops it with SIGTERM, as a pod is stopped. Its log comes back.
    pub(crate) async fn terminate(mut self) -> String {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        assert!(sent.success());
        let ended =
            eventually("the end of a replica", || self.child.try_wait().expect("it ran")).await;
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
    let text = std::fs::read_to_string(DEPLOYMENT).expect("a manifest");
    let first = text.split("\n---").next().expect("a document");
    let deployment: serde_json::Value = serde_saphyr::from_str(first).expect("YAML");
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments = arguments.as_array().expect("arguments");
    arguments.iter().map(|it| it.as_str().expect("text").to_owned()).collect()
}

/// Asks until there is an answer: there is nothing to watch for a process.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    asked.unwrap_or_else(|_| panic!("it never happened: {what}"))
}
