//! The one source of chance: `SplitMix64`, seeded and part of the state. The same
//! seed and the same requests at the same times give the same run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A small deterministic generator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, or 0 if that is 0. The bias of the remainder is
    /// far below anything a simulation could notice.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }

    /// A duration between two others, both included.
    pub(super) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let width = high.saturating_sub(low);
        let nanoseconds = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX - 1);
        low + Duration::from_nanos(self.below(nanoseconds + 1))
    }

    /// A UUID of version 4.
    pub(super) fn uuid(&mut self) -> String {
        let high = (self.next() & !0xf000) | 0x4000;
        let low = (self.next() & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// So many characters of an alphabet of the lower-case kind.
    pub(super) fn letters(&mut self, length: usize) -> String {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
        (0..length)
            .map(|_| char::from(ALPHABET[usize::try_from(self.below(32)).unwrap_or(0)]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let mut one = Random::new(7);
        let mut two = Random::new(7);
        assert_eq!(one.uuid(), two.uuid());
        assert_eq!(one.letters(8), two.letters(8));
        assert_ne!(Random::new(8).next(), Random::new(7).next());
        // The published first output of SplitMix64 for seed 0.
        assert_eq!(Random::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn uuids_carry_their_version() {
        let mut random = Random::new(1);
        for _ in 0..100 {
            let uuid = random.uuid();
            assert_eq!(uuid.len(), 36);
            assert_eq!(&uuid[14..15], "4");
            assert!("89ab".contains(&uuid[19..20]));
        }
    }

    #[test]
    fn ranges_are_kept() {
        let mut random = Random::new(3);
        let (low, high) = (Duration::from_secs(30), Duration::from_mins(1));
        for _ in 0..1000 {
            let drawn = random.between(low, high);
            assert!(low <= drawn && drawn <= high);
        }
        assert_eq!(random.between(low, low), low);
    }
}
