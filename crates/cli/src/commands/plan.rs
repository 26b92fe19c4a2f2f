//! `talos-operator plan`: every step from what runs to what is wanted.

use upgrade_core::intent::{Installer, Intent};
use upgrade_core::policy::{Policy, Workers};
use upgrade_core::snapshot::Fact;
use upgrade_core::version::Version;
use upgrade_planner::check::Severity;
use upgrade_planner::{Request, estimate};

use crate::Exit;
use crate::args::{Output, PlanArgs};
use crate::data::ReleaseData;
use crate::offline::Cluster;
use crate::printer::Printer;
use crate::render::{self, Answer, Outcome};
use crate::usage::Usage;

/// Plans, and shows the plan or why there is none.
pub fn plan(args: &PlanArgs, printer: Printer) -> Result<Exit, Usage> {
    if !args.offline {
        return Err(Usage::new(
            "planning against a live cluster comes with a later release",
            "add --offline and say what runs: --talos-from, --kubernetes-from, --control-planes, --workers",
        ));
    }
    let (talos_from, talos_to) = side("talos", args.talos_from.as_ref(), args.talos_to.as_ref())?;
    let (kubernetes_from, kubernetes_to) =
        side("kubernetes", args.kubernetes_from.as_ref(), args.kubernetes_to.as_ref())?;
    if talos_to.is_none() && kubernetes_to.is_none() {
        return Err(Usage::new(
            "there is nothing to plan: no target was given",
            "give --talos-from and --talos-to, --kubernetes-from and --kubernetes-to, or all four",
        ));
    }
    let data = ReleaseData::load(&args.data)?;
    let cluster = Cluster {
        control_planes: args.control_planes,
        workers: args.workers,
        talos: talos_from,
        kubernetes: kubernetes_from,
        installer: args.installer.clone(),
    };
    let snapshot = cluster.snapshot();
    let planned = upgrade_planner::plan(&Request {
        snapshot: &snapshot,
        intent: &intent(args, talos_to, kubernetes_to),
        policy: &policy(args),
        matrix: &data.matrix,
        catalogue: &data.catalogue,
        workloads: &Fact::Unasked,
    });
    // The planner is careful, and read with other eyes all the same.
    let findings = match &planned {
        Ok(planned) => upgrade_planner::check(&planned.plan, &snapshot, &data.matrix),
        Err(_) => Vec::new(),
    };
    let broken = findings.iter().any(|finding| finding.severity == Severity::Fatal);
    let (outcome, report) = match planned {
        Err(report) => (Outcome::Refused, report),
        Ok(planned) if broken => (Outcome::Refused, planned.report),
        Ok(planned) if planned.plan.is_empty() => (Outcome::NothingToDo, planned.report),
        Ok(planned) => {
            let outcome = Outcome::Planned {
                hash: planned.plan.hash(),
                estimate: estimate(&planned.plan),
                next: render::next_command(args, &planned.plan),
                plan: Box::new(planned.plan),
            };
            (outcome, planned.report)
        }
    };
    let exit = match outcome {
        Outcome::Planned { .. } => Exit::Done,
        Outcome::NothingToDo | Outcome::Refused => Exit::Refused,
    };
    let answer = Answer { outcome, report, findings };
    match (args.output.output, exit) {
        (Output::Json, _) => printer.stdout(&render::plan_json(&answer)),
        (Output::Text, Exit::Done) => printer.stdout(&render::plan_text(&answer, &snapshot)),
        // No plan, no data: the reasons belong beside it, where a redirected
        // stdout does not hide them.
        (Output::Text, _) => printer.stderr(&render::plan_text(&answer, &snapshot)),
    }
    Ok(exit)
}

/// The ends of one product. A beginning alone means that it stays where it is,
/// and that the other one is checked against it.
fn side(
    product: &str,
    from: Option<&Version>,
    to: Option<&Version>,
) -> Result<(Option<Version>, Option<Version>), Usage> {
    match (from, to) {
        (None, Some(to)) => Err(Usage::new(
            format!("--{product}-to {to} lacks its beginning"),
            format!("say what runs now with --{product}-from"),
        )),
        (from, to) => Ok((from.cloned(), to.cloned())),
    }
}

fn intent(args: &PlanArgs, talos: Option<Version>, kubernetes: Option<Version>) -> Intent {
    Intent {
        talos,
        kubernetes,
        installer: args.schematic.clone().map_or(Installer::Keep, Installer::Schematic),
        drop_extensions: args.drop_extensions,
        skip_minors: args.skip_minors,
        rollback: args.rollback,
        prefer: args.prefer.into(),
    }
}

fn policy(args: &PlanArgs) -> Policy {
    Policy {
        order: args.order.into(),
        workers: Workers { max_unavailable: args.max_unavailable, ..Workers::default() },
        soak: args.soak,
        accept_outage: args.accept_outage,
        ..Policy::default()
    }
}
