//! Chance from a seed: the same seed, the same chances, on every machine.

/// `SplitMix64`: small, good enough for dice, and never changes.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall the same way for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below a number; 0 below 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.roll() % end }
    }

    /// From the first to the last, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// True so many times of a thousand.
    pub fn chance(&mut self, of_thousand: u64) -> bool {
        self.below(1000) < of_thousand
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let count = u64::try_from(from.len()).unwrap_or(u64::MAX);
        &from[usize::try_from(self.below(count)).unwrap_or(0)]
    }

    /// Other dice, that fall in their own way.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.roll())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_falls_the_same_way() {
        let mut one = Dice::new(7);
        let mut other = Dice::new(7);
        let rolls: Vec<u64> = (0..100).map(|_| one.between(3, 9)).collect();
        assert_eq!(rolls, (0..100).map(|_| other.between(3, 9)).collect::<Vec<_>>());
        assert!((3..=9).all(|face| rolls.contains(&face)));
        assert!(!Dice::new(1).chance(0) && Dice::new(1).chance(1000));
    }
}
