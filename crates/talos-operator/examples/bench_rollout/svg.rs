//! The same time lines as a drawing.

use std::fmt::Write as _;

use crate::record::{Record, State};

/// Pixels: the time axis, a row, and the room for names.
const WIDTH: f64 = 900.0;
const ROW: f64 = 9.0;
const NAMES: f64 = 80.0;
const HEAD: f64 = 46.0;
const BETWEEN: f64 = 34.0;

/// How many marks the axis has at most.
const MARKS: f64 = 12.0;

/// Both sides below each other, on one scale.
pub(crate) fn drawing(title: &str, sides: &[(&str, &Record)]) -> String {
    let longest = sides.iter().map(|(_, record)| record.end).fold(1.0, f64::max);
    let x = |at: f64| NAMES + at / longest * WIDTH;
    let mut body = String::new();
    let mut top = HEAD;
    for (name, record) in sides {
        let _ = writeln!(
            body,
            r#"<text x="4" y="{:.1}" class="h">{}, {:.0} s</text>"#,
            top + 12.0,
            escape(name),
            record.end
        );
        top += 18.0;
        for line in &record.lines {
            let _ = writeln!(
                body,
                r#"<text x="{:.1}" y="{:.1}" class="n">{}</text>"#,
                NAMES - 4.0,
                top + ROW - 2.0,
                escape(&line.name)
            );
            for (from, to, state) in line.spans(record.end) {
                let (left, width) = (x(from), (x(to) - x(from)).max(0.4));
                let _ = writeln!(
                    body,
                    r#"<rect x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{:.1}" fill="{}"><title>{} {} {from:.1} s to {to:.1} s</title></rect>"#,
                    ROW - 1.0,
                    colour(state),
                    escape(&line.name),
                    state.words()
                );
            }
            top += ROW;
        }
        top += axis(&mut body, top, longest, x);
        top += BETWEEN - 18.0;
    }
    let mut legend = String::new();
    for (place, state) in (0_u8..).zip(State::ALL) {
        let left = 4.0 + f64::from(place) * 108.0;
        let _ = writeln!(
            legend,
            r#"<rect x="{left:.0}" y="26" width="9" height="9" fill="{}"/><text x="{:.0}" y="34">{}</text>"#,
            colour(state),
            left + 12.0,
            state.words()
        );
    }
    let width = NAMES + WIDTH + 12.0;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{top:.0}" viewBox="0 0 {width:.0} {top:.0}">
<style>text{{font:9px sans-serif;fill:#222}}.h{{font-size:12px;font-weight:bold}}.n{{text-anchor:end}}</style>
<rect width="100%" height="100%" fill="white"/>
<text x="4" y="16" class="h">{}</text>
{legend}{body}</svg>
"#,
        escape(title)
    )
}

/// Marks at round times; how much room they take.
fn axis(body: &mut String, top: f64, longest: f64, x: impl Fn(f64) -> f64) -> f64 {
    let steps = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
    let step = steps.into_iter().find(|step| longest / step <= MARKS).unwrap_or(7200.0);
    let mut at = 0.0;
    while at <= longest {
        let _ = writeln!(
            body,
            r##"<path d="M{0:.1} {top:.1}v4" stroke="#222"/><text x="{0:.1}" y="{1:.1}">{at:.0} s</text>"##,
            x(at),
            top + 13.0
        );
        at += step;
    }
    18.0
}

fn colour(state: State) -> &'static str {
    match state {
        State::Serving => "#e8efe8",
        State::Pulling => "#9ec9e8",
        State::Installing => "#4f8fc4",
        State::Draining => "#f2c14e",
        State::Stopping => "#f28e2b",
        State::Down => "#b3261e",
        State::Rejoining => "#8e6bbf",
        State::Held => "#c8c8c8",
        State::Restarting => "#d9822b",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    #[test]
    fn every_span_is_drawn_once() {
        let mut line = Line::new("cp-1", true);
        line.changes = vec![(0.0, State::Serving), (5.0, State::Down), (8.0, State::Serving)];
        let record = Record { lines: vec![line], end: 10.0 };
        let text = drawing("a < b", &[("ours", &record), ("talosctl", &record)]);
        assert_eq!(text.matches("cp-1 is down 5.0 s to 8.0 s").count(), 2, "{text}");
        assert!(text.contains("a &lt; b") && text.ends_with("</svg>\n"), "{text}");
    }
}
