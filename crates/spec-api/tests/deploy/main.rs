//! The definitions on a real API server, with the real kubectl: objects are accepted, refused
//! with the reason, completed, listed and explained as documented.

mod admission;
mod hub;
mod listed;

use spec_api::{ADDON_DEFINITIONS, DEFINITIONS};

use hub::Hub;

/// One test for all of it: starting the control plane takes longest. The hub is not shared,
/// since other tests need one without these definitions.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_work_on_a_real_api_server() {
    let hub = Hub::start().await;
    installed(&hub);
    admission::holds(&hub);
    listed::as_documented(&hub);
}

/// Everything is accepted as it is, twice, and without a warning.
fn installed(hub: &Hub) {
    let all = DEFINITIONS.iter().chain(&ADDON_DEFINITIONS);
    let all: Vec<&str> = all.map(|definition| definition.text).collect();
    for _ in 0..2 {
        let (code, _, told) = hub.run(&["apply", "--server-side", "-f", "-"], &all.join("---\n"));
        assert_eq!((code, told.as_str()), (0, ""), "no warnings either");
        hub.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=300s"], "");
    }
    let conditions = "jsonpath={.items[*].status.conditions[?(@.type==\"NonStructuralSchema\")]}";
    assert_eq!(hub.kubectl(&["get", "crd", "-o", conditions], ""), "");
}
