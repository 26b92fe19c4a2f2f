//! The one random source of simulator and simulation: `SplitMix64`, seeded and part of
//! the state. The same seed and the same requests at the same times give the same run,
//! on every machine and in every release; a crate for random numbers promises neither.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A small deterministic generator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator, seeded with the next number of this one.
    #[must_use]
    pub const fn split(&mut self) -> Self {
        Self(self.number())
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, or 0 if `limit` is 0. The bias of the remainder is negligible for a
    /// simulation.
    pub const fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.number() % limit }
    }

    /// A number in the inclusive range.
    pub const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// A duration in the inclusive range.
    pub fn duration(&mut self, first: Duration, last: Duration) -> Duration {
        let width = last.saturating_sub(first);
        let nanoseconds = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX - 1);
        first + Duration::from_nanos(self.below(nanoseconds + 1))
    }

    /// True with a probability of `in_thousand` / 1000.
    pub const fn chance(&mut self, in_thousand: u64) -> bool {
        self.below(1000) < in_thousand
    }

    /// One of the values.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let count = u64::try_from(from.len()).unwrap_or(u64::MAX);
        &from[usize::try_from(self.below(count)).unwrap_or(0)]
    }

    /// A UUID of version 4.
    pub fn uuid(&mut self) -> String {
        let high = (self.number() & !0xf000) | 0x4000;
        let low = (self.number() & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// The suffix of a generated name; it contains no vowels, so it never spells a word.
    pub fn suffix(&mut self, length: usize) -> String {
        self.text(b"bcdfghjklmnpqrstvwxz2456789", length)
    }

    /// A token of small letters and digits.
    pub fn token(&mut self, length: usize) -> String {
        self.text(b"abcdefghijklmnopqrstuvwxyz012345", length)
    }

    fn text(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(*self.pick(alphabet))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        assert_eq!(one.uuid(), two.uuid());
        assert_eq!(one.suffix(5), two.suffix(5));
        assert_ne!(Random::new(8).number(), Random::new(7).number());
        // The published first output of SplitMix64 for seed 0.
        assert_eq!(Random::new(0).number(), 0xe220_a839_7b1d_cdaf);
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
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(3);
        let (low, high) = (Duration::from_secs(30), Duration::from_mins(1));
        for _ in 0..1000 {
            let drawn = random.duration(low, high);
            assert!(low <= drawn && drawn <= high);
        }
        assert_eq!(random.duration(low, low), low);
        let drawn: Vec<u64> = (0..100).map(|_| random.between(3, 9)).collect();
        assert!(drawn.iter().all(|number| (3..=9).contains(number)));
        assert!((3..=9).all(|number| drawn.contains(&number)));
        assert!(!Random::new(1).chance(0) && Random::new(1).chance(1000));
    }
}
