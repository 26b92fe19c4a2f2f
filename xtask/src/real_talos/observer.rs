//! The observer of a run: it samples API servers, etcd members and pods.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::cluster::{Cluster, control_planes};

/// Long enough for a sample after a run's last line.
const AFTER: Duration = Duration::from_millis(2500);

/// How many pods must be ready at every moment of any run, by "namespace/app".
const BUDGETS: [(&str, usize); 2] = [("default/web", 3), ("default/store", 1)];

/// One sample of the cluster.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Sample {
    /// Milliseconds since 1970.
    pub(super) time: u64,
    /// Problems by control plane, empty if there is none.
    pub(super) api: BTreeMap<String, String>,
    pub(super) etcd: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) pods: Option<BTreeMap<String, usize>>,
}

/// The tolerated findings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// How many API servers, and how many etcd members, may be down at once.
    pub(super) down: usize,
    /// Whether pod budgets are checked.
    pub(super) budgets: bool,
}

/// Observes until it is dropped.
pub(super) struct Observer {
    child: Child,
    file: PathBuf,
}

impl Observer {
    pub(super) fn start(cluster: &Cluster, name: &str) -> Result<Self> {
        let file = cluster.folder.join("log").join(format!("observer-{name}.jsonl"));
        let mut command = cluster.inside(cluster.parts.tool("node-kit")?)?;
        command.arg("observe").arg(cluster.kubeconfig());
        command.args(control_planes().map(|node| format!("{}={}", node.name, node.address)));
        let child = command
            .stdout(File::create(&file)?)
            .stderr(Stdio::null())
            .spawn()
            .context("starting the observer")?;
        // A run that starts before the first answers would seem to start with an outage.
        thread::sleep(AFTER);
        Ok(Self { child, file })
    }

    /// Ends it a moment after the run, and returns the samples.
    pub(super) fn end(mut self) -> Result<Vec<Sample>> {
        thread::sleep(AFTER);
        self.child.kill().context("ending the observer")?;
        self.child.wait()?;
        parse(&fs::read_to_string(&self.file)?)
    }
}

fn parse(text: &str) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        match serde_json::from_str(line) {
            Ok(sample) => samples.push(sample),
            // It was killed while writing the last line.
            Err(_) if lines.peek().is_none() => {}
            Err(error) => return Err(error).context("a line of the observer"),
        }
    }
    // Samples before the first answers do not count.
    Ok(samples.into_iter().skip_while(|sample: &Sample| is_unasked(sample)).collect())
}

fn is_unasked(sample: &Sample) -> bool {
    sample.api.values().chain(sample.etcd.values()).any(|problem| problem == "not asked yet")
}

fn down(problems: &BTreeMap<String, String>) -> Vec<String> {
    let down = problems.iter().filter(|(_, problem)| !problem.is_empty());
    down.map(|(name, problem)| format!("{name} ({problem})")).collect()
}

/// Fails on problems during a run, and if the cluster was not healthy at its reported end.
pub(super) fn judge(samples: &[Sample], end: Option<u64>, allowed: Allowed) -> Result<String> {
    if samples.len() < 3 {
        bail!("the observer took {} samples", samples.len());
    }
    let mut findings = Vec::new();
    for sample in samples {
        for (what, problems) in [("API servers", &sample.api), ("etcd members", &sample.etcd)] {
            let down = down(problems);
            if down.len() > allowed.down {
                findings.push(format!("{}: {what} down: {}", sample.time, down.join(", ")));
            }
        }
        let Some(pods) = sample.pods.as_ref().filter(|_| allowed.budgets) else { continue };
        for (app, wanted) in BUDGETS {
            let ready = pods.get(app).copied().unwrap_or_default();
            if ready < wanted {
                findings.push(format!("{}: {app} has {ready} ready pods of {wanted}", sample.time));
            }
        }
    }
    if let Some(end) = end {
        let last =
            samples.iter().find(|sample| sample.time > end).context("no sample after the end")?;
        let down = [down(&last.api), down(&last.etcd)].concat();
        if !down.is_empty() {
            findings.push(format!("the run said it was done while down: {}", down.join(", ")));
        }
    }
    let most = |of: fn(&Sample) -> &BTreeMap<String, String>| {
        samples.iter().map(|sample| down(of(sample)).len()).max().unwrap_or_default()
    };
    let summary = format!(
        "{} samples, at most {} API servers and {} etcd members down at once",
        samples.len(),
        most(|sample| &sample.api),
        most(|sample| &sample.etcd),
    );
    if findings.is_empty() {
        return Ok(summary);
    }
    let shown: Vec<&str> = findings.iter().take(8).map(String::as_str).collect();
    bail!("{summary}; {} findings:\n    {}", findings.len(), shown.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowed = Allowed { down: 1, budgets: true };

    fn sample(time: u64, api: [&str; 3], etcd: [&str; 3], web: usize) -> Sample {
        let by_name = |problems: [&str; 3]| {
            ["cp1", "cp2", "cp3"]
                .map(str::to_owned)
                .into_iter()
                .zip(problems.map(str::to_owned))
                .collect()
        };
        let pods = BTreeMap::from([("default/web".into(), web), ("default/store".into(), 2)]);
        Sample { time, api: by_name(api), etcd: by_name(etcd), pods: Some(pods) }
    }

    fn quiet(time: u64) -> Sample {
        sample(time, [""; 3], [""; 3], 4)
    }

    #[test]
    fn one_down_is_an_upgrade_and_two_are_a_finding() {
        let one = sample(2, ["refused", "", ""], ["", "", "refused"], 3);
        let samples = [quiet(1), one, quiet(3)];
        assert!(judge(&samples, Some(2), ALLOWED).is_ok());
        for two in [
            sample(2, ["refused", "refused", ""], [""; 3], 4),
            sample(2, [""; 3], ["refused", "", "refused"], 4),
            sample(2, [""; 3], [""; 3], 2),
        ] {
            let error = judge(&[quiet(1), two, quiet(3)], None, ALLOWED).expect_err("a finding");
            assert!(error.to_string().contains("1 findings"), "{error}");
        }
    }

    /// B1: a run that says it is done before the last API server answers.
    #[test]
    fn the_reported_end_is_checked() {
        let late = sample(3, ["", "", "refused"], [""; 3], 4);
        let samples = [quiet(1), quiet(2), late];
        assert!(judge(&samples, None, ALLOWED).is_ok());
        let error = judge(&samples, Some(2), ALLOWED).expect_err("a finding").to_string();
        assert!(error.contains("said it was done"), "{error}");
    }

    #[test]
    fn incomplete_and_early_lines_do_not_count() {
        let text = "{\"time\":1,\"api\":{\"a\":\"not asked yet\"},\"etcd\":{}}\n\
                    {\"time\":2,\"api\":{\"a\":\"\"},\"etcd\":{}}\n{\"tim";
        let samples = parse(text).expect("readable");
        assert_eq!(samples.iter().map(|sample| sample.time).collect::<Vec<_>>(), [2]);
    }
}
