//! Whether a process is alive: one heartbeat carries all the leases that it holds (rule 9).
//! A thousand runs cost the hub no more renewals than one.
//!
//! A replica writes its heartbeat into a Lease of its own ([`crate::shard`]). A process that
//! drives one run only, such as a Kubernetes Job, renews the cluster's lease instead
//! ([`crate::lease::RenewedLease`]): it has a heartbeat too, and owns no shard.
//!
//! No clock of another machine is trusted: a process counts as silent when *we* have seen
//! its heartbeat unchanged for as long as it lasts. Our own counts as over, by our clock,
//! well before another process may think so: it is counted from before a beat was sent, and
//! with a margin for requests on their way.
//!
//! A process whose heartbeat stood still for that long may have lost everything. Its next
//! beat starts a new *session*, in which it holds none of what it held before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// Which part of its time before its end we count ours as over: what was sent in
/// the last moment should have arrived before another process acts.
const MARGIN: u32 = 5;

/// Our own heartbeat, and what is seen of the others'.
#[derive(Debug)]
pub struct Heartbeat {
    /// Names this process among all; a restart has another name.
    process: String,
    lasts: Duration,
    clock: Clock,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Our own lasts until then, in time since the machine started.
    until: Duration,
    /// The number of our session.
    session: u64,
    /// When the others' were read last; never, in a process that reads none.
    asked: Option<Duration>,
    others: BTreeMap<String, Peer>,
}

/// A heartbeat of a replica, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHeartbeat {
    /// Which replica.
    pub holder: String,
    /// In which session.
    pub session: String,
    /// Its resourceVersion: another one is another beat.
    pub version: String,
    /// How long it lasts.
    pub lasts: Duration,
}

#[derive(Debug)]
struct Peer {
    beat: PeerHeartbeat,
    since: Duration,
}

impl Heartbeat {
    /// No beat yet: nothing can be held. `process` names this one among all.
    pub fn new(process: String, lasts: Duration, clock: Clock) -> Self {
        Self { process, lasts, clock, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clock that it is measured with.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// How long a beat lasts.
    pub const fn lasts(&self) -> Duration {
        self.lasts
    }

    /// The session that beats are written with.
    pub fn session(&self) -> String {
        self.named(self.known().session)
    }

    /// A beat that was sent then has arrived. True if it began a new session, which
    /// the next beat has to tell.
    pub fn beaten(&self, sent: Duration, now: Duration) -> bool {
        let mut known = self.known();
        // Asked when the answer is there: a beat that took long came too late.
        let expired = now >= known.until;
        known.session += u64::from(expired);
        known.until = sent + self.lasts.saturating_sub(self.lasts / MARGIN);
        expired
    }

    /// The session in which something can be taken now.
    pub fn current(&self, now: Duration) -> Option<u64> {
        let known = self.known();
        (now < known.until).then_some(known.session)
    }

    /// The name of a session, as leases carry it.
    pub fn named(&self, session: u64) -> String {
        format!("{}.{session}", self.process)
    }

    /// Whether what was taken in a session is still held.
    pub fn holds(&self, session: u64, now: Duration) -> bool {
        self.current(now) == Some(session)
    }

    /// All heartbeats that were found when we asked, at that time.
    pub fn found(&self, beats: Vec<PeerHeartbeat>, asked: Duration, now: Duration) {
        let mut known = self.known();
        let mut before = std::mem::take(&mut known.others);
        for beat in beats {
            let peer = before.remove(&beat.holder).filter(|peer| peer.beat == beat);
            let peer = peer.unwrap_or_else(|| Peer { since: now, beat: beat.clone() });
            known.others.insert(beat.holder, peer);
        }
        known.asked = Some(asked);
    }

    /// When the others were read last; `None` in a process that reads none.
    pub fn asked(&self) -> Option<Duration> {
        self.known().asked
    }

    /// Nothing is held from now on: another process has what this one held.
    pub fn end(&self) {
        self.known().until = Duration::ZERO;
    }

    /// Whether a replica was silent for its whole time in that session; nothing if it
    /// has no heartbeat, or is in another session.
    pub fn is_silent(&self, holder: &str, session: &str) -> Option<bool> {
        let known = self.known();
        let peer = known.others.get(holder).filter(|peer| peer.beat.session == session)?;
        // By the last time that we asked: what came since, we have not seen.
        Some(known.asked?.saturating_sub(peer.since) >= peer.beat.lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(20);

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn beat(session: &str, version: &str) -> PeerHeartbeat {
        let (session, version) = (session.to_owned(), version.to_owned());
        PeerHeartbeat { holder: "b".to_owned(), session, version, lasts: LASTS }
    }

    #[test]
    fn ours_is_over_before_anybody_else_may_think_so() {
        // Rule 9.
        let heartbeat = Heartbeat::new("p".to_owned(), LASTS, Clock::SYSTEM);
        assert_eq!(heartbeat.current(second(1)), None, "what was never had is not held");
        assert!(heartbeat.beaten(second(100), second(101)));
        let session = heartbeat.current(second(101)).unwrap();
        assert_eq!(heartbeat.session(), heartbeat.named(session));
        assert!(heartbeat.holds(session, second(115)));
        assert!(!heartbeat.holds(session, second(116)), "counted from when it was sent");
        assert!(!heartbeat.beaten(second(105), second(106)), "in time: the same session");
        assert!(heartbeat.holds(session, second(120)));
    }

    #[test]
    fn who_was_silent_for_long_holds_nothing_any_more() {
        // Rule 9: another process may have everything by now.
        let heartbeat = Heartbeat::new("p".to_owned(), LASTS, Clock::SYSTEM);
        heartbeat.beaten(second(100), second(100));
        let before = heartbeat.current(second(100)).unwrap();
        // Sent in time, answered too late.
        assert!(heartbeat.beaten(second(115), second(117)));
        assert!(!heartbeat.holds(before, second(118)));
        let after = heartbeat.current(second(118)).unwrap();
        assert_ne!(heartbeat.named(before), heartbeat.named(after));
    }

    #[test]
    fn another_is_silent_when_we_saw_it_unchanged_for_long() {
        // Rule 9: no other machine's clock is believed.
        let heartbeat = Heartbeat::new("p".to_owned(), LASTS, Clock::SYSTEM);
        let observe =
            |beats: &[PeerHeartbeat], at| heartbeat.found(beats.to_vec(), second(at), second(at));
        assert_eq!(heartbeat.is_silent("b", "s"), None);
        observe(&[beat("s", "1")], 100);
        observe(&[beat("s", "1")], 119);
        assert_eq!(heartbeat.is_silent("b", "s"), Some(false));
        assert_eq!(heartbeat.is_silent("b", "earlier"), None);
        observe(&[beat("s", "2")], 121);
        assert_eq!(heartbeat.is_silent("b", "s"), Some(false), "it beat");
        observe(&[beat("s", "2")], 141);
        assert_eq!(heartbeat.is_silent("b", "s"), Some(true));
        observe(&[beat("t", "2")], 142);
        assert_eq!(heartbeat.is_silent("b", "s"), None);
        observe(&[], 143);
        assert_eq!(heartbeat.is_silent("b", "t"), None);
    }

    #[test]
    fn what_we_did_not_ask_for_is_no_silence() {
        // Rule 9: without reading the heartbeats none is known to be missing.
        let heartbeat = Heartbeat::new("p".to_owned(), LASTS, Clock::SYSTEM);
        heartbeat.found(vec![beat("s", "1")], second(100), second(101));
        heartbeat.found(vec![beat("s", "1")], second(120), second(160));
        assert_eq!(heartbeat.is_silent("b", "s"), Some(false), "asked 19 s after it was peer");
    }
}
