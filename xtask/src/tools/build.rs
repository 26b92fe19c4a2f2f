//! Building one tool into the cache.
//!
//! The binary is built in a temporary folder and renamed, so an existing folder is complete. A lock
//! keeps a second process from building the same tool; it gets the first one's result instead.

use std::fs::{self, File, TryLockError};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use semver::Version;

use super::catalog::{COMPILER_FLAGS, Tool};
use super::folder::{Folder, parse_go_version};
use super::{edit, host, variable, version};

/// The slowest tool takes seven minutes on two cores from nothing. An hour
/// allows for a machine eight times slower; beyond it a download hangs.
const BUILD_LIMIT: Duration = Duration::from_hours(1);

/// How often a redrawn progress line is updated.
const REDRAW: Duration = Duration::from_secs(1);

/// How often a progress line is printed where redrawing is not possible, as in CI logs.
const REPEAT: Duration = Duration::from_secs(30);

/// The errors are at the end of Go's output; more than this would scroll away.
const ERROR_LINES: usize = 30;

/// One build to do.
pub(crate) struct Job<'a> {
    pub(crate) tool: &'static Tool,
    pub(crate) folder: &'a Folder,
    pub(crate) wanted: Version,
    /// The tool's folder in the cache.
    pub(crate) entry: PathBuf,
    /// This is build number `position` of `total`.
    pub(crate) position: usize,
    pub(crate) total: usize,
    /// Whether progress is a single line that is redrawn.
    pub(crate) redrawn: bool,
}

/// Builds the tool and returns its path in the cache.
pub(crate) fn build(job: &Job<'_>) -> Result<PathBuf> {
    let Job { tool, folder, wanted, entry, .. } = job;
    let binary = entry.join(tool.binary);
    let cache = entry.parent().context("the cache entry has no parent folder")?;
    fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;

    let _lock = lock(&beside(entry, "lock"), &job.title())?;
    if binary.is_file() {
        host::note(&format!("{}: built by another process", job.title()));
        return Ok(binary);
    }
    check_go(tool, folder)?;

    // The lock makes both ours: left over from a build that was killed, or from a user who deleted
    // only the binary.
    let partial = beside(entry, "partial");
    for leftover in [&partial, entry] {
        if leftover.exists() {
            fs::remove_dir_all(leftover)
                .with_context(|| format!("removing {}", leftover.display()))?;
        }
    }
    fs::create_dir(&partial).with_context(|| format!("creating {}", partial.display()))?;

    let unproven = partial.join(tool.binary);
    let source = edit::prepare(tool, folder, wanted, &partial)?;
    compile(job, source.as_deref(), &unproven)?;
    prove(job, &unproven)?;
    if source.is_some() {
        edit::discard(&partial)?;
    }
    fs::rename(&partial, entry).with_context(|| format!("moving {} into place", tool.name))?;
    Ok(binary)
}

/// Checks that the built program has the version that `go.mod` pins.
fn prove(job: &Job<'_>, unproven: &Path) -> Result<()> {
    let Job { tool, wanted, .. } = job;
    if tool.module.is_empty() {
        return Ok(());
    }
    if tool.version_arguments.is_empty() {
        return version::built_in(unproven, tool.module, wanted)
            .with_context(|| format!("{}: the built program", tool.name));
    }
    let found = version::probe(unproven, tool.version_arguments)
        .map_err(|problem| anyhow::anyhow!("{}: the built program {problem}", tool.name))?;
    if found != *wanted {
        bail!("{}: the built program reports {found}, but go.mod pins {wanted}", tool.name);
    }
    Ok(())
}

impl Job<'_> {
    fn title(&self) -> String {
        let Self { tool, wanted, position, total, .. } = self;
        format!("[{position}/{total}] {} {wanted}", tool.name)
    }
}

/// The cache entry's name with a suffix. Not `with_extension`, which would replace part of the
/// version.
fn beside(entry: &Path, ending: &str) -> PathBuf {
    let mut name = entry.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

/// Waits for the lock, with a message. It has no deadline of its own: the holder's build has one,
/// and the system releases a dead process's lock. The file stays, because deleting it would let two
/// processes lock two files of the same name.
fn lock(path: &Path, title: &str) -> Result<File> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            host::note(&format!("{title}: another process is building it; waiting"));
            file.lock()
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
    .with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// Runs `go env GOVERSION` inside the folder, so that a Go toolchain that updates itself can do so.
fn check_go(tool: &Tool, folder: &Folder) -> Result<()> {
    let needed = &folder.go;
    let advice = format!(
        "install Go {needed} or newer, or set {} to an existing {}",
        variable(tool.name),
        tool.binary,
    );
    let output = match go(folder).args(["env", "GOVERSION"]).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{} is built with Go, and there is no `go` on the PATH: {advice}", tool.name)
        }
        Err(error) => return Err(error).context("running `go env GOVERSION`"),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("Go cannot build {}: {}\n{advice}", tool.name, said.trim());
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    match parse_go_version(&printed) {
        Some(found) if found < *needed => {
            bail!("Go {found} is too old for {}: {advice}", tool.name)
        }
        // A custom Go without a version number: let the build decide.
        Some(_) | None => Ok(()),
    }
}

pub(super) fn go(folder: &Folder) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(&folder.path)
        .stdin(Stdio::null())
        // Neither a surrounding workspace nor cross-compilation settings may change the result; and
        // a binary without C runs anywhere.
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .env_remove("GOOS")
        .env_remove("GOARCH");
    command
}

/// Builds the program. With a `module_file` its module is an edited copy.
fn compile(job: &Job<'_>, module_file: Option<&Path>, target: &Path) -> Result<()> {
    let Job { tool, folder, wanted, .. } = job;
    let mut command = go(folder);
    command
        // `readonly`: the committed go.sum decides, whatever GOFLAGS says. The state of our own
        // repository must not be stamped into the tool (`buildvcs`).
        .args(["build", "-v", "-mod=readonly", "-buildvcs=false", "-trimpath", "-gcflags"])
        .arg(COMPILER_FLAGS)
        .arg("-ldflags")
        .arg(tool.link_flags(wanted));
    if !tool.tags.is_empty() {
        command.args(["-tags", tool.tags]);
    }
    if let Some(file) = module_file {
        command.arg("-modfile").arg(file);
    }
    command.arg("-o").arg(target).arg(tool.package).stdout(Stdio::null()).stderr(Stdio::piped());

    let started = host::now();
    host::note(&format!("{}: building", job.title()));
    let Built { status, output, cpu } = watch(command.spawn().context("running `go build`")?, job)?;
    let took = clock(host::now() - started);
    if job.redrawn {
        host::overwrite("");
    }
    if !status.success() {
        bail!(
            "`go build` of {} failed ({status}):\n{}\n\n\
             If a module could not be fetched: `go env GOPROXY` says where from, and it has to \
             be reachable once. Otherwise set {} to an existing {} {wanted}.",
            tool.name,
            output.errors(),
            variable(tool.name),
            tool.binary,
        );
    }
    let cpu = cpu.map(|cpu| format!(", {} of processor time", clock(cpu))).unwrap_or_default();
    host::note(&format!("{}: built in {took}{cpu}", job.title()));
    Ok(())
}

/// A build that ended.
struct Built {
    status: ExitStatus,
    output: Output,
    /// CPU time of the build and its child processes; known on Linux only.
    cpu: Option<Duration>,
}

/// Follows a build to its end, showing progress.
fn watch(mut child: Child, job: &Job<'_>) -> Result<Built> {
    let stderr = child.stderr.take().context("stderr is not piped")?;
    let (sender, lines) = mpsc::channel();
    // Ends with the pipe, which ends with the child.
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });

    let interval = if job.redrawn { REDRAW } else { REPEAT };
    let started = host::now();
    let mut shown = started;
    let mut output = Output::default();
    loop {
        match lines.recv_timeout(REDRAW) {
            Ok(line) => output.add(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let now = host::now();
        if now - started > BUILD_LIMIT {
            child.kill().ok();
            child.wait().ok();
            bail!("{}: gave up: not built within {BUILD_LIMIT:?}", job.title());
        }
        if now - shown >= interval {
            shown = now;
            let line = format!("{}: {}, {}", job.title(), clock(now - started), output.progress());
            if job.redrawn {
                host::overwrite(&line);
            } else {
                host::note(&line);
            }
        }
    }
    // Its output has ended, so its work is done; it has not been waited for yet.
    let cpu = cpu_time(child.id());
    Ok(Built { status: child.wait().context("waiting for `go build`")?, output, cpu })
}

/// The CPU time of a process and of the children that it waited for.
fn cpu_time(process: u32) -> Option<Duration> {
    parse_cpu_time(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Fields 14 to 17 of `/proc/<pid>/stat`, in hundredths of a second. The name in field 2 may
/// contain anything, and ends with the last parenthesis.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields = rest.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
    let ticks: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
    (ticks.len() == 4).then(|| Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

/// Go's output so far.
#[derive(Default)]
struct Output {
    downloaded: usize,
    compiled: usize,
    /// The latest download: an error after it often does not name the module.
    download: Option<String>,
    rest: Vec<String>,
}

impl Output {
    /// With `-v`, Go names each package it compiles on a line of its own.
    /// Any other line that is not a download is an error or its context.
    fn add(&mut self, line: String) {
        if line.starts_with("go: downloading ") {
            self.downloaded += 1;
            self.download = Some(line);
        } else if line.contains(char::is_whitespace) {
            self.rest.extend(self.download.take());
            self.rest.push(line);
        } else {
            self.compiled += 1;
        }
    }

    fn progress(&self) -> String {
        let Self { downloaded, compiled, .. } = self;
        match downloaded {
            0 => format!("{compiled} packages compiled"),
            _ => format!("{downloaded} modules fetched, {compiled} packages compiled"),
        }
    }

    fn errors(&self) -> String {
        self.rest[self.rest.len().saturating_sub(ERROR_LINES)..].join("\n")
    }
}

/// Minutes and seconds.
fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_an_entry_keep_its_version() {
        let entry = Path::new("/cache/etcd-3.6.16-0123456789ab");
        assert_eq!(beside(entry, "lock"), Path::new("/cache/etcd-3.6.16-0123456789ab.lock"));
    }

    #[test]
    fn output_is_progress_or_an_error() {
        let mut output = Output::default();
        for line in [
            "go: downloading github.com/spf13/cobra v1.10.2",
            "github.com/spf13/cobra",
            "# talos-operator/tools/talosctl-1.14",
            "./main.go:12:2: undefined: talos",
        ] {
            output.add(line.to_owned());
        }
        assert_eq!(output.progress(), "1 modules fetched, 1 packages compiled");
        assert_eq!(
            output.errors(),
            "go: downloading github.com/spf13/cobra v1.10.2\n\
             # talos-operator/tools/talosctl-1.14\n./main.go:12:2: undefined: talos",
        );
    }

    #[test]
    fn only_the_last_errors_are_kept() {
        let mut output = Output::default();
        (0..100).for_each(|number| output.add(format!("error {number}")));
        assert!(output.errors().starts_with("error 70\n"), "{}", output.errors());
        assert!(output.errors().ends_with("error 99"), "{}", output.errors());
    }

    #[test]
    fn processor_time_counts_the_children() {
        let stat = "7 (go) build) S 1 7 7 0 -1 4194304 1 2 3 4 100 50 2000 350 20 0 9 0";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_secs(25)));
        assert_eq!(parse_cpu_time("7 (go) Z 1"), None);
    }

    #[test]
    fn time_is_shown_as_minutes() {
        assert_eq!(clock(Duration::from_secs(405)), "6:45");
    }
}
