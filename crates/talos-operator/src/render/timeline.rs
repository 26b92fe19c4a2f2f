//! The run as a chart: one row per node, one bar per step, time to the right. Plain SVG with
//! classes; the page around it has the colours.

use std::fmt::Write as _;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::plan::Plan;
use upgrade_core::step::{Action, StepKind};
use upgrade_view::{Attempt, Timeline, lane_order};

use super::html_report::escape;
use super::{time, words};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 120.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const TOP: f64 = 34.0;

/// About this many lines across the chart.
const TICKS: i64 = 8;

/// Spans between lines that people read easily, in seconds.
const STEPS: [i64; 14] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];

/// The class of a step, by which the page colours it.
pub(super) const fn class(action: Action) -> &'static str {
    match action.kind() {
        StepKind::Prepare => "prepare",
        StepKind::Drain => "drain",
        StepKind::Reboot => "reboot",
        StepKind::Verify => "verify",
        StepKind::Kubernetes => "kubernetes",
    }
}

struct Scale {
    began: Timestamp,
    span: f64,
}

impl Scale {
    fn x(&self, at: Timestamp) -> f64 {
        let part = at.duration_since(self.began).as_secs_f64() / self.span;
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - 10.0)
    }
}

/// The chart; empty if nothing happened.
pub(super) fn chart(plan: &Plan, timeline: &Timeline) -> String {
    let (Some(began), Some(last)) = (timeline.began, timeline.last) else {
        return String::new();
    };
    let scale = Scale { began, span: last.duration_since(began).as_secs_f64().max(1.0) };
    let mut rows = vec![None];
    rows.extend(lane_order(plan).into_iter().map(Some));
    rows.retain(|node| timeline.of(*node).next().is_some());
    #[expect(clippy::cast_precision_loss, reason = "a chart of 2^52 rows is not drawn")]
    let y = |row: usize| TOP + row as f64 * ROW;
    let height = y(rows.len()) + 10.0;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Timeline of the run\">"
    );
    ticks(&mut out, &scale, height);
    for (index, node) in rows.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y(index) + BAR - 3.0,
            escape(&words::node(*node))
        );
        for attempt in timeline.of(*node) {
            bar(&mut out, &scale, y(index), attempt, last);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn ticks(out: &mut String, scale: &Scale, height: f64) {
    #[expect(clippy::cast_possible_truncation, reason = "a run of 2^63 seconds does not end")]
    let span = scale.span as i64;
    let step = STEPS.into_iter().find(|step| span / step <= TICKS).unwrap_or(span / TICKS);
    for second in (0..=span).step_by(usize::try_from(step.max(1)).unwrap_or(1)) {
        let after = SignedDuration::from_secs(second);
        let x = scale.x(scale.began + after);
        let _ = writeln!(
            out,
            "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"24\" y2=\"{height}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"18\">{}</text>",
            time::took(after)
        );
    }
}

fn bar(out: &mut String, scale: &Scale, y: f64, attempt: &Attempt, last: Timestamp) {
    let end = attempt.end(last);
    let x = scale.x(attempt.began);
    // A step that took no time still has something to point at.
    let width = (scale.x(end) - x).max(1.5);
    let mut class = class(attempt.step.action).to_owned();
    let how = match (&attempt.outcome, attempt.failed()) {
        (_, true) => {
            class += " failed";
            "failed"
        }
        (None, _) => {
            class += " open";
            "interrupted"
        }
        _ => "done",
    };
    let title = format!(
        "{}: {how}, {}, from {}",
        attempt.step,
        time::took(attempt.took(last)),
        time::of_day(attempt.began)
    );
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" \
         rx=\"2\"><title>{}</title></rect>",
        escape(&title)
    );
}
