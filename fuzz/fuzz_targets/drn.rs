//! Reads any bytes as a `.drn` file. A model that is read can be written, and read again unchanged.
#![no_main]

use acrl::FiniteCmdp;
use acrl_exact::drn;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match drn::read(bytes) {
        Ok(model) => match drn::read(drn::write(&model).as_bytes()) {
            Ok(again) => assert_same(&model, &again),
            Err(e) => panic!("a written model cannot be read: {e}"),
        },
        Err(e) => {
            let lines = bytes.iter().filter(|b| **b == b'\n').count() + 1;
            assert!((1..=lines).contains(&e.line), "{lines} lines: {e}");
            assert!(!e.message.is_empty() && !e.message.contains(char::is_control), "{e:?}");
        }
    }
});

/// Equal but for the last digits of the probabilities, which are divided by their sum once more.
fn assert_same(a: &FiniteCmdp, b: &FiniteCmdp) {
    assert_eq!((a.states(), a.choice_count(), a.initial()), (b.states(), b.choice_count(), b.initial()));
    assert_eq!(a.reward_names(), b.reward_names());
    assert!((0..a.states()).all(|s| a.choices(s) == b.choices(s) && a.state_name(s) == b.state_name(s)));
    assert!((0..a.choice_count()).all(|c| a.action_name(c) == b.action_name(c)));
    for (x, y) in (0..a.choice_count()).map(|c| (a.choice(c), b.choice(c))) {
        assert_eq!((x.targets, x.rewards), (y.targets, y.rewards));
        for (p, q) in x.probabilities.iter().zip(y.probabilities) {
            assert!((p - q).abs() <= 1e-12 * p, "{p} and {q}");
        }
    }
}
