//! Whether an installer, an upgrade by one call or a rollback may be asked of a node, by what
//! the journal remembers of it and what its boot loader says (rule 5). A second installer on an
//! armed node deletes what runs.

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::image::ImageRef;
use upgrade_core::journal::{Armed, Arming, Effect};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::slots::{NextBoot, Slots};
use upgrade_core::snapshot::{NodeName, TalosFacts};
use upgrade_core::step::Action;
use upgrade_core::version::Version;

/// A node that is about to be written or booted.
#[derive(Clone, Copy, Debug)]
pub struct Bootable<'a> {
    node: &'a NodeName,
    running: &'a Version,
    /// What is remembered of the boot that it is in.
    known: Option<&'a Armed>,
}

/// Whether an installer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Install {
    /// It does.
    Run,
    /// There is no need: the next boot is into its version.
    Armed,
    /// It may have run, and only the next boot can tell.
    Presumed,
}

impl<'a> Bootable<'a> {
    /// A node that says this of itself; `armed` is what an installer left there, as far as it
    /// is remembered. What was left in an earlier boot does not count.
    pub fn new(node: &'a NodeName, facts: &'a TalosFacts, armed: Option<&'a Armed>) -> Self {
        let here = |armed: &&Armed| armed.boot_id.as_ref().is_none_or(|id| *id == facts.boot_id);
        Self { node, running: &facts.version, known: armed.filter(here) }
    }

    /// Whether an installer whose end was not heard has to end first.
    pub fn awaits_installer(&self) -> bool {
        self.known.is_some_and(|armed| armed.state == Arming::Unheard)
    }

    /// Whether the installer of this image runs; or why none may.
    pub fn install(&self, slots: &Slots, image: &ImageRef) -> Result<Install, Failure> {
        let Self { node, running, known } = *self;
        if slots.installing && known.is_none() {
            let text = format!("an installer runs on {node} that this run did not start");
            return Err(refused(&text, Fix::AwaitInstaller));
        }
        let next = slots.next_boot(running);
        let why = match (known, &next) {
            (None, NextBoot::Same | NextBoot::Unknown) => return Ok(Install::Run),
            (Some(armed), _) if armed.image == *image && armed.state == Arming::Armed => {
                return Ok(Install::Armed);
            }
            (Some(armed), NextBoot::Same) if armed.state != Arming::Armed => {
                return Ok(Install::Run);
            }
            (Some(armed), next) if armed.image == *image && armed.state == Arming::Unheard => {
                return Ok(match next {
                    NextBoot::Unknown => Install::Presumed,
                    _ => Install::Armed,
                });
            }
            (Some(armed), _) if armed.state.has_failed() => format!(
                "an installer failed on {node} ({}), and the next boot may be into what it wrote",
                armed.image
            ),
            (Some(armed), _) => format!("{node} is armed with {}, not with {image}", armed.image),
            (None, NextBoot::Other(entry)) => {
                format!("{node} is armed with {entry}, and this run did not do that")
            }
        };
        Err(self.armed_already(&why))
    }

    /// Whether a call may install and boot at once (Talos up to 1.12); or why not.
    pub fn upgrade(&self, next: &NextBoot) -> Result<(), Failure> {
        let node = self.node;
        let why = match (next, self.known) {
            (NextBoot::Other(entry), _) => {
                format!("{node} is armed with {entry}, and this run did not do that")
            }
            (NextBoot::Unknown, Some(armed)) => format!("{node} may be armed with {}", armed.image),
            _ => return Ok(()),
        };
        Err(self.armed_already(&why))
    }

    /// The call that brings the node to the other slot, which is to hold `to`. A rollback makes
    /// the entry that is not the default the default: on an armed node that is what runs, so
    /// nothing older is there. A default that an earlier request has changed is only booted; a
    /// second rollback would change it back.
    pub fn rollback(&self, next: &NextBoot, to: &Version) -> Result<Action, Failure> {
        let Self { node, running, known } = *self;
        let armed = match (next, known) {
            (NextBoot::Same, _) | (NextBoot::Unknown, None) => return Ok(Action::Rollback),
            (NextBoot::Other(_), _) if next.is_into(to) => return Ok(Action::Reboot),
            (NextBoot::Other(entry), _) => entry.clone(),
            // Asked for by an earlier attempt of this rollback.
            (NextBoot::Unknown, Some(known)) if known.image.version().as_ref() == Some(to) => {
                return Ok(Action::Rollback);
            }
            (NextBoot::Unknown, Some(known)) => known.image.to_string(),
        };
        let text = format!(
            "{node} is armed with {armed}: its other slot holds {running}, which runs, and not {to}"
        );
        let fix = Fix::DisarmForRollback { node: node.clone(), running: running.clone() };
        Err(refused(&text, fix).leaving(Effect::None))
    }

    /// An installer would delete what runs.
    fn armed_already(&self, why: &str) -> Failure {
        let running = self.running;
        let text = format!("{why}. Another installer would delete {running}, which runs");
        refused(&text, Fix::Disarm { running: Some(running.clone()) })
    }
}

fn refused(text: &str, fix: Fix) -> Failure {
    Failure::new(FailureKind::Refused, text).advise(Advice::plan_after(fix))
}

#[cfg(test)]
mod tests {
    use upgrade_core::slots::Entries;

    use super::*;

    const RUNS: &str = "Talos-v1.13.9.efi";
    const NEW: &str = "Talos-v1.14.1.efi";

    fn image(tag: &str) -> ImageRef {
        format!("factory.lan/metal-installer/abc:{tag}").parse().unwrap()
    }

    fn armed(state: Arming) -> Armed {
        Armed { image: image("v1.14.1"), boot_id: Some("boot".to_owned()), state }
    }

    fn slots(default: Option<&str>) -> Slots {
        let entries =
            |default: &str| Entries { booted: RUNS.to_owned(), default: Some(default.to_owned()) };
        Slots { installing: false, entries: default.map(entries) }
    }

    fn with<T>(armed: Option<&Armed>, judge: impl FnOnce(Bootable<'_>) -> T) -> T {
        let (node, running) = ("worker-1".into(), Version::new(1, 13, 9));
        judge(Bootable { node: &node, running: &running, known: armed })
    }

    #[test]
    fn an_installer_runs_only_where_none_may_have_run() {
        // Rule 5, all of it: what is remembered, and what the boot loader says.
        use Arming::{Armed as Is, Failed, FailedArmed, Unheard};
        for (state, default, expected) in [
            (None, Some(RUNS), Ok(Install::Run)),
            (None, None, Ok(Install::Run)),
            (None, Some(NEW), Err("this run did not do that")),
            (Some(Is), Some(NEW), Ok(Install::Armed)),
            (Some(Is), None, Ok(Install::Armed)),
            (Some(Is), Some(RUNS), Ok(Install::Armed)),
            (Some(Unheard), Some(NEW), Ok(Install::Armed)),
            (Some(Unheard), None, Ok(Install::Presumed)),
            (Some(Unheard), Some(RUNS), Ok(Install::Run)),
            (Some(Failed), Some(RUNS), Ok(Install::Run)),
            (Some(Failed), None, Err("an installer failed on worker-1")),
            (Some(FailedArmed), Some(NEW), Err("an installer failed on worker-1")),
        ] {
            let known = state.map(armed);
            let found = with(known.as_ref(), |it| it.install(&slots(default), &image("v1.14.1")));
            match (&found, &expected) {
                (Err(why), Err(words)) => {
                    assert!(why.text().contains(words), "{why}");
                    let fix = Fix::Disarm { running: Some(Version::new(1, 13, 9)) };
                    assert_eq!(why.advice(), Advice::plan_after(fix));
                }
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{state:?} {default:?}"),
                _ => panic!("{found:?} for {state:?} {default:?}"),
            }
        }
        let other = with(Some(&armed(Is)), |it| it.install(&slots(None), &image("v1.14.0")));
        let other = other.unwrap_err();
        assert!(other.text().contains("not with factory.lan/metal-installer/abc:v1.14.0"));
        let running = Slots { installing: true, ..slots(None) };
        let busy = with(None, |it| it.install(&running, &image("v1.14.1"))).unwrap_err();
        assert!(busy.text().contains("that this run did not start"), "{busy}");
        assert_eq!(busy.advice(), Advice::plan_after(Fix::AwaitInstaller));
    }

    #[test]
    fn a_call_that_installs_and_boots_is_not_made_on_an_armed_node() {
        // Rule 5.
        let other = NextBoot::Other(NEW.to_owned());
        let known = armed(Arming::Armed);
        assert_eq!(with(None, |it| it.upgrade(&NextBoot::Same)), Ok(()));
        assert_eq!(with(None, |it| it.upgrade(&NextBoot::Unknown)), Ok(()));
        assert!(with(None, |it| it.upgrade(&other)).is_err());
        assert!(with(Some(&known), |it| it.upgrade(&NextBoot::Unknown)).is_err());
    }

    #[test]
    fn a_rollback_is_asked_for_once() {
        // Rules 5 and 8: a second one would take the first back.
        let to = Version::new(1, 13, 4);
        let into_old = NextBoot::Other("Talos-v1.13.4.efi".to_owned());
        let into_new = NextBoot::Other(NEW.to_owned());
        let asked = Armed { image: image("v1.13.4"), ..armed(Arming::Unheard) };
        let known = armed(Arming::Armed);
        assert_eq!(with(None, |it| it.rollback(&NextBoot::Same, &to)), Ok(Action::Rollback));
        assert_eq!(with(None, |it| it.rollback(&NextBoot::Unknown, &to)), Ok(Action::Rollback));
        assert_eq!(with(None, |it| it.rollback(&into_old, &to)), Ok(Action::Reboot));
        assert_eq!(
            with(Some(&asked), |it| it.rollback(&NextBoot::Unknown, &to)),
            Ok(Action::Rollback)
        );
        let armed = with(None, |it| it.rollback(&into_new, &to)).unwrap_err();
        assert_eq!(armed.effect(), Some(Effect::None));
        let fix =
            Fix::DisarmForRollback { node: "worker-1".into(), running: Version::new(1, 13, 9) };
        assert_eq!(armed.advice(), Advice::plan_after(fix));
        assert!(with(Some(&known), |it| it.rollback(&NextBoot::Unknown, &to)).is_err());
    }

    #[test]
    fn what_was_left_in_an_earlier_boot_does_not_count() {
        let known = armed(Arming::Unheard);
        assert!(with(Some(&known), |it| it.awaits_installer()));
        assert!(!with(None, |it| it.awaits_installer()));
    }
}
