//! Another schematic on the way to another version; installers that fit the machines.

use talos_sim::cluster::Machines;

use crate::bench::Bench;

/// The cluster's own factory, in the profile.
fn with_factory(bench: &Bench) {
    let (empty, factory) = (talos_sim::model::EMPTY_SCHEMATIC, bench.cluster().factory_url());
    let line = format!("  factory: {{url: \"{factory}\", schematic_id: {empty}}}\n");
    let version = "  kubernetes_version: '1.34.2'\n";
    bench.edit(version, &format!("{version}{line}"));
}

#[test]
fn new_extensions_make_a_new_schematic() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    let empty = talos_sim::model::EMPTY_SCHEMATIC;
    with_factory(&bench);
    let upgrade = "upgrade os --profile test --talos 1.13.12 --yes --extensions";
    bench
        .run(&format!("{upgrade} teleporter"))
        .code(1)
        .says(&["no extension siderolabs/teleporter"]);
    bench.run(&format!("{upgrade} Te")).code(2).says(&["is not an extension"]);
    bench.run(&format!("{upgrade} iscsi-tools,util-linux-tools")).code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
    let profile = bench.read("test.yaml");
    assert!(!profile.contains(empty), "the new schematic is written back: {profile}");
    let id = profile.split("schematic_id: ").nth(1).unwrap().split('}').next().unwrap().to_owned();
    assert_eq!(id.len(), 64, "{profile}");
    // The next upgrade keeps it without being told (rule 4).
    bench.run("upgrade os --profile test --talos 1.14.4 --yes").code(0).says(&[&id[..12]]);
    assert_eq!(bench.talos(), ["1.14.4"; 4]);
    // Another schematic alone takes an installation and a reboot too.
    let line = format!("upgrade os --profile test --talos 1.14.4 --schematic {empty} --yes");
    let boots = bench.boots();
    bench.run(&line).code(0).says(&["Talos 1.14.4, another schematic", "schematic"]);
    assert_eq!(bench.talos(), ["1.14.4"; 4]);
    let after = bench.boots();
    assert!(boots.iter().zip(&after).all(|(before, after)| before != after), "all have rebooted");
    assert!(bench.read("test.yaml").contains(empty), "it is written back");
    // Once is enough.
    let refused = bench.run(&line).code(1);
    refused.says(&["every node already runs this Talos version", "another patch"]);
    assert_eq!(bench.boots(), after);
}

#[test]
fn a_schematic_that_does_not_boot_is_a_boot_fallback() {
    let bench = Bench::start(3, 1, "1.13.9", "1.34.2");
    with_factory(&bench);
    bench.inject("worker-1", "boot-back");
    let line = "upgrade os --profile test --talos 1.13.9 --extensions iscsi-tools --yes";
    let halted = bench.run(&format!("{line} --order workers-first")).code(1);
    // Rule 5.
    halted.says(&["halted:", "worker-1 came back on its old schematic"]);
}

#[test]
fn the_running_installer_is_kept_whatever_the_machine_config_names() {
    // Rule 4: with the installer of the machine config no node would come back.
    let machines = Machines {
        platform: "nocloud".to_owned(),
        secure_boot: true,
        install_image: Some("ghcr.io/siderolabs/installer:v1.13.9".to_owned()),
    };
    let bench = Bench::of_machines(machines, "1.13.9");
    let other = format!(
        "upgrade os --profile test --talos 1.13.12 --yes --image factory.talos.dev/installer/{}",
        talos_sim::model::EMPTY_SCHEMATIC
    );
    let refused = bench.run(&other).code(1);
    refused.says(&["is not for cp-1", "nocloud with Secure Boot", "nocloud-installer-secureboot"]);
    let done = bench.run("upgrade os --profile test --talos 1.14.4 --yes").code(0);
    done.says(&["nocloud-installer-secureboot", "its machine config names ghcr.io"]);
    assert_eq!(bench.talos(), ["1.14.4"; 4]);
}

#[test]
fn containers_are_refused_before_anything_is_done() {
    let machines = Machines { platform: "container".to_owned(), ..Machines::default() };
    let bench = Bench::of_machines(machines, "1.13.9");
    let refused = bench.run("upgrade os --profile test --talos 1.13.12 --yes").code(1);
    refused.says(&["cp-1 runs Talos in a container", "cannot be upgraded"]);
    bench.run("upgrade k8s --profile test --kubernetes 1.34.13 --yes").code(0);
}
