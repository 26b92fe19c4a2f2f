//! The program behind `cargo xtask simulate-operator`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Error, Result};
use clap::Parser;
use operator_simulation::scenario::{EventKind, Scenario, draw};
use operator_simulation::{Played, play};
use simulation_tests::referee::Breach;
use simulation_tests::template::Templates;
use simulation_tests::trace_text;
use upgrade_core::text::panic_text;

/// Simulates the operator with several replicas, by the thousand
#[derive(Parser)]
#[command(name = "cargo xtask simulate-operator")]
struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Print everything that happens; for one seed or a few
    #[arg(long)]
    story: bool,
    /// Print what happens to the cluster, too
    #[arg(long, requires = "story")]
    cluster: bool,
    /// Save the scenario of each failed seed in this folder, with --story of every seed
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Play this saved scenario
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "from", "keep"])]
    replay: Option<PathBuf>,
    /// Break each guard of the operator on purpose, and count the seeds until a rule breaks
    #[cfg(feature = "mutants")]
    #[arg(long)]
    mutants: bool,
    /// Show the operator's log at this level
    #[arg(long, value_name = "LEVEL")]
    log: Option<tracing_subscriber::filter::LevelFilter>,
}

/// The number of failures after which the run stops.
const MAX_FAILURES: usize = 5;

#[derive(Default)]
struct Total {
    played: u64,
    hours: f64,
    /// How often each end and each event occurred.
    met: BTreeMap<String, u64>,
    failed: BTreeMap<u64, Vec<String>>,
}

fn line(text: &str) {
    // A failed write means that there is no reader.
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(level) = args.log {
        tracing_subscriber::fmt().with_max_level(level).without_time().init();
    }
    #[cfg(feature = "mutants")]
    if args.mutants {
        return mutants(&args);
    }
    if let Some(file) = &args.replay {
        return outcome(replay(file, &args));
    }
    let began = clock();
    let total = many(&args, MAX_FAILURES);
    for (name, count) in &total.met {
        line(&format!("{count:>8}  {name}"));
    }
    let seconds = began.elapsed().as_secs_f64();
    line(&format!(
        "{} seeds in {seconds:.0} s, {:.0} simulated hours; {} failed",
        total.played,
        total.hours,
        total.failed.len()
    ));
    for (seed, why) in &total.failed {
        line(&format!("\nseed {seed}:"));
        for why in why {
            line(&format!("  {why}"));
        }
        line(&format!("  cargo xtask simulate-operator --from {seed} --seeds 1 --story"));
    }
    if let Some(folder) = &args.keep
        && let Err(error) = keep(folder, total.to_keep(&args))
    {
        line(&format!("{error:#}"));
        return ExitCode::FAILURE;
    }
    // A few seeds cannot reach everything.
    let names = EventKind::NAMES.iter().filter(|_| args.seeds >= 300);
    let missing: Vec<_> = names.filter(|name| !total.met.contains_key(&event(name))).collect();
    for name in &missing {
        line(&format!("never reached: {name}"));
    }
    let failed = total.failed.len();
    line(&format!("{} passed, {failed} failed", total.played.saturating_sub(failed as u64)));
    if failed == 0 && missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn outcome(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Plays a saved scenario; true if no rule is broken.
fn replay(file: &Path, args: &Args) -> Result<bool> {
    let text = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let scenario: Scenario = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a saved scenario", file.display()))?;
    let played = one(&scenario, &Templates::default(), args.cluster).map_err(Error::msg)?;
    if args.story {
        story(&scenario, Some(&played), args.cluster);
    }
    for breach in &played.breaches {
        line(&describe(breach));
    }
    let failed = usize::from(!played.breaches.is_empty());
    line(&format!("{} passed, {failed} failed", 1 - failed));
    Ok(failed == 0)
}

/// Saves scenarios, so that they can be played even after seeds change their meaning.
fn keep(folder: &Path, seeds: Vec<u64>) -> Result<()> {
    for seed in seeds {
        let file = folder.join(format!("seed-{seed}.json"));
        let text = serde_json::to_string_pretty(&draw(seed))?;
        fs::write(&file, text + "\n").with_context(|| format!("writing {}", file.display()))?;
        line(&format!("saved as {}", file.display()));
    }
    Ok(())
}

fn describe(breach: &Breach) -> String {
    format!("rule {} at {}: {}", breach.rule, breach.at, breach.text)
}

fn many(args: &Args, max_failures: usize) -> Total {
    let next = AtomicU64::new(args.from);
    let total = Mutex::new(Total::default());
    let cores = if args.story {
        1
    } else {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    };
    let templates = Templates::default();
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= args.from + args.seeds {
                        break;
                    }
                    let scenario = draw(seed);
                    let played = one(&scenario, &templates, args.cluster);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    if args.story {
                        story(&scenario, played.as_ref().ok(), args.cluster);
                    }
                    total.add(seed, &scenario, played);
                    if total.failed.len() >= max_failures {
                        break;
                    }
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "throughput is measured")]
fn clock() -> Instant {
    Instant::now()
}

/// Breaks each guard of the operator in turn.
#[cfg(feature = "mutants")]
fn mutants(args: &Args) -> ExitCode {
    use upgrade_core::mutant::{Mutant, set};

    let (mut caught, mut escaped) = (0, 0);
    for mutant in Mutant::ALL.iter().filter(|mutant| mutant.is_of_operator()) {
        let (name, rule, about) = (mutant.name(), mutant.rule(), mutant.about());
        set(Some(*mutant));
        let total = many(args, 1);
        set(None);
        match total.failed.first_key_value() {
            Some((seed, why)) => {
                caught += 1;
                let (after, why) = (seed + 1 - args.from, why.first().map_or("", String::as_str));
                line(&format!("{name:<28} rule {rule:>2}  after {after:>4} seeds  {about}"));
                line(&format!("{:>30}{why}", ""));
            }
            None => {
                escaped += 1;
                line(&format!("ESCAPED {name} (rule {rule}): {about}"));
            }
        }
    }
    line(&format!("{caught} passed, {escaped} failed"));
    if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays one seed; a panic is a failure like any other.
fn one(scenario: &Scenario, templates: &Templates, log: bool) -> Result<Played, String> {
    catch_unwind(AssertUnwindSafe(|| play(scenario, templates, log)))
        .map_err(|panic| format!("it panicked: {}", panic_text(&*panic)))
}

/// How an event is counted.
fn event(name: &str) -> String {
    format!("event {name}")
}

impl Total {
    /// The seeds whose scenarios are saved.
    fn to_keep(&self, args: &Args) -> Vec<u64> {
        if args.story {
            (args.from..args.from + args.seeds).collect()
        } else {
            self.failed.keys().copied().collect()
        }
    }

    fn add(&mut self, seed: u64, scenario: &Scenario, played: Result<Played, String>) {
        self.played += 1;
        let mut count = |name: String| *self.met.entry(name).or_default() += 1;
        for event in &scenario.events {
            count(self::event(event.kind.name()));
        }
        match played {
            Ok(played) => {
                let end = played.phase.map_or("none".to_owned(), |phase| phase.to_string());
                count(format!("newest run {end}"));
                self.hours += played.took.as_secs_f64() / 3600.0;
                if !played.breaches.is_empty() {
                    self.failed.insert(seed, played.breaches.iter().map(describe).collect());
                }
            }
            Err(why) => drop(self.failed.insert(seed, vec![why])),
        }
    }
}

fn story(scenario: &Scenario, played: Option<&Played>, cluster: bool) {
    line(&format!("{scenario:#?}"));
    let Some(played) = played else { return };
    for (at, text) in &played.story {
        line(&format!("{at}  {text}"));
    }
    if cluster {
        line(&trace_text::story(&played.log));
    }
}
