use std::io::Cursor;

use acrl::FiniteCmdp;

use super::archive::ArchiveWriter;
use super::{NpzError, read, write};
use crate::{drn, test_models};

/// Array of a file: its name, NumPy's code for its elements, the text of its shape, and its bytes.
type NamedArray = (&'static str, &'static str, &'static str, Vec<u8>);

fn floats(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn wholes(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn letters(texts: &[&str], width: usize) -> Vec<u8> {
    let padded =
        |text: &&str| text.chars().map(u32::from).chain(std::iter::repeat(0)).take(width).collect::<Vec<_>>();
    texts.iter().flat_map(padded).flat_map(u32::to_le_bytes).collect()
}

/// Two states and two actions; the second state does not have the first action.
fn parts() -> Vec<NamedArray> {
    vec![
        ("format", "|S3", "()", b"csr".to_vec()),
        ("shape", "<i8", "(2,)", [4_i64, 2].iter().flat_map(|n| n.to_le_bytes()).collect()),
        ("indptr", "<i4", "(5,)", wholes(&[0, 2, 3, 3, 5])),
        ("indices", "<i4", "(5,)", wholes(&[0, 1, 1, 1, 0])),
        ("data", "<f8", "(5,)", floats(&[0.25, 0.75, 1.0, 0.5, 0.5])),
        ("rewards", "<f8", "(2, 4)", floats(&[1.0, 2.0, f64::NAN, 4.0, -1.0, -2.0, f64::NAN, -4.0])),
        ("names", "<U5", "(2,)", letters(&["gain", "größe"], 5)),
        ("initial", "<f8", "(2,)", floats(&[0.0, 1.0])),
        ("actions", "|S4", "(2,)", b"waitgo\0\0".to_vec()),
    ]
}

fn file(parts: &[NamedArray]) -> Vec<u8> {
    file_in_order(parts, false)
}

fn file_in_order(parts: &[NamedArray], fortran: bool) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut archive = ArchiveWriter::new();
    for (name, code, shape, bytes) in parts {
        archive.add(&format!("{name}.npy"), |entry| {
            let head = format!("{{'descr': '{code}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
            entry.put(b"\x93NUMPY\x01\x00");
            entry.put(&(head.len() as u16).to_le_bytes());
            entry.put(head.as_bytes());
            entry.put(bytes);
        });
    }
    archive.finish()
}

fn parse(bytes: &[u8]) -> Result<FiniteCmdp, NpzError> {
    read(Cursor::new(bytes))
}

fn message(bytes: &[u8]) -> String {
    parse(bytes).map_or_else(|e| e.to_string(), |m| format!("no error, {} states", m.states()))
}

/// Arrays of the example, with one of them replaced or added.
fn with(array: NamedArray) -> Vec<NamedArray> {
    let mut parts = parts();
    match parts.iter_mut().find(|(name, ..)| *name == array.0) {
        Some(place) => *place = array,
        None => parts.push(array),
    }
    parts
}

#[test]
fn files_of_scipy_and_numpy_are_read() {
    let m = parse(&file(&parts())).unwrap();
    assert_eq!((m.states(), m.choice_count(), m.transitions()), (2, 3, 5));
    assert_eq!(m.reward_names(), ["gain", "größe"]);
    assert_eq!((m.choices(0), m.choices(1), m.initial()), (0..2, 2..3, &[(1, 1.0)][..]));
    assert_eq!((0..3).map(|c| m.action_name(c)).collect::<Vec<_>>(), ["wait", "go", "go"]);
    let rewards: Vec<&[f64]> = (0..3).map(|c| m.choice(c).rewards).collect();
    assert_eq!(rewards, [[1.0, -1.0], [2.0, -2.0], [4.0, -4.0]]);
    assert_eq!((m.choice(0).targets, m.choice(0).probabilities), (&[0, 1][..], &[0.25, 0.75][..]));
    assert_eq!(m.choice(2).targets, [1, 0], "the order is kept");

    let mut least = parts();
    least.retain(|(name, ..)| !["names", "initial", "actions"].contains(name));
    let m = parse(&file(&least)).unwrap();
    assert_eq!((m.reward_names(), m.initial()), (&["r0".to_owned(), "r1".to_owned()][..], &[(0, 1.0)][..]));
    assert_eq!((0..3).map(|c| m.action_name(c)).collect::<Vec<_>>(), ["0", "1", "1"]);
}

#[test]
fn all_dtypes_byte_orders_and_memory_orders_are_read() {
    let usual = parse(&file(&parts())).unwrap();
    let parts = vec![
        ("format", "<U3", "()", letters(&["csr"], 3)),
        ("shape", ">i2", "(2,)", vec![0, 4, 0, 2]),
        ("indptr", ">u8", "(5,)", [0_u64, 2, 3, 3, 5].iter().flat_map(|n| n.to_be_bytes()).collect()),
        ("indices", "|i1", "(5,)", vec![0, 1, 1, 1, 0]),
        (
            "data",
            ">f4",
            "(5,)",
            [0.25_f32, 0.75, 1.0, 0.5, 0.5].iter().flat_map(|x| x.to_be_bytes()).collect(),
        ),
        ("rewards", "|i1", "(2, 4)", [1_i8, 2, 0, 4, -1, -2, 0, -4].map(|n| n as u8).to_vec()),
        (
            "names",
            ">U5",
            "(2,)",
            letters(&["gain", "größe"], 5).chunks(4).flat_map(|c| [c[3], c[2], c[1], c[0]]).collect(),
        ),
        ("initial", "<i4", "()", wholes(&[1])),
        ("actions", "<U4", "(2,)", letters(&["wait", "go"], 4)),
    ];
    assert_eq!(parse(&file(&parts)).unwrap(), usual);
    let cut = with(("names", "|S5", "(2,)", "gain\0größe".as_bytes()[..10].to_vec()));
    assert_eq!(message(&file(&cut)), "array 'names': element 1 is not a text in Unicode");
    // Fortran's order.
    let mut rewards =
        with(("rewards", "<f8", "(2, 4)", floats(&[1.0, -1.0, 2.0, -2.0, 0.0, 0.0, 4.0, -4.0])));
    rewards.push(("_is_array", "|b1", "()", vec![1]));
    let swapped = file_in_order(&rewards, true);
    assert_eq!(parse(&swapped).unwrap(), usual);
}

#[test]
fn zeros_are_dropped_and_duplicate_entries_added_up() {
    let mut parts = with(("indptr", "<i4", "(5,)", wholes(&[0, 5, 6, 7, 8])));
    for part in &mut parts {
        match part.0 {
            // More elements than the rows have do not count.
            "indices" => *part = ("indices", "<i4", "(10,)", wholes(&[1, 0, 1, 1, 0, 1, 0, 0, 9, 9])),
            "data" => {
                *part =
                    ("data", "<f8", "(10,)", floats(&[0.25, 0.25, 0.25, 0.0, 0.25, 1.0, 0.0, 1.0, 7.0, 7.0]));
            }
            _ => {}
        }
    }
    let m = parse(&file(&parts)).unwrap();
    assert_eq!(
        (m.choice_count(), m.choice(0).targets, m.choice(0).probabilities),
        (3, &[0, 1][..], &[0.5, 0.5][..])
    );
    assert_eq!((m.choices(1), m.choice(2).targets), (2..3, &[0][..]));
}

#[test]
fn states_may_have_different_numbers_of_actions() {
    let changed = |actions: NamedArray| {
        let mut parts = parts();
        parts.retain(|(name, ..)| !["shape", "indptr", "rewards", "actions"].contains(name));
        parts.push(("shape", "<i4", "(2,)", wholes(&[3, 2])));
        parts.push(("indptr", "<i4", "(4,)", wholes(&[0, 2, 3, 5])));
        parts.push(("first_choice", "<i4", "(3,)", wholes(&[0, 2, 3])));
        parts.push(("rewards", "<f8", "(2, 3)", floats(&[1.0, 2.0, 4.0, -1.0, -2.0, -4.0])));
        parts.push(actions);
        file(&parts)
    };
    let usual = parse(&file(&parts())).unwrap();
    let names = |m: &FiniteCmdp| (0..3).map(|c| m.action_name(c).into_owned()).collect::<Vec<_>>();
    let m = parse(&changed(("actions", "|S4", "(2,)", b"waitgo\0\0".to_vec()))).unwrap();
    assert_eq!(names(&m), ["wait", "go", "wait"]);
    let m = parse(&changed(("actions", "|S4", "(3,)", b"waitgo\0\0go\0\0".to_vec()))).unwrap();
    assert_eq!(m, usual);
    let wrong = message(&changed(("actions", "|S4", "(3,)", b"waitwaitgo\0\0".to_vec())));
    assert_eq!(wrong, "array 'actions': state '0', action 'wait': the state has this action twice");
    let mut empty = parts();
    empty.push(("first_choice", "<i4", "(3,)", wholes(&[0, 2, 4])));
    let wrong = message(&file(&empty));
    assert!(wrong.contains("array 'rewards': state '1', action 'wait': the reward 'gain' is NaN"), "{wrong}");
}

#[test]
fn written_models_are_read_back() {
    let monitoring = acrl_envs::Monitoring::new(acrl_envs::MonitoringParameters::default()).unwrap();
    let monitoring = monitoring.model().unwrap();
    // All but the names of states.
    let back = parse(&write(&monitoring)).unwrap();
    assert_eq!(drn::write(&back), drn::write(&monitoring));
    for seed in 0..200 {
        let model = test_models::model(seed);
        assert_eq!(parse(&write(&model)).unwrap(), model, "{seed}");
    }
    // Actions in another order, some missing, one name per choice, several initial states, no rewards.
    let mut b = FiniteCmdp::builder(Vec::<String>::new());
    (0..40).for_each(|s| _ = b.state(s.to_string()));
    for s in 0..40 {
        b.choice(s, format!("é {s}"), &[(39, 0.5), (s / 2, 0.5)], &[]);
        if s % 3 == 0 {
            b.choice(s, "go", &[(s, 1.0)], &[]);
        }
    }
    b.initial(3, 0.25).initial(30, 0.75);
    let model = b.build().unwrap();
    assert_eq!(parse(&write(&model)).unwrap(), model);
    // Actions that are numbers become columns again, whichever the first state has.
    let mut b = FiniteCmdp::builder(["x"]);
    (0..3).for_each(|s| _ = b.state(s.to_string()));
    b.choice(0, "1", &[(1, 1.0)], &[1.0]);
    b.choice(1, "0", &[(2, 1.0)], &[2.0]).choice(1, "2", &[(2, 1.0)], &[3.0]);
    b.choice(2, "2", &[(0, 1.0)], &[4.0]);
    let model = b.build().unwrap();
    assert_eq!(parse(&write(&model)).unwrap(), model);
}

#[test]
fn errors_name_the_array_and_the_place() {
    assert_eq!(parse(&file(&parts())).unwrap().states(), 2);
    let cases: Vec<(NamedArray, &str)> = vec![
        (("format", "|S3", "()", b"csc".to_vec()), "array 'format': the format is 'csc', expected 'csr'"),
        (("format", "<i4", "()", wholes(&[1])), "array 'format': the array holds numbers, expected texts"),
        (("shape", "<i4", "(3,)", wholes(&[4, 2, 1])), "array 'shape': the shape is (3,), expected (2,)"),
        (("shape", "<i4", "(2,)", wholes(&[0, 2])), "array 'shape': the matrix is 0 × 2, expected"),
        (
            ("shape", "<i4", "(2,)", wholes(&[4, -2])),
            "array 'shape': element 1 is -2, expected a whole number from 0",
        ),
        (("shape", "<i4", "(2,)", wholes(&[4, 3])), "array 'shape': 4 rows are no multiple of 3 states"),
        (
            ("shape", "<i4", "(2,)", wholes(&[i32::MAX, 1])),
            "array 'indptr': the shape is (5,), expected (2147483648,)",
        ),
        (
            ("shape", "<i8", "(2,)", [1_i64 << 40, 1].iter().flat_map(|n| n.to_le_bytes()).collect()),
            "array 'shape': element 0 is 1099511627776, expected at most 4294967295",
        ),
        (
            ("indptr", "<i4", "(4,)", wholes(&[0, 2, 3, 3])),
            "array 'indptr': the shape is (4,), expected (5,), one more",
        ),
        (
            ("indptr", "<i4", "(5,)", wholes(&[0, 2, 1, 3, 5])),
            "array 'indptr': element 2 is 1 after 2, expected at least",
        ),
        (("indptr", "<i4", "(5,)", wholes(&[1, 2, 3, 3, 5])), "array 'indptr': element 0 is 1, expected 0"),
        (
            ("indptr", "<i4", "(5,)", wholes(&[0, 2, 3, 3, 6])),
            "array 'indices': the shape is (5,), expected (6,)",
        ),
        (
            ("indptr", "<f8", "(5,)", floats(&[0.0; 5])),
            "array 'indptr': the array holds fractions, expected whole",
        ),
        (
            ("indptr", "<i4", "(5,)", wholes(&[0, 2, 3, 3, 3])),
            "array 'indptr': state '1': the state has no action",
        ),
        (
            ("indices", "<i4", "(5,)", wholes(&[0, 1, 1, 2, 0])),
            "array 'indices': row 3 (state 1, action 1) leads to state 2, expected 0 to 1",
        ),
        (
            ("indices", "<i4", "(5,)", wholes(&[0, -1, 1, 1, 0])),
            "array 'indices': element 1 is -1, expected a whole",
        ),
        (
            ("indices", "<i4", "(1, 5)", wholes(&[0; 5])),
            "array 'indices': the shape is (1, 5), expected (5,)",
        ),
        (("data", "<f8", "(4,)", floats(&[1.0; 4])), "array 'data': the shape is (4,), expected (5,)"),
        (
            ("data", "<f8", "(5,)", floats(&[0.25, 0.65, 1.0, 0.5, 0.5])),
            "array 'data': state '0', action 'wait': the probabilities add up to 0.9, expected 1",
        ),
        (
            ("data", "<f8", "(5,)", floats(&[0.25, 0.75, f64::NAN, 0.5, 0.5])),
            "array 'data': state '0', action 'go': the probability of target 1 is NaN, expected a number from 0 to 1",
        ),
        (
            ("data", "<f8", "(5,)", floats(&[0.25, 0.75, 1.0, 1.5, -0.5])),
            "array 'data': state '1', action 'go': the probability of target 1 is 1.5",
        ),
        (
            ("data", "<c16", "(5,)", floats(&[0.0; 10])),
            "array 'data': the array's elements are of NumPy's type 'c16'",
        ),
        (
            ("data", "<f2", "(5,)", vec![0; 10]),
            "array 'data': the array's numbers have 16 bits, expected 32 or 64",
        ),
        (
            ("data", "|O", "(5,)", vec![0; 40]),
            "array 'data': the array holds Python objects (pickled), expected",
        ),
        (
            ("data", "<f8", "(1000000000000,)", floats(&[1.0; 5])),
            "array 'data': the array's shape is (1000000000000,) with 8 bytes for each element, but it has 40 bytes",
        ),
        (
            ("data", "<f8", "(18446744073709551615, 5)", floats(&[1.0; 5])),
            "array 'data': the array's shape is",
        ),
        (
            ("data", "<f8", "5", floats(&[1.0; 5])),
            "array 'data': the array's header does not state its shape",
        ),
        (
            ("rewards", "<f8", "(8,)", floats(&[0.0; 8])),
            "array 'rewards': the shape is (8,), expected (rewards, 4)",
        ),
        (
            ("rewards", "<f8", "(4, 2)", floats(&[0.0; 8])),
            "array 'rewards': the shape is (4, 2), expected (rewards, 4)",
        ),
        (
            ("rewards", "<f8", "(2, 4)", floats(&[0.0, f64::INFINITY, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
            "array 'rewards': state '0', action 'go': the reward 'gain' is inf, expected a finite number",
        ),
        (
            ("rewards", "<U1", "(2, 4)", letters(&["a"; 8], 1)),
            "array 'rewards': the array holds texts, expected numbers",
        ),
        (
            ("names", "<U1", "(3,)", letters(&["a", "b", "c"], 1)),
            "array 'names': the shape is (3,), expected (2,), a name",
        ),
        (("names", "<U1", "(2,)", letters(&["a", "a"], 1)), "array 'names': two rewards are called 'a'"),
        (("names", "|O", "(2,)", vec![0; 16]), "array 'names': the array holds Python objects (pickled)"),
        (
            ("names", "<f8", "(2,)", floats(&[0.0; 2])),
            "array 'names': the array holds numbers, expected texts",
        ),
        (("names", "<U1", "(2,)", vec![0xff; 8]), "array 'names': element 0 is not a text in Unicode"),
        (
            ("initial", "<f8", "(3,)", floats(&[1.0, 0.0, 0.0])),
            "array 'initial': the shape is (3,), expected (2,), the prob",
        ),
        (
            ("initial", "<f8", "(2,)", floats(&[0.5, 0.4])),
            "array 'initial': the initial probabilities add up to 0.9",
        ),
        (
            ("initial", "<f8", "(2,)", floats(&[0.0, 0.0])),
            "array 'initial': the initial probabilities add up to 0",
        ),
        (
            ("initial", "<f8", "(2,)", floats(&[f64::NAN, 1.0])),
            "array 'initial': the probability of starting in state 0 is NaN",
        ),
        (("initial", "<i4", "()", wholes(&[2])), "array 'initial': the initial state is 2, expected 0 to 1"),
        (
            ("initial", "<i4", "()", wholes(&[-1])),
            "array 'initial': element 0 is -1, expected a whole number",
        ),
        (("initial", "<f8", "()", floats(&[1.0])), "array 'initial': the shape is (), expected (2,)"),
        (
            ("actions", "<U1", "(3,)", letters(&["a", "b", "c"], 1)),
            "array 'actions': the shape is (3,), expected (2,)",
        ),
        (("actions", "<U1", "(2,)", letters(&["a", "a"], 1)), "array 'actions': two actions are called 'a'"),
        (
            ("first_choice", "<i4", "(2,)", wholes(&[0, 4])),
            "array 'first_choice': the shape is (2,), expected (3,)",
        ),
        (
            ("first_choice", "<i4", "(3,)", wholes(&[0, 2, 3])),
            "array 'first_choice': the last element is 3, expected the 4",
        ),
        (("first_choice", "<i4", "(3,)", wholes(&[0, 5, 4])), "array 'first_choice': element 2 is 4 after 5"),
        (
            ("intial", "<i4", "()", wholes(&[1])),
            "array 'intial': no such array is known, expected format, shape",
        ),
    ];
    for (part, expected) in cases {
        let found = message(&file(&with(part.clone())));
        assert!(found.contains(expected), "{part:?}: {found:?} does not contain {expected:?}");
    }
    for name in ["format", "shape", "indptr", "indices", "data", "rewards"] {
        let mut less = parts();
        less.retain(|part| part.0 != name);
        let found = message(&file(&less));
        assert!(
            found.starts_with(&format!("array '{name}': the array is missing, expected one of shape")),
            "{found}"
        );
    }
}

#[test]
fn damaged_files_are_refused_and_never_panic() {
    let whole = file(&parts());
    assert!(message(b"").contains("this is not a whole zip file"));
    assert!(message(b"@type: MDP").contains("this is not a whole zip file"));
    for end in 0..whole.len() {
        assert!(parse(&whole[..end]).is_err(), "cut at byte {end}");
    }
    // Every byte changed, in a few ways: an error, or a byte without effect.
    let usual = parse(&whole).unwrap();
    for at in 0..whole.len() {
        for change in [1, 0x40, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            if let Ok(model) = parse(&bytes) {
                assert_eq!(model.states(), usual.states(), "byte {at}");
            }
        }
    }
    let at = |text: &[u8]| whole.windows(text.len()).position(|window| window == text).unwrap();
    let method = |number: u8| {
        let mut bytes = whole.clone();
        bytes[at(b"PK\x01\x02") + 10] = number;
        message(&bytes)
    };
    assert!(
        method(14).starts_with("array 'format': the entry is compressed by method Lzma, expected"),
        "{}",
        method(14)
    );
    let mut locked = whole.clone();
    locked[at(b"PK\x01\x02") + 8] |= 1;
    assert!(message(&locked).contains("array 'format': the entry is encrypted"), "{}", message(&locked));
    let mut damaged = whole.clone();
    damaged[at(b"PK\x01\x02") + 16] ^= 1;
    assert!(
        message(&damaged).contains("array 'format': the entry is damaged: its checksum"),
        "{}",
        message(&damaged)
    );
}

/// NumPy stores entries uncompressed, with 32-bit fields.
#[test]
fn stored_entries_with_32_bit_fields_are_read() {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, code, shape, content) in parts() {
        let head = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let array = [b"\x93NUMPY\x02\x00", &(head.len() as u32).to_le_bytes()[..], head.as_bytes(), &content]
            .concat();
        let mut crc = flate2::Crc::new();
        crc.update(&array);
        let (name, size) = (format!("{name}.npy"), (array.len() as u32).to_le_bytes());
        let common = [
            &[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0][..],
            &crc.sum().to_le_bytes(),
            &size,
            &size,
            &(name.len() as u16).to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        let offset = (bytes.len() as u32).to_le_bytes();
        directory.extend([b"PK\x01\x02", &[20, 0][..], &common, &[0; 10], &offset, name.as_bytes()].concat());
        bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &array].concat());
    }
    let (start, size) = ((bytes.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let count = parts().len() as u8;
    bytes.extend(directory);
    bytes.extend(
        [b"PK\x05\x06", &[0, 0, 0, 0, count, 0, count, 0][..], &size, &start, &[2, 0], b"hi"].concat(),
    );
    assert_eq!(parse(&bytes).unwrap(), parse(&file(&parts())).unwrap());
    // An entry that is said to be larger than the file.
    let at = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[at + 22] = 0x7f;
    assert!(
        message(&bytes).contains("array 'format': the entry ends beyond the file's"),
        "{}",
        message(&bytes)
    );
}
