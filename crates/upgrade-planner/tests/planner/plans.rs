//! Golden plans and refusals, as people would sketch them.

use upgrade_core::amount::Amount;
use upgrade_core::intent::Preference;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::policy::{Order, Policy};
use upgrade_core::snapshot::{Extension, Fact, Snapshot};

use crate::common::{
    cluster, etcd, image, intent, kubernetes, plan_for, report_text, sketch, talos, version,
};

fn golden(name: &str, snapshot: &Snapshot, intent: &upgrade_core::intent::Intent, policy: &Policy) {
    let text = match plan_for(snapshot, intent, policy) {
        Ok(planned) => {
            let from = &planned.plan.from;
            let to = &planned.plan.to;
            format!("{from:?}\n{to:?}\n{}{}", sketch(&planned), report_text(&planned.report))
        }
        Err(report) => report_text(&report),
    };
    insta::assert_snapshot!(name, text);
}

fn workers(max_unavailable: Amount) -> Policy {
    let mut policy = Policy::default();
    policy.workers.max_unavailable = max_unavailable;
    policy
}

#[test]
fn plans() {
    let both = intent(Some("1.13.9"), Some("1.36.3"));
    golden("both", &cluster(3, 5, "1.11.6", "1.33.4"), &both, &workers(Amount::Count(2)));

    let os = intent(Some("1.13.9"), None);
    let small = cluster(3, 3, "1.13.1", "1.34.2");
    let workers_first = Policy {
        order: Order::WorkersFirst,
        soak: SignedDuration::from_secs(30),
        ..Policy::default()
    };
    golden("os_workers_first", &small, &os, &workers_first);

    let k8s = upgrade_core::intent::Intent {
        prefer: Preference::KubernetesFirst,
        ..intent(None, Some("1.35.2"))
    };
    golden("kubernetes", &cluster(3, 9, "1.13.1", "1.34.2"), &k8s, &Policy::default());

    let alone = Policy { accept_outage: true, ..Policy::default() };
    golden("single_node", &cluster(1, 0, "1.12.4", "1.34.2"), &os, &alone);

    let mut pools = cluster(3, 8, "1.13.1", "1.34.2");
    for number in 5..=8 {
        pools.nodes.get_mut(&format!("worker-{number}").as_str().into()).unwrap().pool =
            Some("gpu".to_owned());
    }
    let mut policy = workers(Amount::Percent(50));
    policy.workers.pools.insert("gpu".to_owned(), Amount::Count(1));
    golden("pools", &pools, &os, &policy);
}

#[test]
fn half_done_and_half_broken_clusters() {
    let os = intent(Some("1.13.9"), None);
    let mut half = cluster(3, 3, "1.13.1", "1.34.2");
    for node in ["cp-2", "worker-1", "worker-3"] {
        talos(&mut half, node).version = version("1.13.9");
    }
    golden("half_done", &half, &os, &Policy::default());

    let mut down = cluster(3, 5, "1.13.1", "1.34.2");
    kubernetes(&mut down, "worker-2").ready = false;
    golden("worker_down_with_room", &down, &os, &workers(Amount::Count(3)));
    golden("worker_down_without_room", &down, &os, &Policy::default());
}

#[test]
fn refusals() {
    let os = intent(Some("1.13.9"), None);
    let policy = Policy::default();

    let mut unknown = cluster(3, 2, "1.13.1", "1.34.2");
    unknown.nodes.get_mut(&"worker-1".into()).unwrap().kubernetes =
        Fact::Unknown("connection refused".to_owned());
    unknown.etcd = Fact::Unknown("no control plane answered".to_owned());
    golden("refused_unknown", &unknown, &os, &policy);

    let mut sick = cluster(3, 2, "1.13.1", "1.34.2");
    etcd(&mut sick).alarms.push("NOSPACE".to_owned());
    etcd(&mut sick).members[2].learner = true;
    kubernetes(&mut sick, "cp-3").ready = false;
    golden("refused_etcd", &sick, &os, &policy);

    golden("refused_two_control_planes", &cluster(2, 2, "1.13.1", "1.34.2"), &os, &policy);
    golden(
        "refused_nothing_asked",
        &cluster(3, 0, "1.13.1", "1.34.2"),
        &intent(None, None),
        &policy,
    );

    let mut plain = cluster(3, 0, "1.13.1", "1.34.2");
    for node in ["cp-1", "cp-2"] {
        let facts = talos(&mut plain, node);
        facts.schematic = None;
        facts.installer = Some(image("ghcr.io/siderolabs/installer:v1.13.1"));
        facts.extensions = vec![Extension { name: "gvisor".to_owned(), version: "1".to_owned() }];
    }
    golden("refused_extensions", &plain, &os, &policy);

    let mut bad = Policy::default();
    bad.retries.attempts = 0;
    bad.drain.timeout = SignedDuration::ZERO;
    let back = intent(Some("1.12.4"), Some("1.33.1"));
    golden("refused_everything_at_once", &cluster(2, 0, "1.13.1", "1.34.2"), &back, &bad);
}

#[test]
fn the_wire_form_is_pinned() {
    // Journals and UpgradeRuns hold plans: their form must not change unseen.
    let planned = plan_for(
        &cluster(1, 1, "1.13.1", "1.34.2"),
        &intent(Some("1.13.9"), Some("1.35.2")),
        &Policy { accept_outage: true, ..Policy::default() },
    )
    .unwrap();
    insta::assert_json_snapshot!("plan", planned.plan);
    assert_eq!(planned.plan.format, 1);
}
