use std::io::{Cursor, Write as _};

use acrl::FiniteCmdp;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{NpzError, read, write};
use crate::{drn, test_models};

/// Array of a file: its name, NumPy's code for its elements, the text of its shape, and its bytes.
type NamedArray = (&'static str, &'static str, String, Vec<u8>);

fn array(name: &'static str, code: &'static str, shape: &str, bytes: impl Into<Vec<u8>>) -> NamedArray {
    (name, code, shape.to_owned(), bytes.into())
}

fn floats(name: &'static str, numbers: &[f64]) -> NamedArray {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    array(name, "<f8", &format!("({},)", numbers.len()), bytes)
}

fn integers(name: &'static str, numbers: &[i64]) -> NamedArray {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    array(name, "<i8", &format!("({},)", numbers.len()), bytes)
}

fn letters(name: &'static str, code: &'static str, texts: &[&str]) -> NamedArray {
    let width = code[2..].parse().unwrap();
    let padded = |text: &&str| {
        let letters = text.chars().map(u32::from).chain(std::iter::repeat(0));
        letters.take(width).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    };
    array(name, code, &format!("({},)", texts.len()), texts.iter().flat_map(padded).collect::<Vec<u8>>())
}

fn shaped(shape: &str, (name, code, _, bytes): NamedArray) -> NamedArray {
    (name, code, shape.to_owned(), bytes)
}

/// Two states and two actions; the second state does not have the first action.
fn parts() -> Vec<NamedArray> {
    let rewards = [1.0, 2.0, f64::NAN, 4.0, -1.0, -2.0, f64::NAN, -4.0];
    vec![
        array("format", "|S3", "()", "csr"),
        integers("shape", &[4, 2]),
        array("indptr", "<i4", "(5,)", [0, 2, 3, 3, 5].map(i32::to_le_bytes).concat()),
        integers("indices", &[0, 1, 1, 1, 0]),
        floats("data", &[0.25, 0.75, 1.0, 0.5, 0.5]),
        shaped("(2, 4)", floats("rewards", &rewards)),
        letters("names", "<U5", &["gain", "größe"]),
        floats("initial", &[0.0, 1.0]),
        array("actions", "|S4", "(2,)", "waitgo\0\0"),
    ]
}

fn file(parts: &[NamedArray]) -> Vec<u8> {
    file_in_order(parts, "False")
}

fn file_in_order(parts: &[NamedArray], fortran: &str) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, code, shape, bytes) in parts {
        let head = format!("{{'descr': '{code}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let length = (head.len() as u16).to_le_bytes();
        zip.start_file(format!("{name}.npy"), SimpleFileOptions::default()).unwrap();
        zip.write_all(&[b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), bytes].concat()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn parse(bytes: &[u8]) -> Result<FiniteCmdp, NpzError> {
    read(Cursor::new(bytes))
}

fn message(bytes: &[u8]) -> String {
    parse(bytes).map_or_else(|e| e.to_string(), |m| format!("no error, {} states", m.states()))
}

/// Arrays of the example, with some of them replaced or added.
fn with(arrays: impl IntoIterator<Item = NamedArray>) -> Vec<NamedArray> {
    let mut parts = parts();
    for array in arrays {
        match parts.iter_mut().find(|(name, ..)| *name == array.0) {
            Some(place) => *place = array,
            None => parts.push(array),
        }
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
    let swapped = |(name, _, shape, mut bytes): NamedArray, code: &'static str, width: usize| {
        bytes.chunks_mut(width).for_each(|element| element.reverse());
        (name, code, shape, bytes)
    };
    let parts = vec![
        shaped("()", letters("format", "<U3", &["csr"])),
        array("shape", ">i2", "(2,)", [0, 4, 0, 2]),
        swapped(integers("indptr", &[0, 2, 3, 3, 5]), ">u8", 8),
        array("indices", "|i1", "(5,)", [0, 1, 1, 1, 0]),
        array("data", ">f4", "(5,)", [0.25_f32, 0.75, 1.0, 0.5, 0.5].map(f32::to_be_bytes).concat()),
        array("rewards", "|i1", "(2, 4)", [1_i8, 2, 0, 4, -1, -2, 0, -4].map(|n| n as u8)),
        swapped(letters("names", "<U5", &["gain", "größe"]), ">U5", 4),
        shaped("()", integers("initial", &[1])),
        letters("actions", "<U4", &["wait", "go"]),
    ];
    assert_eq!(parse(&file(&parts)).unwrap(), usual);
    let cut = with([array("names", "|S5", "(2,)", &"gain\0größe".as_bytes()[..10])]);
    assert_eq!(message(&file(&cut)), "array 'names': element 1 is not a text in Unicode");
    // Fortran's order.
    let rewards = shaped("(2, 4)", floats("rewards", &[1.0, -1.0, 2.0, -2.0, 0.0, 0.0, 4.0, -4.0]));
    let fortran = with([rewards, array("_is_array", "|b1", "()", [1])]);
    assert_eq!(parse(&file_in_order(&fortran, "True")).unwrap(), usual);
}

#[test]
fn zeros_are_dropped_and_duplicate_entries_added_up() {
    let parts = with([
        integers("indptr", &[0, 5, 6, 7, 8]),
        // More elements than the rows have do not count.
        integers("indices", &[1, 0, 1, 1, 0, 1, 0, 0, 9, 9]),
        floats("data", &[0.25, 0.25, 0.25, 0.0, 0.25, 1.0, 0.0, 1.0, 7.0, 7.0]),
    ]);
    let m = parse(&file(&parts)).unwrap();
    assert_eq!((m.choice_count(), m.choice(0).targets), (3, &[0, 1][..]));
    assert_eq!(m.choice(0).probabilities, [0.5, 0.5]);
    assert_eq!((m.choices(1), m.choice(2).targets), (2..3, &[0][..]));
}

#[test]
fn states_may_have_different_numbers_of_actions() {
    let changed = |names: &[&str]| {
        file(&with([
            integers("shape", &[3, 2]),
            integers("indptr", &[0, 2, 3, 5]),
            integers("first_choice", &[0, 2, 3]),
            shaped("(2, 3)", floats("rewards", &[1.0, 2.0, 4.0, -1.0, -2.0, -4.0])),
            letters("actions", "<U4", names),
        ]))
    };
    let usual = parse(&file(&parts())).unwrap();
    let m = parse(&changed(&["wait", "go"])).unwrap();
    assert_eq!((0..3).map(|c| m.action_name(c)).collect::<Vec<_>>(), ["wait", "go", "wait"]);
    assert_eq!(parse(&changed(&["wait", "go", "go"])).unwrap(), usual);
    let wrong = message(&changed(&["wait", "wait", "go"]));
    assert_eq!(wrong, "array 'actions': state '0', action 'wait': the state has this action twice");
    let wrong = message(&file(&with([integers("first_choice", &[0, 2, 4])])));
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
    let large = [0.0, f64::INFINITY, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let cases: Vec<(NamedArray, &str)> = vec![
        (array("format", "|S3", "()", "csc"), "'format': the format is 'csc', expected 'csr'"),
        (shaped("()", integers("format", &[1])), "'format': the array holds numbers, expected texts"),
        (integers("shape", &[4, 2, 1]), "'shape': the shape is (3,), expected (2,)"),
        (integers("shape", &[0, 2]), "'shape': the matrix is 0 × 2, expected"),
        (integers("shape", &[4, -2]), "'shape': element 1 is -2, expected a whole number from 0"),
        (integers("shape", &[4, 3]), "'shape': 4 rows are no multiple of 3 states"),
        (integers("shape", &[i64::from(i32::MAX), 1]), "'indptr': the shape is (5,), expected (2147483648,)"),
        (
            integers("shape", &[1 << 40, 1]),
            "'shape': element 0 is 1099511627776, expected at most 4294967295",
        ),
        (integers("indptr", &[0, 2, 3, 3]), "'indptr': the shape is (4,), expected (5,), one more"),
        (integers("indptr", &[0, 2, 1, 3, 5]), "'indptr': the first entries of rows are 2 and then 1"),
        (integers("indptr", &[1, 2, 3, 3, 5]), "'indptr': the first entries of rows are 0 and then 1"),
        (integers("indptr", &[0, 2, 3, 3, 6]), "'indices': the shape is (5,), expected (6,)"),
        (floats("indptr", &[0.0; 5]), "'indptr': the array holds fractions, expected whole"),
        (letters("indptr", "<U1", &["0"; 5]), "'indptr': the array holds texts, expected whole"),
        (integers("indptr", &[0, 2, 3, 3, 3]), "'indptr': state '1': the state has no action"),
        (integers("indices", &[0, 1, 1, 2, 0]), "'indices': state '1', action 'go': the target 2 does"),
        (integers("indices", &[0, -1, 1, 1, 0]), "'indices': element 1 is -1, expected a whole"),
        (shaped("(1, 5)", integers("indices", &[0; 5])), "'indices': the shape is (1, 5), expected (5,)"),
        (floats("data", &[1.0; 4]), "'data': the shape is (4,), expected (5,)"),
        (
            floats("data", &[0.25, 0.65, 1.0, 0.5, 0.5]),
            "'data': state '0', action 'wait': the probabilities add up to 0.9, expected 1",
        ),
        (
            floats("data", &[0.25, 0.75, f64::NAN, 0.5, 0.5]),
            "'data': state '0', action 'go': the probability of target 1 is NaN, expected a number from 0 to 1",
        ),
        (
            floats("data", &[0.25, 0.75, 1.0, 1.5, -0.5]),
            "'data': state '1', action 'go': the probability of target 1 is 1.5",
        ),
        (array("data", "<c16", "(5,)", [0; 80]), "'data': the array's elements are of NumPy's type 'c16'"),
        (array("data", "<f2", "(5,)", [0; 10]), "'data': the array's numbers have 16 bits, expected 32"),
        (array("data", "|O", "(5,)", [0; 40]), "'data': the array holds Python objects (pickled), expected"),
        (
            shaped("(1000000000000,)", floats("data", &[1.0; 5])),
            "'data': the array's shape is (1000000000000,) with 8 bytes for each element, but it has 40 bytes",
        ),
        (shaped("(18446744073709551615, 5)", floats("data", &[1.0; 5])), "'data': the array's shape is"),
        (shaped("5", floats("data", &[1.0; 5])), "'data': the array's header does not state its shape"),
        (floats("rewards", &[0.0; 8]), "'rewards': the shape is (8,), expected (rewards, 4)"),
        (
            shaped("(4, 2)", floats("rewards", &[0.0; 8])),
            "'rewards': the shape is (4, 2), expected (rewards, 4)",
        ),
        (
            shaped("(2, 4)", floats("rewards", &large)),
            "'rewards': state '0', action 'go': the reward 'gain' is inf, expected a finite number",
        ),
        (
            shaped("(2, 4)", letters("rewards", "<U1", &["a"; 8])),
            "'rewards': the array holds texts, expected numbers",
        ),
        (letters("names", "<U1", &["a", "b", "c"]), "'names': the shape is (3,), expected (2,), a name"),
        (letters("names", "<U1", &["a", "a"]), "'names': two rewards are called 'a'"),
        (array("names", "|O", "(2,)", [0; 16]), "'names': the array holds Python objects (pickled)"),
        (floats("names", &[0.0; 2]), "'names': the array holds numbers, expected texts"),
        (array("names", "<U1", "(2,)", [0xff; 8]), "'names': element 0 is not a text in Unicode"),
        (floats("initial", &[1.0, 0.0, 0.0]), "'initial': the shape is (3,), expected (2,), the prob"),
        (floats("initial", &[0.5, 0.4]), "'initial': the initial probabilities add up to 0.9"),
        (floats("initial", &[0.0, 0.0]), "'initial': the initial probabilities add up to 0, expected 1"),
        (floats("initial", &[f64::NAN, 1.0]), "'initial': the probability of starting in state 0 is NaN"),
        (shaped("()", integers("initial", &[2])), "'initial': the initial state 2 does not exist"),
        (shaped("()", integers("initial", &[-1])), "'initial': element 0 is -1, expected a whole number"),
        (shaped("()", floats("initial", &[1.0])), "'initial': the shape is (), expected (2,)"),
        (letters("actions", "<U1", &["a", "b", "c"]), "'actions': the shape is (3,), expected (2,)"),
        (letters("actions", "<U1", &["a", "a"]), "'actions': two actions are called 'a'"),
        (integers("first_choice", &[0, 4]), "'first_choice': the shape is (2,), expected (3,)"),
        (integers("first_choice", &[0, 2, 3]), "'first_choice': the first rows of states end with 3"),
        (integers("first_choice", &[0, 5, 4]), "'first_choice': its elements decrease, expected"),
        (integers("intial", &[1]), "'intial': no such array is known, expected format, shape"),
    ];
    for (part, expected) in cases {
        let found = message(&file(&with([part.clone()])));
        assert!(found.contains(expected), "{part:?}: {found:?} does not contain {expected:?}");
    }
    for name in ["format", "shape", "indptr", "indices", "data", "rewards"] {
        let mut less = parts();
        less.retain(|part| part.0 != name);
        let expected = format!("array '{name}': the array is missing, expected one of shape");
        let found = message(&file(&less));
        assert!(found.starts_with(&expected), "{found}");
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
    // Changes of the first entry in the directory: compression method, encryption, checksum.
    let entry = whole.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    for (at, value, expected) in [
        (10, 14, "the entry is compressed by method Lzma, expected"),
        (8, whole[entry + 8] | 1, "the entry is encrypted"),
        (16, whole[entry + 16] ^ 1, "the entry is damaged: its checksum"),
    ] {
        let mut bytes = whole.clone();
        bytes[entry + at] = value;
        let found = message(&bytes);
        assert!(found.starts_with(&format!("array 'format': {expected}")), "{found}");
    }
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
    let found = message(&bytes);
    assert!(found.contains("array 'format': the entry ends beyond the file's"), "{found}");
}
