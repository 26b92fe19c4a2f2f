//! Calls that change something are sent at most once, and their error says what is known (rule 8).

use std::time::Duration;

use talos_client::config::ApplyMode;
use talos_client::image::{ImageStore, LayerState};
use talos_client::install::{ExitCode, InstallError};
use talos_client::machine::{ActorId, RebootMode};
use talos_client::upgrade::{Armed, LegacyUpgrade, Upgrade, UpgradeError, UpgradeProgress};
use talos_client::{Failure, Outcome};
use talos_proto::common::ContainerdInstance;
use talos_proto::machine as wire;
use talos_proto::machine::image_service_pull_response::Response as Pulled;
use talos_proto::machine::lifecycle_service_install_progress::Response as Installed;
use tonic::Code;
use upgrade_core::plan::UpgradeApi;

use crate::node::{Call, Node, Step, send};
use crate::pki::{Authority, Valid};
use crate::{World, client, client_with, deadlines};

fn version(tag: &str, mode: &str) -> Vec<Step> {
    vec![send(&wire::VersionResponse {
        messages: vec![wire::Version {
            version: Some(wire::VersionInfo {
                tag: tag.to_owned(),
                ..wire::VersionInfo::default()
            }),
            platform: Some(wire::PlatformInfo { name: "metal".to_owned(), mode: mode.to_owned() }),
            ..wire::Version::default()
        }],
    })]
}

fn rebooting() -> Vec<Step> {
    vec![send(&wire::RebootResponse {
        messages: vec![wire::Reboot { metadata: None, actor_id: "actor".to_owned() }],
    })]
}

fn line(text: &str) -> Step {
    installer(Installed::Message(text.to_owned()))
}

fn exit(code: i32) -> Step {
    installer(Installed::ExitCode(code))
}

fn installer(response: Installed) -> Step {
    send(&wire::LifecycleServiceUpgradeResponse {
        progress: Some(wire::LifecycleServiceInstallProgress { response: Some(response) }),
    })
}

fn pulled(name: &str) -> Step {
    send(&wire::ImageServicePullResponse { response: Some(Pulled::Name(name.to_owned())) })
}

fn layer(offset: i64) -> Step {
    send(&wire::ImageServicePullResponse {
        response: Some(Pulled::PullProgress(wire::ImageServicePullProgress {
            layer_id: "sha256:1".to_owned(),
            progress: Some(wire::ImageServicePullLayerProgress {
                offset,
                total: 10,
                ..wire::ImageServicePullLayerProgress::default()
            }),
        })),
    })
}

/// A node that answers `Version`, and every other call with these steps.
fn after_version(steps: &'static (dyn Fn() -> Vec<Step> + Sync)) -> impl Fn(&Call) -> Vec<Step> {
    move |call| match call.method() {
        "Version" => version("v1.13.9", "metal"),
        _ => steps(),
    }
}

#[tokio::test]
async fn a_reboot_is_sent_once_with_its_mode() {
    let world = World::new(after_version(&rebooting)).await;
    let actor = world.node.reboot(RebootMode::PowerCycle).await.unwrap();
    assert_eq!(actor, ActorId("actor".to_owned()));
    let calls = world.server.calls("Reboot");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].node.as_deref(), Some("10.5.0.2"));
    let mode = calls[0].request::<wire::RebootRequest>().mode();
    assert_eq!(mode, wire::reboot_request::Mode::Powercycle);
    // The harmless request goes to the endpoint, not to the node.
    assert_eq!(world.server.calls("Version")[0].node, None);
}

#[tokio::test]
async fn an_act_that_may_have_happened_is_unknown_and_not_repeated() {
    for steps in [
        &(|| vec![Step::Break]) as &'static (dyn Fn() -> Vec<Step> + Sync),
        &|| vec![Step::Hang],
        &|| vec![Step::Fail(Code::Unavailable, "connection error")],
        &|| vec![Step::Fail(Code::Internal, "boom")],
        &|| vec![Step::Fail(Code::Unknown, "boom")],
        &|| vec![Step::Fail(Code::DeadlineExceeded, "late")],
        &|| vec![],
    ] {
        let mut deadlines = deadlines();
        deadlines.act = Duration::from_secs(2);
        let world = World::with_deadlines(deadlines, after_version(steps)).await;
        let error = world.node.reboot(RebootMode::Default).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Unknown, "{error:?}");
        assert_eq!(world.server.calls("Reboot").len(), 1, "{error:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_certain() {
    for steps in [
        &(|| vec![Step::Fail(Code::FailedPrecondition, "locked")])
            as &'static (dyn Fn() -> Vec<Step> + Sync),
        &|| vec![Step::Fail(Code::PermissionDenied, "not authorized")],
        &|| vec![Step::Fail(Code::InvalidArgument, "no")],
        &|| vec![Step::Fail(Code::Unimplemented, "")],
    ] {
        let world = World::new(after_version(steps)).await;
        let error = world.node.rollback().await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Refused, "{error:?}");
        assert_eq!(world.server.calls("Rollback").len(), 1);
    }
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_sent() {
    let world = World::new(after_version(&rebooting)).await;
    world.server.stop();
    let error = world.node.reboot(RebootMode::Default).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::NotSent, "{error:?}");
    assert!(error.outcome.nothing_happened());
    assert!(world.server.calls("Reboot").is_empty());
}

#[tokio::test]
async fn an_act_finds_a_live_endpoint_first() {
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let dead = Node::start(&authority, after_version(&rebooting)).await;
    // This one accepts connections but never answers.
    let stuck = Node::start(&authority, |_| vec![Step::Hang]).await;
    let alive = Node::start(&authority, after_version(&rebooting)).await;
    dead.stop();
    let endpoints = [dead.endpoint(), stuck.endpoint(), alive.endpoint()];
    let mut deadlines = deadlines();
    deadlines.attempt = Duration::from_secs(2);
    let client = client_with(&authority.talosconfig(&endpoints, &admin), deadlines);
    let node = client.node("10.5.0.2".parse().unwrap());
    node.reboot(RebootMode::Default).await.unwrap();
    assert!(dead.methods().is_empty());
    assert_eq!(stuck.methods(), ["Version"]);
    assert_eq!(alive.methods(), ["Version", "Reboot"]);
    // The client remembers the live endpoint.
    node.reboot(RebootMode::Default).await.unwrap();
    assert_eq!(stuck.methods(), ["Version"]);
}

#[tokio::test]
async fn a_lost_act_is_not_sent_through_another_endpoint() {
    // Rule 8.
    let authority = Authority::new();
    let admin = authority.client("os:admin", Valid::Now);
    let first = Node::start(&authority, after_version(&|| vec![Step::Break])).await;
    let second = Node::start(&authority, after_version(&rebooting)).await;
    let endpoints = [first.endpoint(), second.endpoint()];
    let client = client(&authority.talosconfig(&endpoints, &admin));
    let node = client.node("10.5.0.2".parse().unwrap());
    let error = node.reboot(RebootMode::Default).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Unknown);
    assert_eq!(error.error.endpoint().unwrap().to_string(), first.endpoint());
    assert_eq!(first.calls("Reboot").len(), 1);
    assert!(second.calls("Reboot").is_empty());
}

#[tokio::test]
async fn the_installer_runs_to_completion() {
    let world =
        World::new(after_version(&|| vec![line("writing\n"), line("token: hunter2"), exit(0)]))
            .await;
    let mut installing = world.node.install("installer:v1", ImageStore::System).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = installing.next().await.unwrap() {
        lines.push(line);
    }
    // Rule 14: installer output is scrubbed.
    assert_eq!(lines, ["writing", "token: [redacted]"]);
    assert!(installing.next().await.unwrap().is_none(), "a finished stream stays finished");
    let request: wire::LifecycleServiceUpgradeRequest = world.server.calls("Upgrade")[0].request();
    assert_eq!(request.source.unwrap().image_name, "installer:v1");
    assert_eq!(request.containerd, Some(ContainerdInstance { driver: 1, namespace: 1 }));
}

#[tokio::test]
async fn exit_codes_are_errors_with_a_meaning() {
    let world = World::new(after_version(&|| vec![line("no such version"), exit(4)])).await;
    let installing = world.node.install("i", ImageStore::System).await.unwrap();
    let error = installing.finish().await.unwrap_err();
    let InstallError::Exit { code, last } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*code, ExitCode::Environment);
    assert_eq!(last, &["no such version"]);
    assert_eq!(world.server.calls("Upgrade").len(), 1);
}

#[tokio::test]
async fn an_installer_with_a_lost_stream_may_have_succeeded() {
    for steps in [
        &(|| vec![line("writing")]) as &'static (dyn Fn() -> Vec<Step> + Sync),
        &|| vec![line("writing"), Step::Pause(Duration::from_millis(50)), Step::Break],
        &|| vec![line("writing"), Step::Fail(Code::Unavailable, "gone")],
        // An error after the start is not a refusal.
        &|| vec![line("writing"), Step::Fail(Code::FailedPrecondition, "no")],
        &|| vec![line("writing"), Step::Hang],
    ] {
        let mut deadlines = deadlines();
        deadlines.progress_idle = Duration::from_secs(2);
        let world = World::with_deadlines(deadlines, after_version(steps)).await;
        let installing = world.node.install("i", ImageStore::System).await.unwrap();
        let error = installing.finish().await.unwrap_err();
        let InstallError::Call(act) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(act.outcome, Outcome::Unknown, "{error:?}");
        assert!(!error.nothing_happened());
        assert_eq!(world.server.calls("Upgrade").len(), 1);
    }
}

#[tokio::test]
async fn a_pull_reports_and_ends_with_a_name() {
    let world = World::new(|_| vec![layer(3), layer(10), pulled("installer@sha256:1")]).await;
    let mut pulling = world.node.pull("installer:v1", ImageStore::Memory).await.unwrap();
    let first = pulling.next().await.unwrap().unwrap();
    assert_eq!(first.state, LayerState::Downloading { done: 3, total: 10 });
    assert_eq!(pulling.finish().await.unwrap(), "installer@sha256:1");
    let request: wire::ImageServicePullRequest = world.server.calls("Pull")[0].request();
    assert_eq!(request.image_ref, "installer:v1");
    assert_eq!(request.containerd, Some(ContainerdInstance { driver: 0, namespace: 1 }));

    let world = World::new(|_| vec![layer(3)]).await;
    let pulling = world.node.pull("installer:v1", ImageStore::System).await.unwrap();
    let error = pulling.finish().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::Truncated(_)), "{error:?}");
}

fn upgrade() -> Upgrade {
    Upgrade {
        image: "installer:v1.14.1".to_owned(),
        store: ImageStore::System,
        reboot: RebootMode::Default,
    }
}

#[tokio::test]
async fn an_upgrade_by_the_new_api() {
    let world = World::new(|call: &Call| match call.path.as_str() {
        "/machine.ImageService/Pull" => vec![layer(1), pulled("i")],
        "/machine.LifecycleService/Upgrade" => vec![line("writing"), exit(0)],
        "/machine.MachineService/Reboot" => rebooting(),
        _ => version("v1.13.9", "metal"),
    })
    .await;
    let mut seen = Vec::new();
    let actor = world.node.upgrade(&upgrade(), &mut |progress| seen.push(progress)).await.unwrap();
    assert_eq!(seen[0], UpgradeProgress::Chosen(UpgradeApi::Lifecycle));
    assert!(matches!(seen[1], UpgradeProgress::Pulling(_)));
    assert_eq!(
        seen[2..],
        [
            UpgradeProgress::Pulled,
            UpgradeProgress::Installing("writing".to_owned()),
            UpgradeProgress::Installed,
            UpgradeProgress::Accepted(actor),
        ]
    );
    let acts: Vec<_> = world.server.methods();
    let acts: Vec<_> = acts.iter().filter(|name| *name != "Version").collect();
    assert_eq!(acts, ["Pull", "Upgrade", "Reboot"]);
}

#[tokio::test]
async fn an_upgrade_by_the_legacy_api() {
    let world = World::new(|call: &Call| match call.path.as_str() {
        "/machine.MachineService/Upgrade" => vec![send(&wire::UpgradeResponse {
            messages: vec![wire::Upgrade {
                metadata: None,
                ack: "Upgrade request received".to_owned(),
                actor_id: "actor".to_owned(),
            }],
        })],
        _ => version("v1.12.11", "metal"),
    })
    .await;
    let mut seen = Vec::new();
    world.node.upgrade(&upgrade(), &mut |progress| seen.push(progress)).await.unwrap();
    assert_eq!(
        seen,
        [
            UpgradeProgress::Chosen(UpgradeApi::Legacy),
            UpgradeProgress::Accepted(ActorId("actor".to_owned())),
        ]
    );
    let request: wire::UpgradeRequest = world.server.calls("Upgrade")[0].request();
    assert_eq!(request.image, "installer:v1.14.1");
    assert!(!request.preserve && !request.force && !request.stage);

    let forced = Upgrade { reboot: RebootMode::Force, ..upgrade() };
    let error = world.node.upgrade(&forced, &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, UpgradeError::NoForce));
    assert_eq!(world.server.calls("Upgrade").len(), 1);

    world
        .node
        .legacy_upgrade(&LegacyUpgrade {
            image: "i".to_owned(),
            stage: true,
            force: true,
            preserve: true,
            reboot: RebootMode::PowerCycle,
        })
        .await
        .unwrap();
    let request: wire::UpgradeRequest = world.server.calls("Upgrade")[1].request();
    assert!(request.preserve && request.force && request.stage);
    assert_eq!(request.reboot_mode, 1);
}

#[tokio::test]
async fn a_failed_upgrade_says_whether_the_node_is_armed() {
    // A container cannot be upgraded.
    let world = World::new(|_| version("v1.13.9", "container")).await;
    let error = world.node.upgrade(&upgrade(), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, UpgradeError::Container));
    assert_eq!(error.armed(), Armed::No);

    // The pull fails.
    let world = World::new(after_version(&|| vec![Step::Fail(Code::NotFound, "no image")])).await;
    let error = world.node.upgrade(&upgrade(), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, UpgradeError::Pull(_)), "{error:?}");
    assert_eq!(error.armed(), Armed::No);

    // The installer fails.
    let world = World::new(|call: &Call| match call.method() {
        "Version" => version("v1.13.9", "metal"),
        "Pull" => vec![pulled("i")],
        _ => vec![exit(7)],
    })
    .await;
    let error = world.node.upgrade(&upgrade(), &mut |_| {}).await.unwrap_err();
    assert_eq!(error.armed(), Armed::Perhaps);

    // The node refuses to install.
    let world = World::new(|call: &Call| match call.method() {
        "Version" => version("v1.13.9", "metal"),
        "Pull" => vec![pulled("i")],
        _ => vec![Step::Fail(Code::FailedPrecondition, "another run")],
    })
    .await;
    let error = world.node.upgrade(&upgrade(), &mut |_| {}).await.unwrap_err();
    assert_eq!(error.armed(), Armed::No, "{error:?}");

    // The reboot fails.
    let world = World::new(|call: &Call| match call.method() {
        "Version" => version("v1.13.9", "metal"),
        "Pull" => vec![pulled("i")],
        "Upgrade" => vec![exit(0)],
        _ => vec![Step::Fail(Code::FailedPrecondition, "no")],
    })
    .await;
    let error = world.node.upgrade(&upgrade(), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, UpgradeError::Reboot(_)));
    assert_eq!(error.armed(), Armed::Yes);
}

#[tokio::test]
async fn configurations_are_applied_in_every_mode() {
    let world = World::new(|call: &Call| {
        if call.method() == "Version" {
            version("v1.13.9", "metal")
        } else {
            let request: wire::ApplyConfigurationRequest = call.request();
            vec![send(&wire::ApplyConfigurationResponse {
                messages: vec![wire::ApplyConfiguration {
                    mode: request.mode,
                    mode_details: "token: hunter2".to_owned(),
                    warnings: vec!["careful".to_owned()],
                    ..wire::ApplyConfiguration::default()
                }],
            })]
        }
    })
    .await;
    let try_it = ApplyMode::Try { back_after: Some(Duration::from_secs(90)) };
    for mode in [ApplyMode::Auto, ApplyMode::NoReboot, ApplyMode::Staged, try_it, ApplyMode::Reboot]
    {
        let applied = world.node.apply_config(b"machine: {}", mode).await.unwrap();
        match mode {
            ApplyMode::Try { .. } => assert_eq!(applied.mode, ApplyMode::Try { back_after: None }),
            mode => assert_eq!(applied.mode, mode),
        }
        assert_eq!(applied.warnings, ["careful"]);
        assert!(!format!("{applied:?}").contains("hunter2"));
    }
    world.node.check_config(b"machine: {}", ApplyMode::Auto).await.unwrap();
    let requests: Vec<wire::ApplyConfigurationRequest> =
        world.server.calls("ApplyConfiguration").iter().map(Call::request).collect();
    let dry: Vec<_> = requests.iter().map(|request| request.dry_run).collect();
    assert_eq!(dry, [false, false, false, false, false, true]);
    assert_eq!(requests[3].try_mode_timeout.unwrap().seconds, 90);
    assert_eq!(requests[0].data, b"machine: {}");
}
