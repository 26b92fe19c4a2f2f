//! Rollbacks: a node by its other slot, a node by an image, the cluster, and a
//! Kubernetes component.

use crate::bench::Bench;

#[test]
fn a_node_is_rolled_back_by_its_other_slot_and_by_an_image() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    bench.run("upgrade os --profile test --talos 1.13.12 --yes").code(0);
    let back = bench.run("rollback worker-1 --profile test --yes").code(0);
    back.says(&["Rollback plan", "Talos 1.13.12 → 1.12.11"]);
    assert_eq!(bench.talos(), ["1.13.12", "1.13.12", "1.13.12", "1.12.11"]);
    assert!(bench.read("test.yaml").contains("\"1.13.12\""), "one node is not the cluster");
    bench.run("rollback worker-1 --profile test --yes").code(1).says(&["no upgrade of worker-1"]);

    let image =
        format!("factory.talos.dev/metal-installer/{}:v1.12.11", talos_sim::model::EMPTY_SCHEMATIC);
    let line = format!("rollback cp-2 --image {image} --profile test --yes");
    bench.run(&line).code(0).says(&["Rollback plan"]);
    assert_eq!(bench.talos(), ["1.13.12", "1.12.11", "1.13.12", "1.12.11"]);
    let line = "rollback cp-3 --image x.example/installer:latest --profile test";
    bench.run(line).code(1).says(&["names no version in its tag"]);
    bench.run("rollback cp-3 --profile test").code(1).says(&["no terminal to ask on"]);

    // The rest of the cluster, and the profile with it.
    let line = "upgrade os --talos 1.12.11 --rollback --profile test --yes";
    bench.run(line).code(0);
    assert_eq!(bench.talos(), ["1.12.11"; 4]);
    assert!(bench.read("test.yaml").contains("\"1.12.11\""));
    bench.run("health --profile test").code(0).says(&["is healthy"]);
}
