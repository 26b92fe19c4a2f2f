//! Budgets: what they count, and one that blocks every eviction.

use super::*;

#[test]
fn budgets_count() {
    let mut cluster = cluster(2);
    add(&mut cluster, deployment("web", 4, "web:1"));
    for (field, value, allowed) in [
        ("minAvailable", json!(3), 1),
        ("maxUnavailable", json!(2), 2),
        ("maxUnavailable", json!("30%"), 2),
        ("minAvailable", json!("100%"), 0),
        ("maxUnavailable", json!(0), 0),
    ] {
        add(&mut cluster, budget("web", field, &value));
        let later = cluster.server.store().now().plus(Duration::from_secs(20));
        cluster.advance(later);
        let found = status(&cluster, &POD_DISRUPTION_BUDGETS, "web", "disruptionsAllowed");
        assert_eq!(found, allowed, "{field} {value}");
        assert_eq!(status(&cluster, &POD_DISRUPTION_BUDGETS, "web", "currentHealthy"), 4);
        assert_eq!(status(&cluster, &POD_DISRUPTION_BUDGETS, "web", "expectedPods"), 4);
        let store = cluster.server.store_mut();
        let options = DeleteOptions::default();
        store.delete(&me(), &POD_DISRUPTION_BUDGETS, "default", "web", &options).unwrap();
    }
}

#[test]
fn a_stuck_budget_blocks_evictions_until_the_fault_ends() {
    let mut cluster = cluster(2);
    add(&mut cluster, deployment("web", 4, "web:1"));
    add(&mut cluster, budget("web", "minAvailable", &json!(1)));
    cluster.advance(after(20));
    let allowed =
        |cluster: &Cluster| status(cluster, &POD_DISRUPTION_BUDGETS, "web", "disruptionsAllowed");
    assert_eq!(allowed(&cluster), 3);
    let mut stuck = facts(2);
    stuck[1].faults.budgets_stuck = true;
    cluster.sync(after(20), &stuck);
    assert_eq!(allowed(&cluster), 0);
    let name = object::name(&pods(&cluster)[0]).to_owned();
    let options = DeleteOptions::default();
    let refused = cluster.server.store_mut().evict(&me(), "default", &name, &options).unwrap_err();
    assert_eq!(refused.code, 429);
    let why = &refused.details.unwrap().causes[0].message;
    assert!(why.contains("because it failed sync: evictions from w0 are blocked"), "{why}");
    // Changed numbers make no difference.
    add(&mut cluster, deployment("other", 1, "web:1"));
    cluster.advance(after(30));
    assert_eq!(allowed(&cluster), 0);
    cluster.sync(after(30), &facts(2));
    assert_eq!(allowed(&cluster), 3);
    cluster.server.store_mut().evict(&me(), "default", &name, &options).unwrap();
}

#[test]
fn pods_without_a_controller_do_not_count_and_unknown_owners_are_an_error() {
    let mut cluster = cluster(1);
    let pod = |name: &str, owners: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default", "labels": {"app": "web"},
                "ownerReferences": owners,
            },
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        })
    };
    add(&mut cluster, deployment("web", 2, "web:1"));
    add(&mut cluster, budget("web", "maxUnavailable", &json!(1)));
    add(&mut cluster, pod("free", json!([])));
    cluster.advance(after(20));
    assert_eq!(status(&cluster, &POD_DISRUPTION_BUDGETS, "web", "expectedPods"), 2);
    let owner = get(&cluster, &NODES, "w0");
    let owners = json!([{
        "apiVersion": "v1", "kind": "Node", "name": "w0", "uid": object::uid(&owner),
        "controller": true,
    }]);
    add(&mut cluster, pod("strange", owners));
    cluster.advance(after(40));
    assert_eq!(status(&cluster, &POD_DISRUPTION_BUDGETS, "web", "disruptionsAllowed"), 0);
    let found = get(&cluster, &POD_DISRUPTION_BUDGETS, "web");
    let message = object::text(conditions::get(&found, "DisruptionAllowed").unwrap(), &["message"]);
    assert_eq!(message, "found no controllers for pod \"strange\"");
}
