//! What really happened to the nodes, as the simulator knows it: a line of
//! states for each node, in seconds of the cluster's own time.

/// What a node does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Serving,
    /// Pulls images, and serves.
    Pulling,
    /// Writes the other slot, and serves.
    Installing,
    /// Ready again, and still cordoned.
    Held,
    /// A component of Kubernetes restarts.
    Restarting,
    /// Cordoned, with pods on their way out.
    Draining,
    /// Stops its services.
    Stopping,
    /// Answers again, and is not ready yet.
    Rejoining,
    /// Does not answer.
    Down,
}

impl State {
    pub(crate) const ALL: [Self; 9] = [
        Self::Serving,
        Self::Pulling,
        Self::Installing,
        Self::Draining,
        Self::Stopping,
        Self::Down,
        Self::Rejoining,
        Self::Held,
        Self::Restarting,
    ];

    pub(crate) fn letter(self) -> char {
        match self {
            Self::Serving => '.',
            Self::Pulling => 'p',
            Self::Installing => 'i',
            Self::Draining => 'd',
            Self::Stopping => 's',
            Self::Down => '#',
            Self::Rejoining => 'r',
            Self::Held => 'c',
            Self::Restarting => 'k',
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Serving => "serves",
            Self::Pulling => "pulls",
            Self::Installing => "installs",
            Self::Draining => "drains",
            Self::Stopping => "stops",
            Self::Down => "is down",
            Self::Rejoining => "rejoins",
            Self::Held => "is ready, still cordoned",
            Self::Restarting => "restarts a component",
        }
    }

    /// Whether the node is taken from its users.
    fn is_disrupted(self) -> bool {
        !matches!(self, Self::Serving | Self::Pulling | Self::Installing | Self::Held)
    }
}

/// What can be seen of a node.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Seen {
    pub(crate) on: bool,
    pub(crate) running: bool,
    pub(crate) booted: bool,
    pub(crate) ready: bool,
    pub(crate) cordoned: bool,
    pub(crate) installing: bool,
    pub(crate) pulling: bool,
    pub(crate) restarting: bool,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) control_plane: bool,
    /// When it began to do what.
    pub(crate) changes: Vec<(f64, State)>,
    /// Whether it was ready since its boot: what happens to etcd elsewhere is
    /// no part of its own upgrade.
    back: bool,
}

/// All nodes, until the end of the upgrade.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) lines: Vec<Line>,
    pub(crate) end: f64,
}

impl Line {
    pub(crate) fn new(name: &str, control_plane: bool) -> Self {
        Self { name: name.to_owned(), control_plane, changes: Vec::new(), back: false }
    }

    /// Takes in what was seen.
    pub(crate) fn see(&mut self, at: f64, seen: Seen) {
        self.back |= seen.booted && seen.ready;
        let state = if !seen.on {
            State::Down
        } else if seen.booted && !self.back {
            State::Rejoining
        } else if !seen.running && !seen.booted {
            State::Stopping
        } else if seen.restarting {
            State::Restarting
        } else if seen.cordoned {
            if seen.booted { State::Held } else { State::Draining }
        } else if seen.installing {
            State::Installing
        } else if seen.pulling {
            State::Pulling
        } else {
            State::Serving
        };
        if self.changes.last().is_none_or(|(_, last)| *last != state) {
            self.changes.push((at, state));
        }
    }

    /// From when to when it did what.
    pub(crate) fn spans(&self, end: f64) -> impl Iterator<Item = (f64, f64, State)> {
        let ends = self.changes.iter().skip(1).map(|(at, _)| *at).chain([end]);
        self.changes.iter().zip(ends).map(|((from, state), to)| (*from, to.max(*from), *state))
    }

    /// From when to when it was taken from its users; touching spans are one.
    pub(crate) fn disruptions(&self, end: f64) -> Vec<(f64, f64)> {
        let mut found: Vec<(f64, f64)> = Vec::new();
        for (from, to, _) in self.spans(end).filter(|(.., state)| state.is_disrupted()) {
            match found.last_mut() {
                Some(last) if last.1 >= from => last.1 = to,
                _ => found.push((from, to)),
            }
        }
        found
    }
}

/// Where the time of an upgrade went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    /// Before the first node was disrupted.
    pub(crate) before: f64,
    /// While at least one was.
    pub(crate) disrupted: f64,
    /// In between, while none was.
    pub(crate) between: f64,
    /// After the last.
    pub(crate) after: f64,
}

impl Record {
    /// Where the time went. Together the shares are the whole.
    pub(crate) fn shares(&self) -> Shares {
        let mut spans: Vec<(f64, f64)> =
            self.lines.iter().flat_map(|line| line.disruptions(self.end)).collect();
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        let Some((first, _)) = spans.first().copied() else {
            return Shares { before: self.end, ..Shares::default() };
        };
        let mut shares = Shares { before: first, ..Shares::default() };
        let mut upto = first;
        for (from, to) in spans {
            if from > upto {
                shares.between += from - upto;
                upto = from;
            }
            if to > upto {
                shares.disrupted += to - upto;
                upto = to;
            }
        }
        shares.after = self.end - upto;
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Seen = Seen {
        on: true,
        running: true,
        booted: false,
        ready: true,
        cordoned: false,
        installing: false,
        pulling: false,
        restarting: false,
    };

    #[test]
    fn a_node_goes_through_its_states() {
        let mut line = Line::new("worker-1", false);
        let booted = Seen { booted: true, ..WELL };
        for (at, seen) in [
            (0.0, WELL),
            (1.0, Seen { pulling: true, ..WELL }),
            (2.0, Seen { installing: true, ..WELL }),
            (3.0, WELL),
            (4.0, Seen { cordoned: true, ..WELL }),
            (5.0, Seen { cordoned: true, running: false, ready: false, ..WELL }),
            (6.0, Seen { on: false, cordoned: true, booted: true, ..Seen::default() }),
            (7.0, Seen { ready: false, running: false, cordoned: true, ..booted }),
            (8.0, Seen { cordoned: true, ..booted }),
            (9.0, booted),
            // An election elsewhere.
            (10.0, Seen { ready: false, ..booted }),
        ] {
            line.see(at, seen);
        }
        let letters: String = line.changes.iter().map(|(_, state)| state.letter()).collect();
        assert_eq!(letters, ".pi.ds#rc.");
        assert_eq!(line.disruptions(11.0), [(4.0, 8.0)]);
    }

    #[test]
    fn the_shares_are_the_whole() {
        let line = |spans: &[(f64, State)]| Line { changes: spans.to_vec(), ..Line::default() };
        let record = Record {
            lines: vec![
                line(&[(0.0, State::Serving), (10.0, State::Down), (30.0, State::Serving)]),
                line(&[(0.0, State::Serving), (20.0, State::Down), (40.0, State::Serving)]),
                line(&[(0.0, State::Serving), (45.0, State::Down), (50.0, State::Serving)]),
            ],
            end: 60.0,
        };
        let shares = record.shares();
        assert_eq!(shares, Shares { before: 10.0, disrupted: 35.0, between: 5.0, after: 10.0 });
        let idle = Record { lines: Vec::new(), end: 3.0 };
        assert_eq!(idle.shares(), Shares { before: 3.0, ..Shares::default() });
    }
}
