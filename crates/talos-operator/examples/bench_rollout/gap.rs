//! The gap between two nodes: from the moment in which one was done with until
//! the next one is disrupted.
//!
//! Control planes follow each other. The first workers follow the last control
//! plane, and each further one takes the place of the worker that was done with
//! first among those not yet replaced.

use crate::case::SLOTS;

/// A node's part in an upgrade, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) control_plane: bool,
    /// When it was first disrupted.
    pub(crate) disrupted: f64,
    /// When it was done with.
    pub(crate) done: f64,
}

/// All gaps, shortest first.
pub(crate) fn gaps(turns: &[Turn]) -> Vec<f64> {
    let of = |control_plane: bool| {
        let mut turns: Vec<Turn> =
            turns.iter().filter(|turn| turn.control_plane == control_plane).copied().collect();
        turns.sort_by(|one, other| one.disrupted.total_cmp(&other.disrupted));
        turns
    };
    let (control_planes, workers) = (of(true), of(false));
    let mut gaps: Vec<f64> =
        control_planes.windows(2).map(|pair| pair[1].disrupted - pair[0].done).collect();
    let mut room: Vec<f64> = workers.iter().map(|turn| turn.done).collect();
    room.sort_by(f64::total_cmp);
    for (at, turn) in workers.iter().enumerate() {
        let since = match at.checked_sub(SLOTS) {
            Some(place) => Some(room[place]),
            None => control_planes.last().map(|last| last.done),
        };
        gaps.extend(since.map(|since| turn.disrupted - since));
    }
    gaps.sort_by(f64::total_cmp);
    gaps
}

/// The value that so many of a hundred do not exceed; `None` of nothing.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_takes_the_place_of_one_that_is_done() {
        let turn = |control_plane, disrupted, done| Turn { control_plane, disrupted, done };
        let turns = [
            turn(true, 10.0, 20.0),
            turn(true, 21.0, 30.0),
            // Two at a time: the third waits for the second, which was quicker.
            turn(false, 32.0, 50.0),
            turn(false, 33.0, 40.0),
            turn(false, 44.0, 60.0),
        ];
        assert_eq!(gaps(&turns), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(gaps(&turns[..1]), [] as [f64; 0]);
        assert_eq!(gaps(&[]), [] as [f64; 0]);
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 99), Some(99.0));
        assert_eq!(percentile(&[1.0, 7.0], 50), Some(1.0));
        assert_eq!(percentile(&[1.0, 7.0], 99), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
