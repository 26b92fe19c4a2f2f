//! Scenarios that once broke a rule, and that seeds always play alike.

use std::path::Path;

use simulation_tests::scenario::{Scenario, draw};
use simulation_tests::template::Templates;
use simulation_tests::{play, trace_text};

#[test]
fn what_failed_once_never_fails_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let templates = Templates::default();
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario: Scenario = serde_json::from_str(&text).unwrap();
        let played = play(&scenario, &templates, true);
        let story = trace_text::story(&played.log);
        assert!(played.breaches.is_empty(), "{}: {:?}\n{story}", path.display(), played.breaches);
        count += 1;
    }
    assert!(count >= 5, "the folder is there, and read");
}

#[test]
fn a_seed_always_plays_alike() {
    let templates = Templates::default();
    for seed in 0..5 {
        let scenario = draw(seed);
        let first = play(&scenario, &templates, true);
        let second = play(&scenario, &Templates::default(), true);
        assert_eq!(trace_text::story(&first.log), trace_text::story(&second.log), "seed {seed}");
    }
}
