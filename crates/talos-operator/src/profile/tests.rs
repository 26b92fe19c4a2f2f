//! Profiles as people write them.

use upgrade_core::amount::Amount;
use upgrade_core::intent::Installer;
use upgrade_core::policy::Order;

use super::*;

const WHOLE: &str = "\
# cluster profile: prod, the café's
name: prod
talosconfig: ./talosconfig
kubeconfig: /etc/kube/prod   # optional
talos:
  version: \"1.12.11\"   # what runs
  kubernetes_version: 'v1.34.2'
  factory:
    url: https://factory.talos.dev
    schematic_id: 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba

policy: {order: workers-first, workers: {max_unavailable: 2, pools: {gpu: 50%}},
  drain: {timeout: 10m, on_timeout: halt}, soak: 30s, snapshot: {dir: ./backups, keep: 5}}
";

fn parse(text: &str) -> Result<Profile, ProfileError> {
    Profile::parse(Path::new("clusters/prod.yaml"), text)
}

fn problems(text: &str) -> Vec<String> {
    match parse(text) {
        Err(ProfileError::Bad { problems, .. }) => {
            problems.iter().map(|problem| format!("{}: {}", problem.line, problem.what)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_profile_is_read() {
    let profile = parse(WHOLE).unwrap();
    assert_eq!(profile.name, "prod");
    assert_eq!(profile.talosconfig.as_deref(), Some(Path::new("clusters/talosconfig")));
    assert_eq!(profile.kubeconfig.as_deref(), Some(Path::new("/etc/kube/prod")));
    assert_eq!(profile.talos, Some(Version::new(1, 12, 11)));
    assert_eq!(profile.kubernetes, Some(Version::new(1, 34, 2)));
    assert_eq!(profile.factory_url.as_deref(), Some("https://factory.talos.dev"));
    assert!(profile.schematic.is_some_and(|id| id.starts_with("3765")));
    assert_eq!(profile.policy.order, Order::WorkersFirst);
    assert_eq!(profile.policy.workers.max_unavailable, Amount::Count(2));
    assert_eq!(profile.policy.workers.pools["gpu"], Amount::Percent(50));
    assert_eq!(profile.policy.snapshot.dir.as_deref(), Some("./backups"));
    assert!(parse("name: dev\n").unwrap().policy == Policy::default());
}

#[test]
fn a_profile_may_name_an_installer_image() {
    let text =
        "name: dev\ntalos:\n  image: registry.lan/talos/installer\n  keep_extensions: true\n";
    let profile = parse(text).unwrap();
    assert_eq!(profile.image.unwrap().to_string(), "registry.lan/talos/installer");
    assert!(profile.keep_extensions);
    let found = problems("name: dev\ntalos: {keep_extensions: perhaps}\n");
    assert!(found[0].starts_with("2: talos.keep_extensions:"), "{found:?}");
}

#[test]
fn nodes_may_have_intents_of_their_own() {
    let id = "ab".repeat(32);
    let profile = parse(&format!(
        "name: dev\nnodes:\n  gpu-1: {{hold: true}}\n  edge-1:\n    version: v1.12.11\n    \
         schematic_id: {id}\n  edge-2: {{image: registry.lan/talos/installer}}\n"
    ));
    let nodes = profile.unwrap().nodes;
    assert!(nodes[&"gpu-1".into()].hold);
    let edge = &nodes[&"edge-1".into()];
    assert_eq!(edge.talos, Some(Version::new(1, 12, 11)));
    assert_eq!(edge.installer, Some(Installer::Schematic(id)));
    assert!(matches!(nodes[&"edge-2".into()].installer, Some(Installer::Image(_))));
    let found = problems(
        "name: dev\nnodes:\n  a: {hold: perhaps}\n  b: held\n  c: {colour: red}\n  \
         d: {version: new}\n  e: {image: a.example/b, schematic_id: abc}\n",
    );
    let lines: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(lines, ["3", "4", "5", "6", "7", "7"], "{found:#?}");
    assert!(found[1].contains("nodes.b: fields belong here"), "{found:#?}");
    assert!(found[2].contains("nodes.c.colour: unknown field"), "{found:#?}");
}

#[test]
fn every_problem_is_named_with_its_line() {
    let found = problems(
        "name: [a]\ncolour: red\ntalos:\n  version: 1.x\n  kubernetes: 1.34.2\n  factory:\n    \
         url: factory\n    schematic_id: abc\npolicy:\n  order: sideways\n  workers:\n    \
         max_unavailable: 0\n    max: 1\n  soak: soon\n  drian: {}\n",
    );
    let lines: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(lines, ["1", "2", "4", "5", "7", "8", "10", "12", "13", "14", "15"], "{found:#?}");
    assert!(found[1].contains("colour: unknown field"), "{found:#?}");
    assert!(found[7].contains("policy.workers.max_unavailable"), "{found:#?}");
    assert!(found[7].contains("write a number from 1"), "{found:#?}");
    assert!(found[10].contains("policy.drian"), "{found:#?}");
}

#[test]
fn snapshots_may_go_to_s3() {
    let address = "s3://backups/prod?region=eu-north-1";
    let profile = parse(&format!("name: dev\npolicy: {{snapshot: {{dir: \"{address}\"}}}}\n"));
    assert_eq!(profile.unwrap().policy.snapshot.dir.as_deref(), Some(address));
    let found = problems("name: dev\npolicy:\n  snapshot:\n    dir: s3://Backups\n");
    assert!(found[0].starts_with("4: policy.snapshot.dir: `s3://Backups` is not"), "{found:?}");
}

#[test]
fn a_profile_has_a_name() {
    assert_eq!(problems(""), ["1: the profile is empty"]);
    assert_eq!(problems("talosconfig: x\n"), ["1: name: the field is missing"]);
    assert!(problems("name:\n")[0].contains("the value is missing"));
    assert!(problems("name: ../x\n")[0].contains("is not a name"));
    assert!(problems("- name\n")[0].contains("fields belong here, not a list"));
    assert!(problems("name: x\npolicy: {drain: {timeout: 0s}}\n")[0].contains("drain.timeout"));
    assert!(problems("name: x\npolicy: fast\n")[0].starts_with("2: policy: "));
}

fn written() -> Written {
    Written {
        talos: Some(Version::new(1, 13, 9)),
        kubernetes: Some(Version::new(1, 36, 3)),
        schematic: None,
    }
}

#[test]
fn only_the_versions_change() {
    let new = write::replace(WHOLE, &written()).unwrap();
    let expected = WHOLE.replace("\"1.12.11\"", "\"1.13.9\"").replace("'v1.34.2'", "'v1.36.3'");
    assert_eq!(new, expected);
    // Flow form, no quotes, line ends of another system, no last line break.
    let text = "name: x\r\ntalos: {version: 1.12.11, kubernetes_version: 1.34.2} # a\r\n# end";
    let new = write::replace(text, &written()).unwrap();
    assert_eq!(new, text.replace("1.12.11", "1.13.9").replace("1.34.2", "1.36.3"));
}

#[test]
fn missing_fields_are_not_added() {
    let text = "name: x\ntalos: {version: 1.12.11}\n";
    let new = write::replace(text, &written()).unwrap();
    assert_eq!(new, "name: x\ntalos: {version: 1.13.9}\n");
    assert_eq!(write::replace("name: x\n", &written()).unwrap(), "name: x\n");
}

#[test]
fn a_file_is_replaced_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prod.yaml");
    fs::write(&path, WHOLE).unwrap();
    let profile = Profile::load(&path).unwrap();
    assert!(profile.write_back(&written()).unwrap());
    assert!(!profile.write_back(&written()).unwrap(), "nothing is different any more");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, write::replace(WHOLE, &written()).unwrap());
    fs::write(&path, "a: [").unwrap();
    assert!(matches!(profile.write_back(&written()), Err(ProfileError::Changed { .. })));
    assert!(matches!(
        Profile::load(&folder.path().join("missing.yaml")),
        Err(ProfileError::Read { .. })
    ));
}
