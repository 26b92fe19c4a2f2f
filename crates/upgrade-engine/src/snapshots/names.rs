//! The names of snapshots, the same in every store that people look into.
//!
//! `<cluster>-<time>.snapshot`, as in `prod-20260102T030405Z.snapshot`. Clusters may share a place,
//! and names sort by time.

use jiff::Timestamp;
use upgrade_core::jiff;

/// The suffix of complete snapshots.
pub const SUFFIX: &str = ".snapshot";

/// The name of a snapshot, without its suffix.
pub fn stem(cluster: &str, at: Timestamp) -> String {
    format!("{}-{}", plain(cluster), at.strftime("%Y%m%dT%H%M%SZ"))
}

/// The stem, or the first numbered one that is not `taken`: two snapshots may be taken within a
/// second. The underscore sorts after the dot of a name without a number.
pub fn free(stem: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(stem) {
        return stem.to_owned();
    }
    let mut names = (2_u32..).map(|number| format!("{stem}_{number}"));
    names.find(|name| !taken(name)).expect("numbers do not end")
}

/// Whether a file or object of this name is a complete snapshot of this cluster. The names of other
/// clusters may begin with its own.
pub fn is_of(cluster: &str, name: &str) -> bool {
    let rest = name.strip_prefix(&plain(cluster)).and_then(|rest| rest.strip_prefix('-'));
    rest.and_then(|rest| rest.strip_suffix(SUFFIX)).is_some_and(is_time)
}

/// The snapshots of a cluster, oldest first, that exceed `keep`. `newest` is never among them.
pub fn surplus(mut all: Vec<String>, keep: usize, newest: &str) -> Vec<String> {
    all.retain(|location| location != newest);
    let surplus = (all.len() + 1).saturating_sub(keep.max(1));
    all.truncate(surplus);
    all
}

/// The name of a cluster as part of a file name.
fn plain(cluster: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    cluster.chars().map(plain).collect()
}

/// `20260102T030405Z`, perhaps followed by a number.
fn is_time(text: &str) -> bool {
    let (time, number) = text.split_once('_').unwrap_or((text, "2"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (Some(day), Some(clock)) = (time.get(..8), time.get(9..15)) else { return false };
    let frame = time.len() == 16 && &time[8..9] == "T" && time.ends_with('Z');
    frame && digits(day) && digits(clock) && digits(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots_are_told_from_others() {
        for (text, is) in [
            ("20260102T030405Z", true),
            ("20260102T030405Z_2", true),
            ("west-20260102T030405Z", false),
            ("20260102T030405", false),
            ("2026010xT030405Z", false),
            ("20260102T030405Z_", false),
            ("", false),
        ] {
            assert_eq!(is_time(text), is, "{text}");
        }
        assert_eq!(plain("a/b c"), "a_b_c");
        assert!(is_of("a/b", "a_b-20260102T030405Z.snapshot"));
        assert!(!is_of("prod", "prod-west-20260102T030405Z.snapshot"), "another cluster's");
        assert!(!is_of("prod", "prod-20260102T030405Z"), "not complete");
    }

    #[test]
    fn a_taken_name_gets_a_number_and_sorts_after_it() {
        let at = Timestamp::from_second(1_767_323_045).unwrap();
        let stem = stem("prod", at);
        assert_eq!(stem, "prod-20260102T030405Z");
        assert_eq!(free(&stem, |_| false), stem);
        let second = free(&stem, |name| name == stem);
        assert_eq!(second, "prod-20260102T030405Z_2");
        assert!(format!("{stem}{SUFFIX}") < format!("{second}{SUFFIX}"));
    }

    #[test]
    fn the_newest_is_never_surplus() {
        // Rule 3.
        let all = || ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(surplus(all(), 2, "c"), ["a"]);
        assert_eq!(surplus(all(), 0, "c"), ["a", "b"]);
        assert_eq!(surplus(all(), 1, "a"), ["b", "c"], "a clock that went back");
        assert_eq!(surplus(all(), 9, "c"), Vec::<String>::new());
    }
}
