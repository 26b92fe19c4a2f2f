//! What is read from the machine, and what is told while it works.

use std::io::Write as _;
use std::time::Instant;

/// The time: a benchmark is about it.
#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Tells what happens, beside the table.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A line of the table.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Memory that a process holds now, and the most that it ever held, in MiB.
pub(crate) fn memory(pid: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |key: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
    };
    (kib("VmRSS:") / 1024.0, kib("VmHWM:") / 1024.0)
}

/// Processor time that a process has used, in seconds: user and system, in
/// hundredths, after the name that may hold anything.
pub(crate) fn processor(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|it| it.parse().ok()).collect();
    if ticks.len() == 2 { (ticks[0] + ticks[1]) / 100.0 } else { f64::NAN }
}

/// How many files and sockets a process has open.
pub(crate) fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// How busy the machine was in the last minute.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// The machine in a line.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let field = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kib: f64 = memory.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0.0);
    format!("{cores} cores of {model}, {:.0} GiB", kib / f64::from(1 << 20))
}
