//! What a hub lacks, asked for with the shipped account and with others.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Hub, PATIENCE, Tenant};
use upgrade_controller::needs::{Missing, Needs, Weight};

/// Asks as the shipped account, for all namespaces.
async fn needs_of(tenant: &Tenant) -> Needs {
    let client = tenant.client().await;
    annotation_operator::needs::needs(client, tenant.namespace.clone(), None, false)
}

/// Asks until the answer is this: a hub takes a moment to know of a change.
async fn until(needs: &Needs, what: &str, holds: impl Fn(&[Missing]) -> bool) -> Vec<Missing> {
    let mut last = Vec::new();
    let asking = async {
        loop {
            last = needs.check().await.expect("an answer");
            if holds(&last) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    asked.unwrap_or_else(|_| panic!("never {what}: {last:#?}"));
    last
}

/// One thing is missing, of this weight and with these words.
fn only(weight: Weight, words: &str) -> impl Fn(&[Missing]) -> bool {
    move |missing| matches!(missing, [it] if it.weight == weight && it.what.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_in_single_namespaces_are_enough() {
    // It is asked about all namespaces, so it has a hub to itself.
    let hub = Hub::start().await;
    let tenant = hub.tenant("narrow").await;
    let needs = needs_of(&tenant).await;
    until(&needs, "complete", <[_]>::is_empty).await;
    let namespace = &tenant.namespace;
    tenant.delete(&format!("clusterrolebinding talos-operator-cluster-access-{namespace}")).await;
    // It is not needed before there is a cluster.
    let secrets = "may not get secrets in all namespaces";
    until(&needs, "noted", only(Weight::Noted, secrets)).await;
    tenant.cluster("inside").await;
    until(&needs, "needed", only(Weight::Needed, secrets)).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "narrow"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": format!("talos-operator-cluster-access-{namespace}")},
        "subjects": [{"kind": "ServiceAccount", "name": "talos-operator", "namespace": namespace}],
    });
    tenant.apply(&binding).await;
    until(&needs, "granted", <[_]>::is_empty).await;
    // A cluster outside our namespace delays nothing: the need is only noted.
    let other = hub.tenant("other").await;
    other.cluster("outside").await;
    let words = format!("may not get secrets in the namespace {}", other.namespace);
    until(&needs, "noted elsewhere", only(Weight::Noted, &words)).await;

    // Events are not worth waiting for.
    let role = format!("clusterrole talos-operator-{namespace}");
    let mut rules = tenant.get(&role).await["rules"].clone();
    let about_events = |rule: &Value| rule["apiGroups"][0] == "events.k8s.io";
    rules.as_array_mut().expect("rules").retain(|rule| !about_events(rule));
    tenant.merge(&role, &json!({"rules": rules})).await;
    let found = until(&needs, "without events", |missing| missing.len() == 2).await;
    let events = found.iter().find(|it| it.what.contains("create, patch events")).expect("events");
    assert_eq!(events.weight, Weight::Wanted, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_and_kinds_are_asked_for() {
    // It deletes a definition, so it has a hub to itself.
    let hub = Hub::start().await;
    let tenant = hub.tenant("kinds").await;
    let admin = tenant.admin_client();
    let needs = Needs { client: admin, ..needs_of(&tenant).await };
    until(&needs, "complete", <[_]>::is_empty).await;
    let elsewhere = Needs { namespace: "nowhere".to_owned(), ..needs.clone() };
    let found = elsewhere.check().await.expect("an answer");
    let absent = "the namespace nowhere does not exist";
    assert!(only(Weight::Needed, absent)(&found), "{found:#?}");
    assert_eq!(found[0].fix, "kubectl create namespace nowhere");
    let watched = Needs { watch_namespace: Some("nowhere".to_owned()), ..needs.clone() };
    let found = watched.check().await.expect("an answer");
    assert!(only(Weight::Needed, absent)(&found), "{found:#?}");

    // A namespace that is being deleted, and stays for a finalizer.
    let ending = hub.tenant("ending").await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "stays", "finalizers": ["test.vitistack.io/stay"]}});
    ending.apply(&lease).await;
    ending.delete(&format!("namespace {}", ending.namespace)).await;
    let inside = Needs { namespace: ending.namespace.clone(), ..needs.clone() };
    let words = format!("the namespace {} is being deleted", ending.namespace);
    until(&inside, "ending", only(Weight::Needed, &words)).await;
    ending.merge("lease stays", &json!({"metadata": {"finalizers": null}})).await;

    // The platform brings two of the kinds: only the third is to be brought.
    tenant.shell("kubectl delete crd upgraderuns.upgrade.vitistack.io").await;
    let words =
        "it does not serve upgraderuns.upgrade.vitistack.io (upgrade.vitistack.io/v1alpha1)";
    let found = until(&needs, "without runs", only(Weight::Needed, words)).await;
    let fix = "talos-operator crds upgraderuns.upgrade.vitistack.io | kubectl apply -f -";
    assert_eq!(found[0].fix, fix);
}
