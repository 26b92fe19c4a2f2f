//! Choosing a mutant: in a process of its own, since others would notice.

use upgrade_core::mutant::{Mutant, is, set};

#[test]
fn one_mutant_lives_at_a_time() {
    let alive = || Mutant::ALL.iter().copied().filter(|mutant| is(*mutant)).collect::<Vec<_>>();
    assert_eq!(alive(), []);
    for mutant in Mutant::ALL {
        set(Some(*mutant));
        assert_eq!(alive(), [*mutant]);
    }
    set(None);
    assert_eq!(alive(), []);
}
