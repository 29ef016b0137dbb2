//! Bad input of every kind: exit status 2, one clear sentence that names the place, nothing on standard
//! output, no panic. The readers have tables of their own; this one goes through the program.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "common/program.rs"]
mod program;

use program::acrl_in;

/// A model that is fine, from which the faults are made.
const DRN: &str = "@type: MDP
@parameters

@reward_models
r0 r1
@nr_states
2
@nr_choices
3
@model
state 0 [1, 0] init
\taction stay [0, 0]
\t\t0 : 1
\taction go [0, 0]
\t\t1 : 1
state 1 [0, 1]
\taction back [0, 0]
\t\t0 : 0.5
\t\t1 : 0.5
";

/// A problem that is fine.
const TOML: &str = "version = 1

[environment]
kind = \"monitoring\"

[objective]
reward = \"r0\"
direction = \"maximize\"

[[requirement]]
reward = \"r1\"
at_least = 0.3

[run]
steps = 1000
step_size = 0.5
epoch = 10
";

/// A file with its content, a command, and what the error says.
type Case = (&'static str, Vec<u8>, &'static str, &'static str);

/// `text` with `from` replaced, which must be there.
fn replaced(text: &str, from: &str, to: &str) -> Vec<u8> {
    assert!(text.contains(from), "{from:?} is not in the good file");
    text.replacen(from, to, 1).into_bytes()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let goal = "solve model.drn --maximize r0 --require r1>=0.2";
    for (from, to, expected) in [
        ("@type: MDP", "@type: CTMC", "CTMC"),
        ("@type: MDP", "@type: POMDP", "POMDP"),
        ("@type: MDP\n", "", "@type"),
        ("@parameters\n\n", "@parameters\np q\n", "line 3"),
        ("@nr_states\n2", "@nr_states\n3", "3"),
        ("@nr_states\n2", "@nr_states\n99999999999999999999", "line 7"),
        ("@nr_states\n2", "@nr_states\nmany", "line 7"),
        ("@nr_choices\n3", "@nr_choices\n4", "4"),
        ("@reward_models\nr0 r1", "@reward_models\nr0 r0", "r0"),
        ("state 1 [0, 1]", "state 2 [0, 1]", "line 16"),
        ("state 1 [0, 1]", "state 0 [0, 1]", "line 16"),
        ("state 1 [0, 1]", "state x [0, 1]", "line 16"),
        ("state 1 [0, 1]", "state 1 [0]", "line 16"),
        ("state 1 [0, 1]", "state 1 [0, one]", "line 16"),
        ("state 1 [0, 1]", "state 1 [0, NaN]", "line 16"),
        ("state 1 [0, 1]", "state 1 [0, 1", "line 16"),
        ("\taction back [0, 0]\n", "", "line 17"),
        ("\t\t0 : 0.5\n\t\t1 : 0.5\n", "", "action 'back'"),
        ("1 : 0.5", "1 : 0.4", "add up to 0.9"),
        ("1 : 0.5", "1 : -0.5", "-0.5"),
        ("1 : 0.5", "1 : nan", "line 19"),
        ("1 : 0.5", "7 : 0.5", "7"),
        ("1 : 0.5", "0 : 0.5", "twice"),
        ("1 : 0.5", "1 0.5", "line 19"),
        ("1 : 0.5", "1 : 1/0", "line 19"),
        ("\taction back", "\tactoin back", "line 17"),
        ("@model", "@modle", "@modle"),
    ] {
        cases.push(("model.drn", replaced(DRN, from, to), goal, expected));
    }
    let whole = |text: &[u8], expected| ("model.drn", text.to_vec(), goal, expected);
    cases.push(whole(b"", "model.drn"));
    cases.push(whole(b"\xff\xfe\x00state", "line 1"));
    cases.push(whole(&DRN.as_bytes()[..DRN.len() - 20], "model.drn"));
    let run = "run problem.toml";
    for (from, to, expected) in [
        ("version = 1", "version = 2", "line 1"),
        ("version = 1", "version = ", "line 1"),
        ("kind = \"monitoring\"", "kind = \"monitering\"", "monitering"),
        ("kind = \"monitoring\"", "knid = \"monitoring\"", "'kind' is missing"),
        ("[environment]", "[environmemt]", "environmemt"),
        ("direction = \"maximize\"", "direction = \"up\"", "line 8"),
        ("reward = \"r0\"", "reward = \"r9\"", "r9"),
        ("reward = \"r1\"", "reward = \"r7\"", "r7"),
        ("at_least = 0.3", "at_least = nan", "line 12"),
        ("at_least = 0.3", "at_least = \"much\"", "line 12"),
        ("at_least = 0.3", "at_least = 0.3\nat_most = 0.5", "at_most"),
        ("at_least = 0.3", "", "at_least"),
        ("steps = 1000", "steps = -1", "line 15"),
        ("steps = 1000", "steps = 1.5", "line 15"),
        ("step_size = 0.5", "step_size = 0", "line 16"),
        ("step_size = 0.5", "stepsize = 0.5", "line 16"),
        ("epoch = 10", "epoch = 0", "line 17"),
        ("epoch = 10", "epoch = \"often\"", "line 17"),
        ("epoch = 10", "epoch = 10\nepoch = 11", "line 18"),
    ] {
        cases.push(("problem.toml", replaced(TOML, from, to), run, expected));
    }
    let flags: [(&'static str, &'static str); 22] = [
        ("run problem.toml --steps 0", "from 1 to 1e15"),
        ("run problem.toml --steps many", "many"),
        ("run problem.toml --runs 0", "--runs"),
        ("run problem.toml --step-size -1", "-1"),
        ("run problem.toml --step-size nan", "greater than 0"),
        ("run problem.toml --epoch 0", "'auto'"),
        ("run problem.toml --tolerance 0", "greater than 0"),
        ("run problem.toml --seed -1", "--seed"),
        ("run problem.toml --threads 0", "--threads"),
        ("run problem.toml --require r1", "NAME>=NUMBER"),
        ("run problem.toml --require r1>=x", "r1>=x"),
        ("run problem.toml --require r1>=inf", "finite"),
        ("run problem.toml --require r9>=0.1", "unknown reward 'r9'"),
        ("run problem.toml --maximize r9", "unknown reward 'r9'"),
        ("run problem.toml --maximize r0 --minimize r1", "cannot be used with"),
        ("run problem.toml --log no/such/folder/run.jsonl", "no/such/folder/run.jsonl"),
        ("solve problem.toml --gap 0", "greater than 0"),
        ("solve nothing.toml", "nothing.toml"),
        ("solve nonesuch", "the bundled problems are"),
        ("solve .", "is a folder"),
        ("init nonesuch", "nonesuch"),
        ("fly", "fly"),
    ];
    for (args, expected) in flags {
        cases.push(("problem.toml", TOML.into(), args, expected));
    }
    cases.push(("model.drn", DRN.into(), "solve model.drn", "nothing to achieve"));
    let mut arrays = npz();
    let end = arrays.len();
    let npz = |text: Vec<u8>, expected| ("model.npz", text, "solve model.npz", expected);
    cases.push(npz(vec![1], "model.npz: this is not a whole zip file, which an .npz file is"));
    cases.push(npz(arrays[..end - 5].to_vec(), "model.npz: this is not a whole zip file"));
    cases.push(npz(DRN.into(), "model.npz: this is not a whole zip file"));
    cases.push(npz(arrays.clone(), "nothing to achieve"));
    let data = arrays.windows(8).position(|window| window == b"data.npy").unwrap();
    arrays[data + 40] ^= 0x10;
    cases.push(npz(arrays, "model.npz: array 'data': "));
    let gone = b"version = 1\n[model]\nfile = \"gone.drn\"\n[objective]\nreward = \"x\"\n";
    cases.push(("problem.toml", gone.to_vec(), "solve problem.toml", "gone.drn"));
    cases
}

/// A model in arrays.
fn npz() -> Vec<u8> {
    acrl_exact::npz::write(&acrl_exact::drn::read(DRN.as_bytes()).unwrap())
}

#[test]
fn well_formed_inputs_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.drn"), DRN).unwrap();
    std::fs::write(folder.path().join("model.npz"), npz()).unwrap();
    std::fs::write(folder.path().join("problem.toml"), TOML).unwrap();
    for args in [
        "solve model.drn --maximize r0 --require r1>=0.2",
        "solve model.npz --maximize r0 --require r1>=0.2",
        "solve problem.toml",
    ] {
        let output = acrl_in(folder.path(), args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn malformed_inputs_are_rejected_with_one_sentence() {
    let cases = cases();
    assert!(cases.len() >= 40);
    let mut failures = Vec::new();
    for (number, (file, text, args, expected)) in cases.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        let output = acrl_in(folder.path(), args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let first = stderr.lines().next().unwrap_or_default();
        let from_flags = stderr.contains("--help");
        let one_sentence = from_flags || stderr.trim_end().lines().count() == 1;
        let names_file =
            from_flags || args.starts_with("init") || !stderr.contains("line ") || first.contains(file);
        let fine = output.status.code() == Some(2)
            && output.stdout.is_empty()
            && first.starts_with("error: ")
            && first.contains(expected)
            && one_sentence
            && names_file;
        if !fine {
            failures.push(format!(
                "case {number} {args:?} expected {expected:?}, exit {:?}, said: {stderr}",
                output.status.code()
            ));
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
