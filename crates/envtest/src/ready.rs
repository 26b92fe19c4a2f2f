//! Readiness checks of components.
//!
//! etcd answers plain HTTP. The others speak only TLS, so kubectl queries them: it is a real
//! client, it is available anyway, and this crate needs no TLS library.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Component;
use crate::folder::Folder;
use crate::ports::Ports;

/// The time limit of one check; the caller repeats it.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// More failing checks add no information.
const CHECKS_SHOWN: usize = 3;

/// The parameters of a check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) ports: Ports,
    pub(crate) kubectl: &'a Path,
}

impl Question<'_> {
    /// Whether a component is ready, or what is missing.
    pub(crate) fn ask(self, component: Component) -> Result<(), String> {
        let stream = self.connect(component)?;
        match component {
            Component::Etcd => ask_etcd(stream),
            Component::ApiServer => {
                drop(stream);
                // A listening component has its certificate.
                self.folder.write_kubeconfigs(self.ports).map_err(|error| error.to_string())?;
                self.kubectl(&["get", "--raw", "/readyz"])
            }
            Component::ControllerManager => {
                drop(stream);
                self.healthz(component)?;
                // It reports ready before its controllers run. No pod can be created before this
                // controller has synced once.
                self.kubectl(&["get", "serviceaccount", "default", "--namespace", "default"])
            }
            Component::Scheduler => {
                drop(stream);
                self.healthz(component)
            }
        }
    }

    /// Cheaper than kubectl, as long as nothing listens.
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

/// kubectl as admin, isolated from the settings and the cache of the current user.
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

/// A short form of kubectl's error. An API server lists all its checks, and marks the failing ones
/// with a minus.
fn reason(said: &str) -> String {
    let failing: Vec<&str> =
        said.split("[-]").skip(1).filter_map(|it| it.split(" failed").next()).collect();
    match failing.len() {
        0 => said.trim().lines().last().unwrap_or("kubectl fails without a message").to_owned(),
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
        assert_eq!(reason(""), "kubectl fails without a message");
    }
}
