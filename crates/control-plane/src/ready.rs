//! Asking a component whether it is ready.
//!
//! etcd answers plain HTTP. The others speak TLS only, and kubectl asks them:
//! it is a real client, it is there anyway, and it keeps a TLS library out of
//! the programs that use this crate.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Component;
use crate::folder::Folder;
use crate::ports::Ports;

/// How long one question may take; whoever asks will ask again.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// More failing checks than this say nothing that fewer do not.
const CHECKS_SHOWN: usize = 3;

/// Whom to ask, and with what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) ports: Ports,
    pub(crate) kubectl: &'a Path,
}

impl Question<'_> {
    /// Whether a component is ready, or what it still lacks.
    pub(crate) fn ask(self, component: Component) -> Result<(), String> {
        let stream = self.connect(component)?;
        match component {
            Component::Etcd => ask_etcd(stream),
            Component::ApiServer => {
                drop(stream);
                // Whoever listens has its certificate.
                self.folder.write_kubeconfigs(self.ports).map_err(|error| error.to_string())?;
                self.kubectl(&["get", "--raw", "/readyz"])
            }
            Component::ControllerManager => {
                drop(stream);
                self.healthz(component)?;
                // It says ok before its controllers run. No pod can be made
                // before this one has done its first work.
                self.kubectl(&["get", "serviceaccount", "default", "--namespace", "default"])
            }
            Component::Scheduler => {
                drop(stream);
                self.healthz(component)
            }
        }
    }

    /// Cheaper than kubectl, for as long as nobody listens.
    fn connect(self, component: Component) -> Result<TcpStream, String> {
        let port = self.ports.of(component);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        TcpStream::connect_timeout(&address, ANSWER_LIMIT)
            .map_err(|error| format!("does not listen on port {port} ({error})"))
    }

    fn healthz(self, component: Component) -> Result<(), String> {
        let server = format!("--server={}", component.url(self.ports));
        let certificate = self.folder.certificate_of(component);
        let certificate = format!("--certificate-authority={}", certificate.display());
        self.kubectl(&["get", "--raw", "/healthz", &server, &certificate])
    }

    fn kubectl(self, arguments: &[&str]) -> Result<(), String> {
        let output = kubectl(self.kubectl, self.folder)
            .args(arguments)
            .arg(format!("--request-timeout={}s", ANSWER_LIMIT.as_secs()))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("kubectl does not start: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(reason(&String::from_utf8_lossy(&output.stderr)))
    }
}

/// kubectl as the user that may do everything, apart from the settings and
/// the cache of whoever runs it.
pub(crate) fn kubectl(program: &Path, folder: &Folder) -> Command {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(folder.kubeconfig());
    command.env("KUBECACHEDIR", folder.kubectl_cache()).env_remove("KUBECONFIG");
    command
}

fn ask_etcd(mut stream: TcpStream) -> Result<(), String> {
    let mut answer = String::new();
    stream
        .set_read_timeout(Some(ANSWER_LIMIT))
        .and_then(|()| stream.write_all(b"GET /health HTTP/1.0\r\n\r\n"))
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(|error| format!("does not answer ({error})"))?;
    if answer.contains("\"health\":\"true\"") {
        return Ok(());
    }
    Err(format!("says {}", answer.lines().last().unwrap_or("nothing")))
}

/// What kubectl's complaint says in a few words. An API server lists all its
/// checks, and marks those that fail with a minus.
fn reason(said: &str) -> String {
    let failing: Vec<&str> =
        said.split("[-]").skip(1).filter_map(|it| it.split(" failed").next()).collect();
    match failing.len() {
        0 => said.trim().lines().last().unwrap_or("kubectl fails without a word").to_owned(),
        count if count > CHECKS_SHOWN => {
            let shown = failing[..CHECKS_SHOWN].join(", ");
            format!("failing: {shown} and {} more", count - CHECKS_SHOWN)
        }
        _ => format!("failing: {}", failing.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short() {
        let said = r#"Error from server (InternalError): an error on the server ("[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed") has prevented the request from succeeding"#;
        assert_eq!(reason(said), "failing: etcd, poststarthook/rbac/bootstrap-roles");
        assert_eq!(reason(&"[-]a failed\n".repeat(5)), "failing: a, a, a and 2 more");
        assert_eq!(reason("Warning: one\nerror: EOF\n"), "error: EOF");
        assert_eq!(reason(""), "kubectl fails without a word");
    }
}
