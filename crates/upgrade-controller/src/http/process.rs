//! What the system says of this process.

/// Memory that is held, in bytes; `None` where there is no `/proc`.
pub(super) fn resident_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    memory_of(&text)
}

/// `VmRSS:     12345 kB`
fn memory_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processor time that was used, in seconds.
pub(super) fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    ticks_of(&text).map(|ticks| ticks / TICKS_A_SECOND)
}

/// The kernel tells user space times in hundredths on every architecture that
/// this runs on.
const TICKS_A_SECOND: f64 = 100.0;

/// The fields after the name, which may hold anything, are counted from its end.
fn ticks_of(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        assert_eq!(memory_of("Name:\tx\nVmRSS:\t   2048 kB\n"), Some(2 << 20));
        let stat = "12 (a) b) S 1 1 1 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 8 0 100";
        assert_eq!(ticks_of(stat), Some(300.0));
        assert_eq!(ticks_of("nonsense"), None);
    }
}
