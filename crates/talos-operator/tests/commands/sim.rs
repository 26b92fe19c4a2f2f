//! `sim` as a user runs it: started, reached from another terminal, stopped by
//! a signal.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn sim(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talos-operator"));
    command.arg("sim").args(arguments.split_whitespace()).arg("--dir").arg("cluster");
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &str) -> Output {
    sim(folder, arguments).output().expect("the binary runs")
}

/// Starts a simulator and waits until it says what to try.
fn start(folder: &Path, arguments: &str) -> (Child, String) {
    let mut child = sim(folder, arguments).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    let mut text = String::new();
    for line in lines.map_while(Result::ok) {
        text += &line;
        text.push('\n');
        if line.starts_with("Ctrl-C stops it") {
            break;
        }
    }
    (child, text)
}

fn stop(mut child: Child) {
    let id = child.id().to_string();
    let signalled = Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
    assert!(signalled.success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let mut rest = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "", "nothing more on stdout");
}

#[test]
fn an_unusable_real_api_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path();
    let refused = |flags: &str, code: i32, wanted: &[&str]| {
        let output = run(temporary, flags);
        assert_eq!(output.status.code(), Some(code), "{flags}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for wanted in wanted {
            assert!(said.contains(wanted), "{flags}: no `{wanted}` in {said}");
        }
        assert!(!temporary.join("cluster").exists(), "nothing is left");
    };
    let alone = ["--kubernetes-token-file <FILE>", "--kubernetes-ca-file <FILE>"];
    refused("--kubernetes-api https://127.0.0.1:1", 2, &alone);
    let files = "--kubernetes-token-file token --kubernetes-ca-file ca";
    let missing = ["cannot read the token from", "name readable files"];
    refused(&format!("--kubernetes-api https://127.0.0.1:1 {files}"), 1, &missing);
    std::fs::write(temporary.join("token"), "s3cret").expect("written");
    std::fs::write(temporary.join("ca"), "no certificate").expect("written");
    refused(
        &format!("--kubernetes-api https://127.0.0.1:1 {files}"),
        1,
        &["no certificate in PEM"],
    );
    let plain = ["`http://127.0.0.1:1` is not the address", "https://127.0.0.1:6443"];
    refused(&format!("--kubernetes-api http://127.0.0.1:1 {files}"), 1, &plain);
}

#[test]
fn a_cluster_is_started_reached_and_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path();
    let flags = "--control-planes 1 --workers 1 --talos 1.13.9 --kubernetes 1.34.2 --speed 50";
    let (child, text) = start(temporary, flags);
    assert!(text.contains("cp-1      127."), "{text}");
    assert!(text.contains("export TALOSCONFIG="), "{text}");
    let config = std::fs::read_to_string(temporary.join("cluster/talosconfig"));
    assert!(config.expect("a talosconfig").starts_with("context: sim\n"));

    let output = run(temporary, "fault worker-1 slow-pull=4 --for 1h");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "worker-1     slow-pull=4\n");
    let output = run(temporary, "fault nobody boot-back");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no node `nobody`"));
    let output = run(temporary, "talosconfig --role os:reader --out reader");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(temporary.join("reader").exists());
    let output = run(temporary, "");
    assert_eq!(output.status.code(), Some(1), "served already");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is in use"), "{output:?}");
    stop(child);

    // Again, with nothing but the folder; and not as another cluster.
    let output = run(temporary, "--workers 3");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("workers 1, not 3"), "{output:?}");
    let (child, again) = start(temporary, "--speed 50");
    assert_eq!(again, text);
    let output = run(temporary, "fault all slow-pull --clear");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "no active faults\n");
    stop(child);
}
