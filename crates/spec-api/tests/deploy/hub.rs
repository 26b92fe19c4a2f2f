//! The real kubectl, on a hub of this test.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

pub(crate) struct Hub(testkit::Hub);

impl Hub {
    /// Starts a hub without any definitions.
    pub(crate) async fn start() -> Self {
        Self(testkit::Hub::empty().await)
    }

    /// Exit code, stdout and stderr of a kubectl that reads `input`.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut kubectl = self.0.kubectl();
        kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kubectl = kubectl.spawn().expect("kubectl starts");
        let mut stdin = kubectl.stdin.take().expect("a pipe");
        // A kubectl that reads nothing may have ended already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = kubectl.wait_with_output().expect("kubectl ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
    }

    /// stdout of a kubectl that must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let (code, out, told) = self.run(arguments, input);
        assert_eq!(code, 0, "kubectl {}: {told}", arguments.join(" "));
        out
    }

    /// The complaint of a kubectl that must fail.
    pub(crate) fn refused(&self, arguments: &[&str], input: &str) -> String {
        let (code, out, told) = self.run(arguments, input);
        assert_ne!(code, 0, "kubectl {} {input}: {out}", arguments.join(" "));
        told
    }

    /// The object that a kubectl prints.
    pub(crate) fn json(&self, arguments: &[&str], input: &str) -> Value {
        let text = self.kubectl(&[arguments, &["-o", "json"]].concat(), input);
        serde_json::from_str(&text).expect("JSON")
    }

    /// Changes a field of the spec, and says what kubectl says to it.
    pub(crate) fn patch(&self, object: &str, spec: &Value) -> (i32, String) {
        let patch = serde_json::json!({"spec": spec}).to_string();
        let (code, _, told) = self.run(&["patch", object, "--type=merge", "-p", &patch], "");
        (code, told)
    }
}
