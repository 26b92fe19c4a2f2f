//! `cargo xtask bench binary`: the size of the shipped binary, its dependencies on the system, and
//! the operator's time to readiness.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use envtest::{ControlPlane, Options};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{elf, program};
use crate::cargo::{cargo, target_folder};
use crate::tools::host;
use crate::{cluster, hub};

/// The limits: size in bytes, and time until it is ready.
const LARGEST: f64 = 25e6;
const SOONEST: Duration = Duration::from_secs(1);

/// How long a start may take before it counts as failed.
const PATIENCE: Duration = Duration::from_mins(2);

/// Starts a program, prints its process ID, and ends it when stdin ends, also when this process is
/// killed.
const SCRIPT: &str = r#"
log=$1; shift
"$@" </dev/null >/dev/null 2>"$log" &
echo $!
exec >&-
cat >/dev/null
kill -TERM $!
wait $!
"#;

/// How often it is started.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often the operator is started
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    starts: u16,
}

impl Args {
    /// A few starts.
    pub(crate) fn quick() -> Self {
        Self { starts: 3 }
    }
}

/// Builds, inspects and measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let binary = build(&target)?;
    let bytes = fs::read(&binary).with_context(|| binary.display().to_string())?;
    let needs = elf::needs(&bytes).with_context(|| binary.display().to_string())?;
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt))
            .context("listening for Ctrl-C")?;
    }
    let mut took = starts(&binary, args.starts, &interrupt)?;
    took.sort();
    let (Some(slowest), Some(median)) = (took.last(), took.get(took.len() / 2)) else {
        bail!("the operator was never started");
    };
    let size = megabytes(bytes.len());
    let static_word = if needs.nothing() { "yes" } else { "no" };
    let rows = [
        ["size".to_owned(), format!("{size:.1} MB"), format!("{:.2}", size * 1e6 / LARGEST)],
        ["static".to_owned(), static_word.to_owned(), needs.to_string()],
        share("ready, median", *median),
        share("ready, slowest", *slowest),
    ];
    host::note(&format!("commit {}, {target}, {} starts", program::commit(), took.len()));
    host::print_table(["WHAT", "FOUND", "OF WHAT IS ALLOWED"], &rows);
    if !needs.nothing() {
        bail!("the binary is not static: it {needs}");
    }
    if size * 1e6 > LARGEST {
        bail!("the binary is larger than {:.0} MB", LARGEST / 1e6);
    }
    if *slowest > SOONEST {
        bail!("the operator was not ready within {SOONEST:?} of its start");
    }
    Ok(())
}

fn share(name: &str, took: Duration) -> [String; 3] {
    let share = took.as_secs_f64() / SOONEST.as_secs_f64();
    [name.to_owned(), format!("{:.0} ms", took.as_secs_f64() * 1000.0), format!("{share:.2}")]
}

#[expect(clippy::cast_precision_loss, reason = "a few million bytes")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// Installs the standard library of a target.
fn add_target(target: &str) -> Result<()> {
    host::note(&format!("installing the Rust standard library for {target}"));
    let added = Command::new("rustup").args(["target", "add", target]).status();
    if !added.is_ok_and(|status| status.success()) {
        bail!("the Rust standard library for {target} is missing: `rustup target add {target}`");
    }
    Ok(())
}

/// Builds the binary, statically linked.
fn build(target: &str) -> Result<PathBuf> {
    let print = ["--print", "target-libdir", "--target", target];
    let folder = Command::new("rustc").args(print).output().context("cannot start rustc")?;
    let folder = String::from_utf8_lossy(&folder.stdout).trim().to_owned();
    if !Path::new(&folder).is_dir() {
        add_target(target)?;
    }
    let mut cargo = cargo();
    cargo.args(["build", "--profile", "dist", "--locked", "--target", target]);
    cargo.args(["--package", "talos-operator", "--bin", "talos-operator"]);
    // The one library in C needs a compiler but no C library, so the system's compiler works where
    // musl's is missing.
    let musl = Command::new("musl-gcc").arg("--version").output();
    if musl.is_err() {
        cargo.env(format!("CC_{}", target.replace('-', "_")), "cc");
    }
    let built = cargo.status().context("cannot start cargo")?;
    if !built.success() {
        bail!("cannot build the binary for {target}");
    }
    Ok(target_folder()?.join(target).join("dist/talos-operator"))
}

/// The duration of each of `count` starts, on their own hub.
fn starts(binary: &Path, count: u16, interrupt: &Arc<AtomicBool>) -> Result<Vec<Duration>> {
    let folder = target_folder()?.join("bench-binary");
    // Left over from an interrupted run.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut options = Options::new(folder.join("hub"), cluster::find_tools()?);
    options.interrupt = Some(Arc::clone(interrupt));
    host::note("starting a hub");
    let plane = ControlPlane::start(options)?;
    let account = install_manifests(&plane, &folder)?;
    let mut took = Vec::new();
    for number in 1..=count {
        let start = Start { binary, account: &account, folder: &folder, interrupt };
        let lasted = start.until_ready()?;
        host::note(&format!("start {number} of {count}: ready after {lasted:.0?}"));
        took.push(lasted);
    }
    plane.stop()?;
    let _ = fs::remove_dir_all(&folder);
    Ok(took)
}

/// Installs all shipped manifests except the pods; returns the kubeconfig of the shipped account.
fn install_manifests(plane: &ControlPlane, folder: &Path) -> Result<PathBuf> {
    let kubectl = |arguments: &[&str]| -> Result<String> {
        let output = plane.kubectl().args(arguments).stdin(Stdio::null()).output();
        let output = output.context("cannot start kubectl")?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {}", arguments.join(" "), stderr.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    plane.install(&hub::manifests())?;
    let token = ["create", "token", "talos-operator", "-n", "vitistack-system"];
    let token = kubectl(&token)?;
    let kubeconfig = plane.kubeconfig()?.replace(&plane.token()?, &token);
    let account = folder.join("account");
    fs::write(&account, kubeconfig).with_context(|| account.display().to_string())?;
    Ok(account)
}

/// One start of the operator.
struct Start<'a> {
    binary: &'a Path,
    account: &'a Path,
    folder: &'a Path,
    interrupt: &'a AtomicBool,
}

impl Start<'_> {
    /// The time from the start of the process until it reports ready.
    fn until_ready(&self) -> Result<Duration> {
        // An address derived from our process ID: nothing else listens there, on any port.
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = SocketAddr::from((Ipv4Addr::new(127, 158, high, low), 8080));
        let log = self.folder.join("operator.log");
        let began = host::now();
        let running = Running::start(self, address, &log)?;
        while !is_ready(address) {
            let lasted = began.elapsed();
            if self.interrupt.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if lasted > PATIENCE || !running.lives() {
                let log = fs::read_to_string(&log).unwrap_or_default();
                bail!("the operator was not ready after {lasted:.1?}:\n{log}");
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(began.elapsed())
    }
}

/// The running operator; dropping it ends it, and waits for that.
struct Running {
    shell: Child,
    pid: String,
}

impl Running {
    fn start(start: &Start<'_>, address: SocketAddr, log: &Path) -> Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(log)
            .arg(start.binary)
            .args(["operator", "--log=info", &format!("--listen={address}")])
            .arg(format!("--snapshots={}", start.folder.join("snapshots").display()))
            .arg("--kubeconfig")
            .arg(start.account)
            .env("POD_NAME", "bench")
            .env("POD_NAMESPACE", "vitistack-system")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at the terminal must not reach it: we end it ourselves.
            .process_group(0)
            .spawn()
            .context("cannot start a shell")?;
        let stdout = shell.stdout.take();
        let mut running = Self { shell, pid: String::new() };
        let mut line = String::new();
        BufReader::new(stdout.context("a pipe")?).read_line(&mut line).context("a process")?;
        line.trim().clone_into(&mut running.pid);
        Ok(running)
    }

    fn lives(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // A process that ended but was not waited for is still listed, as a zombie.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
