//! The real kubectl, on a hub of this test.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

/// The folder with the manifests.
pub(crate) const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// The namespace of the operator.
pub(crate) const NAMESPACE: &str = "vitistack-system";

/// A cluster as the platform writes one.
pub(crate) const CLUSTER: &str = include_str!("cluster.yaml");

pub(crate) struct Hub(testkit::Hub);

impl Hub {
    /// Starts a hub without any of the shipped manifests.
    pub(crate) async fn start() -> Self {
        Self(testkit::Hub::empty().await)
    }

    /// Exit code, stdout and stderr of a kubectl that reads `input`.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut kubectl = self
            .0
            .kubectl()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut stdin = kubectl.stdin.take().expect("a pipe");
        // A kubectl that reads nothing may have ended already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = kubectl.wait_with_output().expect("kubectl ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
    }

    /// stdout of a kubectl that must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.feed(arguments, "")
    }

    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> String {
        let (code, out, stderr) = self.run(arguments, input);
        assert_eq!(code, 0, "kubectl {}: {stderr}", arguments.join(" "));
        out
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.kubectl(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).expect("JSON")
    }
}
