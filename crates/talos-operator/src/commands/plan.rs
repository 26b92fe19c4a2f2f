//! `talos-operator plan`: every step from what runs to what is wanted.

use upgrade_core::observation::Observation;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_core::version::Version;

use crate::Exit;
use crate::args::{Output, PlanArgs};
use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;
use crate::intent::{self, IntentArgs, Targets};
use crate::offline::Cluster;
use crate::planning::{self, Past};
use crate::printer::Printer;
use crate::release_data::ReleaseData;
use crate::render::{self, Answer, Outcome};
use crate::session::Session;
use crate::usage::Usage;

/// Shows a plan, or the reasons why there is none.
pub async fn plan(args: &PlanArgs, printer: Printer) -> Result<Exit, CommandError> {
    let data = ReleaseData::load(&args.data)?;
    let (snapshot, answer) =
        if args.offline { offline(args, &data).await? } else { live(args, &data, printer).await? };
    Ok(show(&answer, &snapshot, args.output.output, printer))
}

/// Prints an answer.
pub(super) fn show(answer: &Answer, snapshot: &Snapshot, output: Output, printer: Printer) -> Exit {
    let exit = match answer.outcome {
        Outcome::Planned { .. } => Exit::Done,
        Outcome::NothingToDo | Outcome::Refused => Exit::Refused,
    };
    match (output, exit) {
        (Output::Json, _) => printer.stdout(&render::plan_json(answer)),
        (Output::Text, Exit::Done) => printer.stdout(&render::plan_text(answer, snapshot)),
        // A redirected stdout must not hide the reasons.
        (Output::Text, _) => printer.stderr(&render::plan_text(answer, snapshot)),
    }
    exit
}

fn intent_args(args: &PlanArgs) -> IntentArgs<'_> {
    IntentArgs { target: &args.target, installer: &args.installer_change, nodes: &args.nodes }
}

async fn live(
    args: &PlanArgs,
    data: &ReleaseData,
    printer: Printer,
) -> Result<(Snapshot, Answer), CommandError> {
    let config = ClusterConfig::load(&args.cluster)?;
    let flags = Targets::from(&args.target);
    args.nodes.without_kubernetes(flags.kubernetes.is_some())?;
    let mut targets = Targets::of_plan(flags, config.profile.as_ref())?;
    if !args.nodes.nodes.is_empty() {
        // The profile's Kubernetes version is for all nodes.
        targets.kubernetes = None;
    }
    let policy = config.policy(&args.policy);
    let session = Session::open(config, &policy).await?;
    let seen = session.observe().await?;
    let profile = session.config.profile.as_ref();
    if let Some(text) = intent::schematic_differs(profile, &seen.snapshot) {
        printer.stderr(&render::warning(&text));
    }
    let intent = intent_args(args).intent(&targets, profile, &seen.snapshot).await?;
    let next = |plan: &_| Some(render::next_command(args, plan));
    let past = Past::of(&session, false)?;
    let answer = planning::answer(&seen, &intent, &policy, data, &past, next);
    Ok((seen.snapshot, answer))
}

async fn offline(args: &PlanArgs, data: &ReleaseData) -> Result<(Snapshot, Answer), CommandError> {
    if args.installer_change.extensions.is_some() {
        return Err(Usage::new(
            "--extensions needs the Image Factory, and --offline sends no requests",
            "remove one of them, or name a schematic with --schematic",
        )
        .into());
    }
    let (talos_from, talos) = side("talos", args.talos_from.as_ref(), args.target.talos.as_ref())?;
    let (kubernetes_from, kubernetes) =
        side("kubernetes", args.kubernetes_from.as_ref(), args.target.kubernetes.as_ref())?;
    if talos.is_none() && kubernetes.is_none() {
        return Err(Usage::new(
            "no target version is given",
            "give --talos-from and --talos-to, --kubernetes-from and --kubernetes-to, or all four",
        )
        .into());
    }
    args.nodes.without_kubernetes(kubernetes.is_some())?;
    let cluster = Cluster {
        control_planes: args.control_planes.unwrap_or(3),
        workers: args.workers.unwrap_or(0),
        talos: talos_from,
        kubernetes: kubernetes_from,
        installer: args.installer.clone(),
    };
    let snapshot = cluster.snapshot();
    let policy = args.policy.over(Policy::default());
    let targets = Targets { talos, kubernetes };
    let intent = intent_args(args).intent(&targets, None, &snapshot).await?;
    let next = |plan: &_| Some(render::next_command(args, plan));
    let seen = Observation { snapshot, workloads: Fact::Unasked, manifests: Fact::Unasked };
    let answer = planning::answer(&seen, &intent, &policy, data, &Past::default(), next);
    Ok((seen.snapshot, answer))
}

/// The running and the target version of one product. Without a target it stays as it is, and
/// the other product is checked against it.
fn side(
    product: &str,
    from: Option<&Version>,
    to: Option<&Version>,
) -> Result<(Option<Version>, Option<Version>), Usage> {
    match (from, to) {
        (None, Some(to)) => Err(Usage::new(
            format!("--{product}-to {to} needs --{product}-from"),
            format!("name the running version with --{product}-from"),
        )),
        (from, to) => Ok((from.cloned(), to.cloned())),
    }
}
