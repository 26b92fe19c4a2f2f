//! Worlds are small, and reading them does not change them.

use proptest::prelude::*;
use talos_proto::machine;

use super::super::*;
use super::driver::{Driver, START};

/// A thousand clusters of ten nodes have to fit into 1.5 GiB. The serialised size is a fair measure
/// of the size in memory.
#[test]
fn a_world_of_ten_nodes_is_small() {
    let spec = ClusterSpec::new(3, 7, &Version::new(1, 13, 9), &Version::new(1, 36, 1));
    let world = World::new(&spec, 0, START);
    let stored = serde_json::to_vec(&world).unwrap().len();
    assert!(stored < 200_000, "{stored} bytes");
}

#[derive(Clone, Debug)]
enum Act {
    Wait(u64),
    Reboot(usize),
    Upgrade(usize),
    Fault(usize, u8),
    Clear(usize, u8),
    Watch(usize),
    Store,
}

fn fault(number: u8) -> Fault {
    match number % 9 {
        0 => Fault::NeverReturns,
        1 => Fault::BootBack,
        2 => Fault::LostReboot,
        3 => Fault::NotReady,
        4 => Fault::EtcdLearner,
        5 => Fault::Partition,
        6 => Fault::FailingPull,
        7 => Fault::KubeletNeverReturns,
        _ => Fault::EtcdAlarm { corrupt: true },
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let node = 0..5_usize;
    let act = prop_oneof![
        4 => (0..300_u64).prop_map(Act::Wait),
        2 => node.clone().prop_map(Act::Reboot),
        2 => node.clone().prop_map(Act::Upgrade),
        1 => (node.clone(), any::<u8>()).prop_map(|(node, fault)| Act::Fault(node, fault)),
        1 => (node.clone(), any::<u8>()).prop_map(|(node, fault)| Act::Clear(node, fault)),
        1 => node.prop_map(Act::Watch),
        1 => Just(Act::Store),
    ];
    proptest::collection::vec(act, 0..40)
}

fn run(seed: u64, acts: &[Act], store: bool) -> Driver {
    let spec = ClusterSpec::new(3, 2, &Version::new(1, 12, 6), &Version::new(1, 34, 2));
    let mut driver = Driver::with(&spec, seed);
    let mut upgraded = [false; 5];
    for act in acts {
        match act {
            Act::Wait(seconds) => driver.secs(*seconds),
            Act::Reboot(node) => {
                let _ = driver.call(*node, Request::Reboot(machine::RebootRequest { mode: 0 }));
            }
            // A second installer deletes what the node could fall back on (rule 5): one
            // that does not boot then stays down, as on real machines.
            Act::Upgrade(node) if std::mem::replace(&mut upgraded[*node], true) => {}
            Act::Upgrade(node) => {
                let image = format!("factory.talos.dev/installer/{EMPTY_SCHEMATIC}:v1.13.9");
                let request = machine::UpgradeRequest { image, ..Default::default() };
                let _ = driver.call(*node, Request::Upgrade(request));
            }
            Act::Fault(node, number) => {
                driver.world.inject(driver.now, Some(NodeIndex(*node)), &fault(*number));
            }
            Act::Clear(node, number) => {
                let kind = fault(*number).kind();
                driver.world.clear(driver.now, Some(NodeIndex(*node)), kind);
            }
            Act::Watch(node) => {
                let request = talos_proto::cosi::resource::WatchRequest {
                    namespace: "runtime".to_owned(),
                    r#type: "Services.v1alpha1.talos.dev".to_owned(),
                    api_version: 1,
                    ..Default::default()
                };
                let _ = driver.call(*node, Request::CosiWatch(request));
            }
            Act::Store if store => {
                let stored = serde_json::to_vec(&driver.world).unwrap();
                driver.world = serde_json::from_slice(&stored).unwrap();
            }
            Act::Store => {}
        }
    }
    driver
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The same acts always have the same effects; and once all faults are cleared and everything
    /// is powered on, the cluster heals.
    #[test]
    fn runs_repeat_and_clusters_heal(seed in any::<u64>(), acts in acts()) {
        let mut one = run(seed, &acts, false);
        let two = run(seed, &acts, false);
        prop_assert_eq!(
            serde_json::to_string(&one.world).unwrap(),
            serde_json::to_string(&two.world).unwrap()
        );
        prop_assert_eq!(format!("{:?}{:?}", one.got, one.ended), format!("{:?}{:?}", two.got, two.ended));
        for number in 0..8 {
            one.world.clear(one.now, None, fault(number).kind());
        }
        one.secs(1200);
        for node in 0..5 {
            prop_assert!(one.is_ready(node), "node {} is not ready", node);
        }
    }

    /// A restart of the simulator costs open streams and the pulls that a caller waited for, and
    /// nothing else.
    #[test]
    fn a_stored_world_heals_too(seed in any::<u64>(), acts in acts()) {
        let mut driver = run(seed, &acts, true);
        for number in 0..8 {
            driver.world.clear(driver.now, None, fault(number).kind());
        }
        driver.secs(1200);
        for node in 0..5 {
            prop_assert!(driver.is_ready(node), "node {} is not ready", node);
        }
    }
}
