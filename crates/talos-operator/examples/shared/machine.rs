//! What every benchmark reads from the machine, and how it tells what happens.

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
