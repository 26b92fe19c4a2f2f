//! What users see, word for word: the built binary's streams and exit code.
//!
//! Read a changed snapshot as a user would before accepting it.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// Runs a command line and writes down all that came of it.
fn transcript(line: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_talos-operator"))
        .args(line.split_whitespace())
        // The reader's terminal must not show in the snapshots.
        .env_remove("CLICOLOR_FORCE")
        .env_remove("COLUMNS")
        .env_remove("TALOSCONFIG")
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("HOME", "/nowhere")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let mut text = format!(
        "$ talos-operator {line}\n[exit {}]\n",
        output.status.code().expect("an exit code")
    );
    for (name, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        let content = String::from_utf8(bytes).expect("text");
        assert!(!content.contains('\u{1b}'), "colour without a terminal: {content}");
        if !content.is_empty() {
            let _ = write!(text, "[{name}]\n{content}");
        }
    }
    text
}

macro_rules! golden {
    ($($(#[$reason:meta])* $name:ident: $line:literal),* $(,)?) => {
        $(
            $(#[$reason])*
            #[test]
            fn $name() {
                insta::with_settings!({
                    omit_expression => true,
                    prepend_module_to_snapshot => false,
                    snapshot_path => "../snapshots",
                }, {
                    insta::assert_snapshot!(stringify!($name), transcript($line));
                });
            }
        )*
    };
}

mod planned {
    use super::transcript;

    golden! {
        /// The example of the documentation.
        plan_both: "plan --offline --talos-from 1.11.6 --talos-to 1.13.9 \
            --kubernetes-from 1.33.4 --kubernetes-to 1.36.3 --control-planes 3 --workers 5",
        plan_both_talos_first: "plan --offline --talos-from 1.11.6 --talos-to 1.13.9 \
            --kubernetes-from 1.33.4 --kubernetes-to 1.36.3 --workers 1 --prefer talos-first",
        plan_talos_only: "plan --offline --talos-from v1.12.11 --talos-to v1.13.12 --workers 2",
        /// Kubernetes stays, but every pair is checked against it.
        plan_talos_beside_kubernetes: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 \
            --kubernetes-from 1.34.2 --workers 2",
        plan_kubernetes_only: "plan --offline --kubernetes-from 1.33.4 --kubernetes-to 1.34.13 --workers 3",
        /// Nodes on 1.13 and newer install ahead; the steps of a node differ.
        plan_lifecycle_nodes: "plan --offline --talos-from 1.13.12 --talos-to 1.14.4 --workers 1 --soak 1m30s",
        plan_skip_minors: "plan --offline --talos-from 1.11.6 --talos-to 1.13.12 --skip-minors --workers 2",
        plan_newest_patch_first: "plan --offline --talos-from 1.13.4 --talos-to 1.14.4 --workers 1",
        plan_newest_patch_skipped: "plan --offline --talos-from 1.13.4 --talos-to 1.14.4 --workers 1 --skip-minors",
        plan_single_accepted: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 \
            --control-planes 1 --accept-outage",
        plan_two_accepted: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 \
            --control-planes 2 --accept-outage",
        plan_four_control_planes: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --control-planes 4",
        plan_percent_of_workers: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 \
            --workers 20 --max-unavailable 25%",
        plan_workers_first: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 \
            --workers 5 --max-unavailable 2 --order workers-first",
        plan_plain_installer_gone: "plan --offline --talos-from 1.13.12 --talos-to 1.14.4 \
            --installer ghcr.io/siderolabs/installer:v1.13.12",
        plan_digest_replaced: "plan --offline --talos-from 1.12.4 --talos-to 1.12.11 \
            --installer ghcr.io/siderolabs/installer:v1.12.4@sha256:0123456789abcdef",
        plan_new_schematic: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --drop-extensions \
            --schematic ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
        plan_rollback: "plan --offline --talos-from 1.13.12 --talos-to 1.12.11 --rollback",
        plan_rollback_over_etcd: "plan --offline --talos-from 1.14.4 --talos-to 1.13.12 --rollback",
        /// One worker alone; the others are held.
        plan_one_node: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --kubernetes-from 1.34.2 \
            --workers 3 --node worker-2",
        /// A control plane stays behind, and the plan says what that means.
        plan_held_control_plane: "plan --offline --talos-from 1.13.12 --talos-to 1.14.4 \
            --workers 1 --hold cp-2",
        plan_held_worker_from_both: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 \
            --kubernetes-from 1.34.2 --kubernetes-to 1.35.10 --workers 2 --hold worker-1",
        plan_one_node_json: "plan --offline --talos-from 1.13.12 --talos-to 1.14.4 --control-planes 1 \
            --workers 1 -n worker-1 -o json",
        plan_broken_release: "plan --offline --talos-from 1.12.11 --talos-to 1.13.3",
        plan_prerelease: "plan --offline --talos-from 1.14.4 --talos-to 1.15.0-alpha.1",
        plan_own_data: "plan --offline --talos-from 1.20.1 --talos-to 1.21.2 \
            --matrix matrix.toml --catalogue catalogue.toml",
        plan_json: "plan --offline --talos-from 1.13.12 --talos-to 1.14.4 \
            --kubernetes-from 1.36.3 --kubernetes-to 1.37.2 \
            --control-planes 1 --workers 1 --accept-outage -o json",
    }
}

mod refused {
    use super::transcript;

    golden! {
        refused_single: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --control-planes 1",
        refused_two: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --control-planes 2",
        refused_old_host: "plan --offline --talos-from 1.7.7 --talos-to 1.8.4",
        refused_downgrade: "plan --offline --talos-from 1.13.12 --talos-to 1.12.11 \
            --kubernetes-from 1.34.2 --kubernetes-to 1.33.1",
        refused_kubernetes_rollback: "plan --offline --kubernetes-from 1.34.2 --kubernetes-to 1.33.1 --rollback",
        refused_equal: "plan --offline --talos-from 1.13.9 --talos-to v1.13.9 \
            --kubernetes-from 1.36.3 --kubernetes-to 1.36.3",
        refused_equal_json: "plan --offline --talos-from 1.13.9 --talos-to 1.13.9 -o json",
        refused_unknown_minor: "plan --offline --talos-from 1.13.9 --talos-to 1.99.0 \
            --kubernetes-from 1.36.3 --kubernetes-to 1.99.0",
        refused_no_path: "plan --offline --talos-from 1.13.9 --talos-to 1.13.9 \
            --kubernetes-from 1.36.3 --kubernetes-to 1.37.2",
        /// Everything that is wrong is said at once.
        refused_many: "plan --offline --talos-from 1.13.9 --talos-to 1.12.11 \
            --kubernetes-from 1.36.3 --kubernetes-to 1.39.0 --control-planes 2",
        refused_json: "plan --offline --talos-from 1.13.9 --talos-to 1.13.9 \
            --kubernetes-from 1.36.3 --kubernetes-to 1.37.2 --output json",
        refused_other_major: "plan --offline --talos-from 0.14.0 --talos-to 1.13.9",
        refused_upward_rollback: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --rollback",
        refused_unknown_talos_runs: "plan --offline --talos-from 1.1.0 --kubernetes-from 1.24.1 \
            --kubernetes-to 1.25.3",
        refused_no_way_out: "plan --offline --talos-from 1.11.6 --kubernetes-from 1.26.1 \
            --kubernetes-to 1.29.2",
        refused_no_such_node: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --workers 2 \
            --node worker-1,worker-9",
        refused_held_from_kubernetes: "plan --offline --kubernetes-from 1.33.4 --kubernetes-to 1.34.13 \
            --hold cp-1",
        refused_all_held: "plan --offline --talos-from 1.12.11 --talos-to 1.13.12 --hold cp-1,cp-2,cp-3",
        refused_matrix_line: "matrix --talos 1.99",
    }
}

mod bad_usage {
    use super::transcript;

    golden! {
        usage_no_command: "",
        /// No cluster is named, and there is no talosconfig.
        usage_live_plan: "plan --talos-to 1.13.9 --talosconfig missing",
        usage_upgrade: "upgrade both --talos 1.13.9 --kubernetes 1.36.3 --talosconfig missing",
        usage_upgrade_nothing: "upgrade",
        usage_upgrade_twice: "upgrade os --upgrade-type both --talos 1.13.9",
        usage_upgrade_other_target: "upgrade os --talos 1.13.9 --kubernetes 1.36.3 --state nowhere",
        usage_upgrade_no_target: "upgrade both --talos 1.13.9 --state nowhere",
        usage_upgrade_two_installers: "upgrade os --talos 1.13.9 --extensions zfs --image a.example/b:v1",
        usage_node_and_kubernetes: "upgrade both --talos 1.13.9 --kubernetes 1.36.3 --node cp-1 --state nowhere",
        usage_node_and_hold: "upgrade os --talos 1.13.9 --node cp-1 --hold cp-2",
        usage_extensions: "upgrade os --talos 1.13.9 --extensions ZFS",
        usage_factory: "upgrade os --talos 1.13.9 --extensions zfs --factory factory.talos.dev",
        usage_rollback_nothing: "rollback",
        usage_rollback_both: "rollback cp-1 --kubernetes",
        usage_keep: "snapshot --keep 0",
        usage_snapshot_address: "snapshot --talosconfig tests/data/none --state none --dir s3://backups?endpoint=http://minio:9000",
        usage_log: "version --client --log loudly=very",
        usage_demo_fault: "demo --fault flood",
        usage_offline_flags: "plan --workers 3 --talos-to 1.13.9",
        usage_offline_extensions: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --extensions zfs",
        /// Every problem of a profile, with its line.
        usage_profile: "upgrade both --profile bad-profile.yaml",
        usage_profile_empty: "status --profile empty-profile.yaml",
        usage_profile_not_yaml: "status --profile not-yaml.yaml",
        usage_profile_missing: "status --profile missing.yaml",
        usage_version: "plan --offline --talos-from 1.x --talos-to 1.13.9",
        usage_version_without_patch: "plan --offline --talos-from 1.12 --talos-to 1.13.9",
        usage_no_side: "plan --offline --workers 5",
        usage_no_from: "plan --offline --talos-to 1.13.9",
        usage_no_to: "plan --offline --kubernetes-from 1.33.4 --talos-from 1.12.4",
        usage_no_control_planes: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --control-planes 0",
        usage_negative_workers: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --workers -1",
        usage_amount: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --max-unavailable 0",
        usage_soak: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --soak 30",
        usage_order: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --order sideways",
        usage_misspelt: "plan --ofline",
        usage_unknown_command: "plna",
        usage_installer: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --installer https://example.com/a",
        usage_schematic: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --schematic iscsi-tools",
        usage_no_matrix_file: "matrix --matrix missing.toml",
        usage_bad_matrix_file: "matrix --matrix catalogue.toml",
        usage_bad_catalogue_file: "plan --offline --talos-from 1.12.4 --talos-to 1.13.9 --catalogue bad-catalogue.toml",
        usage_matrix_line: "matrix --talos newest",
        usage_operator_no_hub: "operator",
        usage_operator_kubeconfig: "operator --kubeconfig not-yaml.yaml",
        usage_operator_absent_kubeconfig: "operator --kubeconfig gone.yaml",
        usage_operator_context: "operator --kubeconfig kubeconfig.yaml --context gone",
        usage_log_format: "operator --log-format xml",
        usage_crds: "crds nodes",
        usage_operator_versions: "operator --talos-versions 1.13",
        usage_operator_snapshots: "operator --snapshots s3://backups?region=eu-north-1&token=hunter2",
        usage_operator_factory: "operator --image-factory factory.talos.dev",
        usage_operator_look_every: "operator --look-every 0s",
        usage_operator_lease: "operator --lease-duration 1s",
        usage_sim_speed: "sim --speed fast",
        usage_sim_span: "sim --reboot 60s-30s",
        usage_sim_subnet: "sim --subnet 10.0.0.0",
        usage_sim_fault: "sim fault cp-1 flood",
        usage_sim_faults_file: "sim --dir nowhere --faults catalogue.toml",
    }
}

mod simulator {
    use super::transcript;

    golden! {
        /// The folder of this test's data is full of other things.
        sim_not_ours: "sim --dir .",
        sim_nothing_there: "sim faults --dir nowhere",
        sim_no_cluster_to_mint_for: "sim talosconfig --dir nowhere",
    }
}

mod answers {
    use super::transcript;

    golden! {
        help: "--help",
        help_plan: "plan --help",
        help_upgrade: "upgrade --help",
        help_status: "status --help",
        help_resume: "resume --help",
        help_pause: "pause --help",
        help_rollback: "rollback --help",
        help_health: "health --help",
        help_snapshot: "snapshot --help",
        help_version: "version --help",
        help_demo: "demo --help",
        help_matrix: "matrix --help",
        help_crds: "crds --help",
        help_operator: "operator --help",
        help_sim: "sim --help",
        help_sim_fault: "sim fault --help",
        help_sim_talosconfig: "sim talosconfig --help",
        sim_fault_kinds: "sim faults --kinds",
        version: "--version",
        matrix: "matrix",
        matrix_line: "matrix --talos v1.13.9",
        matrix_oldest_line: "matrix --talos 1.2",
        matrix_unreleased_line: "matrix --talos 1.15",
        matrix_json: "matrix --talos 1.13 -o json",
        matrix_own_data: "matrix --matrix matrix.toml --catalogue catalogue.toml",
    }
}

/// The manifests that are shipped have the definitions that the binary prints.
#[test]
fn crds_are_those_that_are_shipped() {
    let printed = transcript("crds");
    let shipped = include_str!("../../../../deploy/10-crds.yaml");
    let expected = format!("$ talos-operator crds\n[exit 0]\n[stdout]\n{shipped}");
    assert!(printed == expected, "run `talos-operator crds > deploy/10-crds.yaml`");
}

/// Colours are there where they are wanted, and only there.
#[test]
fn colours_follow_the_environment() {
    let run = |name: &str, value: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_talos-operator"))
            .arg("matrix")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("NO_COLOR")
            .env(name, value)
            .output()
            .expect("the binary runs");
        output.stdout.contains(&0x1b)
    };
    assert!(run("CLICOLOR_FORCE", "1"));
    assert!(!run("NO_COLOR", "1"));
}

/// What the help tells people to type works as it stands.
#[test]
fn examples_of_the_help_work() {
    let mut examples = 0;
    for line in ["--help", "plan --help", "matrix --help"] {
        let help = transcript(line).replace("\\\n", " ");
        for example in help.lines().filter_map(|line| line.strip_prefix("    talos-operator ")) {
            let words: Vec<&str> = example.split_whitespace().collect();
            // These need a cluster; `live` has them.
            if !words.contains(&"--offline") && words[0] != "matrix" {
                continue;
            }
            let result = transcript(&words.join(" "));
            assert!(result.contains("[exit 0]"), "{result}");
            examples += 1;
        }
    }
    assert_eq!(examples, 6);
}
