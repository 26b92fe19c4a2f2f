//! The report of a run as one HTML page. It fetches nothing and runs no script; light and dark
//! follow the reader's system.

use std::fmt::Write as _;

use upgrade_core::journal::Proof;
use upgrade_core::plan::Plan;
use upgrade_view::{Outcomes, RunResult, Timeline};

use super::timeline::{chart, class};
use super::{time, words};
use crate::advice;

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--text:#1b1f24;--faint:#667078;--line:#d5dae0;\
--prepare:#8a94a0;--drain:#c98a12;--reboot:#2f6fd0;--verify:#2b8a4b;--kubernetes:#7a4fc4;--bad:#c92a2a}\
@media(prefers-color-scheme:dark){:root{--page:#14171a;--text:#e4e8ec;--faint:#9aa4ae;--line:#2e353c;\
--prepare:#7d8894;--drain:#e0a93b;--reboot:#5c9bf5;--verify:#4cb876;--kubernetes:#a98af0;--bad:#ff6b6b}}\
body{background:var(--page);color:var(--text);font:15px/1.5 system-ui,sans-serif;margin:0 auto;\
max-width:1060px;padding:24px}\
h1{font-size:22px;margin:0}h2{font-size:16px;margin:32px 0 8px}p{margin:4px 0}\
.faint{color:var(--faint)}.bad{color:var(--bad)}\
table{border-collapse:collapse;width:100%}th{text-align:left;color:var(--faint);font-weight:500}\
td,th{border-bottom:1px solid var(--line);padding:5px 14px 5px 0;vertical-align:top}\
.picture{overflow-x:auto}svg{display:block;min-width:720px;width:100%}\
svg text{fill:var(--text);font:12px system-ui,sans-serif}svg text.name{text-anchor:end}\
svg text.tick{fill:var(--faint);font-size:11px}svg line.tick{stroke:var(--line)}\
.prepare{fill:var(--prepare);background:var(--prepare)}.drain{fill:var(--drain);background:var(--drain)}\
.reboot{fill:var(--reboot);background:var(--reboot)}.verify{fill:var(--verify);background:var(--verify)}\
.kubernetes{fill:var(--kubernetes);background:var(--kubernetes)}\
rect.failed{fill:var(--bad)}rect.open{opacity:.45}\
.key span{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 6px 0 16px}\
code{font-family:ui-monospace,monospace;font-size:13px;overflow-wrap:anywhere}";

/// The report of a run.
pub fn page(plan: &Plan, timeline: &Timeline) -> String {
    let title = format!("{}: {}", plan.cluster, words::changes(&plan.from, &plan.to));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n",
        title = escape(&title)
    );
    head(&mut out, plan, timeline);
    out.push_str("<h2>Timeline</h2>\n<div class=\"picture\">\n");
    out.push_str(&chart(plan, timeline));
    out.push_str("</div>\n<p class=\"key faint\">");
    for (class, words) in [
        ("prepare", "pull, snapshot, checks"),
        ("drain", "cordon, drain, uncordon"),
        ("reboot", "install, reboot"),
        ("verify", "verify, soak"),
        ("kubernetes", "Kubernetes"),
    ] {
        let _ = write!(out, "<span class=\"{class}\"></span>{words}");
    }
    out.push_str("</p>\n");
    nodes(&mut out, plan, timeline);
    steps(&mut out, timeline);
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(out, "<p class=\"faint\">talos-operator {version}</p>\n</body>\n</html>\n");
    out
}

fn head(out: &mut String, plan: &Plan, timeline: &Timeline) {
    let (class, result) = match &timeline.result {
        RunResult::Halted { why } => {
            ("bad", format!("halted: {why}. Advice: {}", advice::text(&why.advice())))
        }
        RunResult::Open if timeline.began.is_none() => ("", "not started".to_owned()),
        RunResult::Open => ("", "not finished".to_owned()),
        result => ("", result.to_string()),
    };
    let _ = writeln!(out, "<p class=\"{class}\">{}</p>", escape(&result));
    let when = timeline.began.map_or_else(String::new, |began| {
        let processes = match timeline.processes {
            0 | 1 => String::new(),
            count => format!(", {count} processes"),
        };
        let took = time::took(timeline.took());
        format!("started {}, took {took}{processes}; ", time::moment(began))
    });
    let _ = writeln!(
        out,
        "<p class=\"faint\">{}plan <code>{}</code></p>",
        escape(&when),
        plan.hash().short()
    );
    for proof in timeline.snapshots() {
        let Proof::EtcdSnapshot { location: file, sha256, bytes } = proof else { continue };
        let _ = writeln!(
            out,
            "<p class=\"faint\">etcd snapshot <code>{}</code>, {bytes} bytes, sha256 \
             <code>{}</code></p>",
            escape(file),
            escape(sha256)
        );
    }
}

fn nodes(out: &mut String, plan: &Plan, timeline: &Timeline) {
    let Some(last) = timeline.last else { return };
    out.push_str(
        "<h2>Nodes</h2>\n<table>\n<tr><th>Node</th><th>What happened</th><th>Took</th>\
         <th>Verified</th></tr>\n",
    );
    for row in words::rows(&Outcomes::of(plan, timeline, last)) {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&row.name),
            escape(&row.happened),
            row.took,
            escape(&row.verified)
        );
    }
    out.push_str("</table>\n");
}

fn steps(out: &mut String, timeline: &Timeline) {
    let Some(last) = timeline.last else { return };
    out.push_str(
        "<h2>Steps</h2>\n<table>\n<tr><th>Started</th><th>Step</th><th>Took</th><th>Outcome</th>\
         </tr>\n",
    );
    for attempt in &timeline.attempts {
        let outcome = attempt.outcome.as_ref();
        let outcome =
            outcome.map_or("interrupted".to_owned(), |outcome| words::outcome(outcome, None));
        let bad = if attempt.failed() { " class=\"bad\"" } else { "" };
        let again = words::attempt(attempt.number);
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td><span class=\"key\"><span class=\"{}\"></span></span>{}{again}</td>\
             <td>{}</td><td{bad}>{}</td></tr>",
            time::of_day(attempt.began),
            class(attempt.step.action),
            escape(&attempt.step.to_string()),
            time::took(attempt.took(last)),
            escape(&outcome)
        );
    }
    out.push_str("</table>\n");
}

/// Text that HTML does not read as markup.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixtures as fixtures;

    #[test]
    fn the_page_of_a_whole_run() {
        let plan = fixtures::plan();
        let page = page(&plan, &Timeline::from_entries(&fixtures::whole(&plan)));
        insta::assert_snapshot!(page);
    }

    #[test]
    fn a_halted_run_shows_its_reason_and_advice() {
        let plan = fixtures::plan();
        let page = page(&plan, &Timeline::from_entries(&fixtures::halted(&plan)));
        assert!(page.contains("class=\"reboot failed\""), "{page}");
        assert!(page.contains("halted: 1/cp-2/upgrade failed"), "{page}");
        assert!(page.contains("find out why the new one did not boot, then resume"), "{page}");
    }

    #[test]
    fn the_page_fetches_nothing_and_runs_nothing() {
        let mut plan = fixtures::plan();
        plan.cluster = "<script>alert(1)</script>&'\"".to_owned();
        let page = page(&plan, &Timeline::from_entries(&fixtures::killed(&plan)));
        assert!(!page.contains("<script"), "{page}");
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("interrupted"), "{page}");
    }
}
