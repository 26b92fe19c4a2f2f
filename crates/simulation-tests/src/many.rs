//! Runs many scenarios on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use simulation_tests::coverage::{Met, Sort};
use simulation_tests::referee::Breach;
use simulation_tests::scenario::{Scenario, draw};
use simulation_tests::template::Templates;
use simulation_tests::{Played, play, shrink, trace_text};
use upgrade_core::text::panic_text;

use crate::args;
use crate::print::{end, line, progress};

/// How often progress is shown.
const SHOWN_EVERY: Duration = Duration::from_secs(2);

/// The number of failures after which the run stops.
const ENOUGH: usize = 5;

/// The failure of a seed, with its scenario and breach.
struct Failed {
    seed: u64,
    why: Vec<String>,
    rule: Option<u8>,
}

#[derive(Default)]
struct Total {
    met: Met,
    played: u64,
    hours: f64,
    failed: Vec<Failed>,
}

/// Runs one seed; a panic is a failure like any other.
fn one(seed: u64, templates: &Templates) -> Result<Played, String> {
    let played = catch_unwind(AssertUnwindSafe(|| play(&draw(seed), templates, false)));
    played.map_err(|panic| format!("it panicked: {}", panic_text(&*panic)))
}

/// The seeds to run.
#[derive(Clone, Copy)]
struct Seeds<'a> {
    from: u64,
    count: u64,
    /// Only seeds whose scenario has this.
    with: Option<&'a str>,
}

impl Seeds<'_> {
    fn wants(self, seed: u64) -> bool {
        let Some(name) = self.with else { return true };
        draw(seed).troubles.iter().any(|trouble| trouble.kind.name() == name)
    }
}

/// Runs seeds on all cores until all are done or enough have failed.
fn many(seeds: Seeds<'_>, enough: usize, mut show: impl FnMut(&Total)) -> Total {
    let next = AtomicU64::new(seeds.from);
    let stop = AtomicBool::new(false);
    let total = Mutex::new(Total::default());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let templates = Templates::default();
    let (finished, ends) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        for _ in 0..cores {
            let finished = finished.clone();
            let (next, stop, total, templates) = (&next, &stop, &total, &templates);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.from + seeds.count {
                        break;
                    }
                    if !seeds.wants(seed) {
                        continue;
                    }
                    let played = one(seed, templates);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.played += 1;
                    match played {
                        Ok(played) => {
                            total.met.add(&played.met);
                            total.hours += played.took.as_secs_f64() / 3600.0;
                            if let Some(first) = played.breaches.first() {
                                let why = played.breaches.iter().map(breach).collect();
                                total.failed.push(Failed { seed, why, rule: Some(first.rule) });
                            }
                        }
                        Err(why) => {
                            total.failed.push(Failed { seed, why: vec![why], rule: None });
                        }
                    }
                    if total.failed.len() >= enough {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                drop(finished);
            });
        }
        drop(finished);
        while let Err(mpsc::RecvTimeoutError::Timeout) = ends.recv_timeout(SHOWN_EVERY) {
            show(&total.lock().unwrap_or_else(PoisonError::into_inner));
        }
    });
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    total.failed.sort_by_key(|failed| failed.seed);
    total
}

fn breach(breach: &Breach) -> String {
    let Breach { rule, at, text } = breach;
    match rule {
        0 => format!("progress, at {at}: {text}"),
        rule => format!("rule {rule}, at {at}: {text}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "throughput is measured")]
fn clock() -> Instant {
    Instant::now()
}

/// `simulate`: true if no rule was broken and every item was reached.
pub(crate) fn simulate(args: &args::Simulate) -> Result<bool> {
    let args::Simulate { seeds, from, with, story, keep } = args;
    if *story {
        return stories(*from, *seeds, keep.as_deref());
    }
    let began = clock();
    let rate = |played: u64| {
        let seconds = began.elapsed().as_secs_f64().max(0.001);
        (u32::try_from(played).map_or(f64::MAX, f64::from)) / seconds
    };
    let which = Seeds { from: *from, count: *seeds, with: with.as_deref() };
    let total = many(which, ENOUGH, |total| {
        let (played, rate) = (total.played, rate(total.played) * 60.0);
        let failed: Vec<String> = total.failed.iter().map(|it| it.seed.to_string()).collect();
        let failed = match failed.as_slice() {
            [] => "none failed".to_owned(),
            some => format!("{} failed: {}", some.len(), some.join(", ")),
        };
        progress(&format!("{played} of {seeds} seeds, {rate:.0} a minute, {failed}"));
    });
    end();
    coverage(&total.met);
    let Total { played, hours, .. } = total;
    line(&format!(
        "{played} upgrades, {hours:.0} simulated hours, in {:.1} s: {:.0} a minute",
        began.elapsed().as_secs_f64(),
        rate(played) * 60.0
    ));
    for failed in &total.failed {
        report(failed, keep.as_deref())?;
    }
    // A few seeds cannot reach everything.
    let missing = if *seeds >= 2_000 && with.is_none() { total.met.missing() } else { Vec::new() };
    for (_, name) in &missing {
        line(&format!("never reached: {name}"));
    }
    line(&format!("{} passed, {} failed", played - count(&total.failed), count(&total.failed)));
    Ok(total.failed.is_empty() && missing.is_empty())
}

fn count(failed: &[Failed]) -> u64 {
    u64::try_from(failed.len()).unwrap_or(u64::MAX)
}

fn coverage(met: &Met) {
    for (sort, title) in Sort::ALL {
        let words = met.by_sort(sort).into_iter().map(|(name, count)| format!("{name} {count}"));
        line(&format!("{title}: {}", words.collect::<Vec<_>>().join(", ")));
    }
}

/// Reports a failure, shrunk, with the command to replay it.
fn report(failed: &Failed, keep: Option<&Path>) -> Result<()> {
    let Failed { seed, why, rule } = failed;
    line(&format!("\nseed {seed} failed:"));
    for why in why {
        line(&format!("  {why}"));
    }
    let templates = Templates::default();
    let scenario = match rule {
        Some(rule) => shrink::shrink(&draw(*seed), *rule, &templates),
        None => draw(*seed),
    };
    line(&format!(
        "the smallest scenario with the same failure:\n{}",
        trace_text::scenario(&scenario)
    ));
    if rule.is_some() {
        let played = play(&scenario, &templates, true);
        line(&trace_text::story(&played.log));
        for it in &played.breaches {
            line(&format!("  {}", breach(it)));
        }
    }
    line(&format!("replay it: cargo xtask simulate --from {seed} --seeds 1 --story"));
    kept(*seed, &scenario, keep)
}

/// Saves a scenario, so that it can be replayed even after seeds change their meaning.
fn kept(seed: u64, scenario: &Scenario, folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let file = folder.join(format!("seed-{seed}.json"));
    let json = serde_json::to_string_pretty(scenario)?;
    std::fs::write(&file, json + "\n")
        .with_context(|| format!("cannot write {}", file.display()))?;
    line(&format!("saved as {}", file.display()));
    Ok(())
}

fn stories(from: u64, seeds: u64, folder: Option<&Path>) -> Result<bool> {
    let templates = Templates::default();
    let mut well = true;
    for seed in from..from + seeds {
        line(&format!("seed {seed}"));
        let scenario = draw(seed);
        well &= tell_one(&scenario, &templates);
        kept(seed, &scenario, folder)?;
    }
    Ok(well)
}

fn tell_one(scenario: &Scenario, templates: &Templates) -> bool {
    line(&trace_text::scenario(scenario));
    let played = play(scenario, templates, true);
    line(&trace_text::story(&played.log));
    for it in &played.breaches {
        line(&breach(it));
    }
    played.breaches.is_empty()
}

/// `replay`: true if no rule is broken.
pub(crate) fn replay(args: &args::Replay) -> Result<bool> {
    let file = &args.file;
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let scenario = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a scenario", file.display()))?;
    Ok(tell_one(&scenario, &Templates::default()))
}

/// `mutants`: true if the referee catches each of them, by the rule it breaks.
#[cfg(feature = "mutants")]
pub(crate) fn mutants(args: &args::Mutants) -> Result<bool> {
    use upgrade_core::mutant::{Mutant, set};

    let args::Mutants { seeds, only } = args;
    let all = Seeds { from: 0, count: *seeds, with: None };
    let chosen = |mutant: &&Mutant| only.as_ref().is_none_or(|only| only == mutant.name());
    let engine = Mutant::ALL.iter().filter(|mutant| !mutant.is_of_operator());
    let chosen: Vec<&Mutant> = engine.filter(chosen).collect();
    anyhow::ensure!(!chosen.is_empty(), "there is no such mutant");
    let (mut caught, mut escaped) = (0, 0);
    for mutant in chosen {
        let (name, rule, about) = (mutant.name(), mutant.rule(), mutant.about());
        set(Some(*mutant));
        let total = many(all, 1, |total| progress(&format!("{name}: {} seeds", total.played)));
        set(None);
        end();
        let Some(failed) = total.failed.first() else {
            escaped += 1;
            line(&format!("ESCAPED {name} (rule {rule}): {about}"));
            continue;
        };
        caught += 1;
        let after = failed.seed + 1;
        let why = failed.why.first().map_or("", String::as_str);
        line(&format!(
            "{name:<28} rule {rule:>2}  after {after:>4} seeds  {about}\n{:>30}{why}",
            ""
        ));
    }
    line(&format!("{caught} passed, {escaped} failed"));
    Ok(escaped == 0)
}
