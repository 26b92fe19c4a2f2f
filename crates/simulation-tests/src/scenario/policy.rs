//! Draws the user's policy.

use upgrade_core::amount::Amount;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::jiff::civil::time;
use upgrade_core::policy::{AtStake, OnDrainTimeout, Order, Policy, Prune, RebootChoice};
use upgrade_core::window::{Freeze, Window};

use crate::world::START;
use kube_sim::random::Random;

pub(super) fn draw(random: &mut Random, control_planes: usize) -> Policy {
    let mut policy = Policy {
        order: *random.pick(&[Order::WorkersFirst, Order::ControlPlanesFirst]),
        // Without it there is no plan for a single control plane; rarely that is tested too.
        accept_outage: control_planes < 3 && !random.chance(30),
        ..Policy::default()
    };
    policy.workers.max_unavailable = *random.pick(&[
        Amount::Count(1),
        Amount::Count(1),
        Amount::Count(2),
        Amount::Count(3),
        Amount::Percent(50),
    ]);
    if random.chance(150) {
        policy.workers.pools.insert("gpu".to_owned(), Amount::Count(1));
    }
    policy.kubelets.max_parallel = *random.pick(&[Amount::Percent(25), Amount::Count(2)]);
    policy.drain.timeout = SignedDuration::from_mins(*random.pick(&[3, 5, 10]));
    if random.chance(300) {
        policy.drain.on_timeout = OnDrainTimeout::Proceed;
    }
    policy.drain.bare_pods = *random.pick(&[AtStake::Evict, AtStake::Leave, AtStake::Halt]);
    policy.drain.empty_dir = *random.pick(&[AtStake::Evict, AtStake::Evict, AtStake::Leave]);
    if random.chance(200) {
        policy.soak = SignedDuration::from_secs(30);
    }
    policy.retries.attempts = *random.pick(&[1, 3, 3]);
    // Short timeouts are reached more often than the defaults.
    policy.timeouts.gate = SignedDuration::from_mins(*random.pick(&[3, 15]));
    policy.timeouts.reboot = SignedDuration::from_mins(*random.pick(&[5, 20]));
    policy.timeouts.verify = SignedDuration::from_mins(*random.pick(&[5, 15]));
    policy.manifests.prune = match random.below(10) {
        0 => Prune::None,
        1 => Prune::All,
        _ => Prune::Safe,
    };
    policy.reboot.mode = match random.below(10) {
        0 => RebootChoice::Powercycle,
        1 | 2 => RebootChoice::PowercycleFirst,
        _ => RebootChoice::Default,
    };
    if random.chance(60) {
        // Runs start at midnight: the window opens later, and closes soon.
        policy.windows.push(Window {
            days: std::collections::BTreeSet::new(),
            start: time(0, i8::try_from(random.between(5, 40)).unwrap_or(5), 0, 0),
            duration: SignedDuration::from_mins(*random.pick(&[20, 120, 120, 120, 120, 120])),
            timezone: "UTC".to_owned(),
        });
    } else if random.chance(30) {
        let after = |minutes: i64| {
            START.saturating_add(SignedDuration::from_mins(minutes)).unwrap_or(START)
        };
        policy.freezes.push(Freeze { from: after(3), until: after(25), reason: String::new() });
    }
    policy
}
