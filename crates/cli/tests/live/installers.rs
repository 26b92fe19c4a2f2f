//! Another schematic on the way to another version.

use crate::bench::Bench;

#[test]
fn new_extensions_make_a_new_schematic() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    let empty = talos_sim::model::EMPTY_SCHEMATIC;
    let factory = bench.cluster().factory_url();
    bench.edit(
        "  kubernetes_version: '1.34.2'\n",
        &format!(
            "  kubernetes_version: '1.34.2'\n  factory: {{url: \"{factory}\", schematic_id: {empty}}}\n"
        ),
    );
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
    // Another installer alone is not put in place.
    bench
        .run(&format!("upgrade os --profile test --talos 1.14.4 --schematic {empty} --yes"))
        .code(1)
        .says(&["on the way to another Talos", "another patch is enough"]);
}
