//! Flags that have a new name: an error names it.

use std::ffi::OsString;

/// Former flag, the verb that had it (none: several), and the present one.
const RENAMED: [(&str, Option<&str>, &str); 11] = [
    ("--folder", None, "--out-dir"),
    ("--budget", None, "--train-steps"),
    ("--trainings", None, "--train-seeds"),
    ("--steering", None, "--executor"),
    ("--start", None, "--init-multipliers"),
    ("--mixture", None, "--executor time-sharing"),
    ("--time-sharing", None, "--executor time-sharing"),
    ("--occupation", None, "--occupancy"),
    ("--loss", Some("check"), "--max-suboptimality"),
    ("--steps", Some("train"), "--total-steps"),
    ("--decisions", Some("train"), "--total-steps"),
];

/// The error for the first former flag among the words of the command line.
pub(crate) fn message(words: &[OsString]) -> Option<String> {
    let verb = words.iter().skip(1).find_map(|word| word.to_str().filter(|word| !word.starts_with('-')));
    let flags = words.iter().skip(1).filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    flags.into_iter().find_map(|word| {
        let flag = word.split_once('=').map_or(word, |(flag, _)| flag);
        let renamed =
            RENAMED.iter().find(|(old, only, _)| *old == flag && only.is_none_or(|only| verb == Some(only)));
        renamed.map(|(old, _, new)| format!("'{old}' is now '{new}'"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_flags_name_the_present_ones() {
        let message = |line: &str| message(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(message("acrl run x --folder d").unwrap(), "'--folder' is now '--out-dir'");
        assert_eq!(message("acrl demo --budget=5").unwrap(), "'--budget' is now '--train-steps'");
        assert_eq!(message("acrl train x --steps 5").unwrap(), "'--steps' is now '--total-steps'");
        assert_eq!(message("acrl run x --steps 5"), None);
        assert_eq!(message("acrl run x --require a>=1 -- --folder"), None);
    }
}
