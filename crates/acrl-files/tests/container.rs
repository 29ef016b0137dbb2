//! Policy files: a bit-identical round trip or an error message.
#![allow(clippy::unwrap_used)]

use acrl_files::{Container, ContainerError, Error, Tensor, TensorData};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use safetensors::SafeTensors;
use serde_json::json;

fn small() -> Container {
    let mut container = Container::new(json!({ "kind": "mlp", "bound": 0.1, "names": ["a\"b", "λ"] }));
    container
        .tensors
        .insert("w".to_owned(), Tensor::f32([2, 2], vec![1.0, -0.0, f32::MIN_POSITIVE / 2.0, 0.1]));
    container.tensors.insert("mean".to_owned(), Tensor::f64([1], vec![1.0 / 3.0]));
    container.tensors.insert("none".to_owned(), Tensor::f32([0, 3], vec![]));
    container
}

fn bits(container: &Container) -> Vec<(String, Vec<usize>, Vec<u64>)> {
    let bits = |data: &TensorData| match data {
        TensorData::F32(data) => data.iter().map(|x| u64::from(x.to_bits())).collect(),
        TensorData::F64(data) => data.iter().map(|x| x.to_bits()).collect(),
        TensorData::U8(data) => data.iter().map(|x| u64::from(*x)).collect(),
        TensorData::U32(data) => data.iter().map(|x| u64::from(*x)).collect(),
    };
    container.tensors.iter().map(|(name, t)| (name.clone(), t.shape.clone(), bits(&t.data))).collect()
}

fn same(a: &Container, b: &Container) -> bool {
    // As text too, in which 0.0 and -0.0 differ.
    let text = |container: &Container| container.meta.to_string();
    a == b && bits(a) == bits(b) && text(a) == text(b)
}

/// A file with this header and these data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn round_trip_is_bit_identical_and_deterministic() {
    let bytes = small().to_bytes().unwrap();
    assert!(same(&Container::from_bytes(&bytes).unwrap(), &small()));
    assert_eq!(small().to_bytes().unwrap(), bytes);
}

#[test]
fn every_changed_byte_is_detected() {
    let (container, bytes) = (small(), small().to_bytes().unwrap());
    let mut accepted = 0;
    for i in 0..bytes.len() {
        let mut damaged = bytes.clone();
        for change in 1..=255 {
            damaged[i] = bytes[i] ^ change;
            if let Ok(read) = Container::from_bytes(&damaged) {
                assert!(same(&read, &container), "byte {i} from {} to {}", bytes[i], damaged[i]);
                accepted += 1;
            }
        }
    }
    // Spaces at the header's end may be tabs or line feeds.
    assert!(accepted <= 3 * 7, "{accepted} changes were accepted");
}

#[test]
fn truncated_files_are_rejected() {
    let mut bytes = small().to_bytes().unwrap();
    for length in 0..bytes.len() {
        assert!(Container::from_bytes(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
    assert_eq!(Container::from_bytes(&bytes[..bytes.len() - 1]), Err(ContainerError::CutShort));
    bytes.push(0);
    assert!(Container::from_bytes(&bytes).is_err());
}

#[test]
fn safetensors_crate_reads_the_file() {
    let bytes = small().to_bytes().unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(read.tensor("w").unwrap().shape(), [2, 2]);
    assert_eq!(read.tensor("mean").unwrap().data(), (1.0_f64 / 3.0).to_le_bytes());
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "acrl policy");
    // Rewritten by another program, in another order, it is still the same.
    let again = safetensors::serialize(read.tensors(), header.metadata().clone()).unwrap();
    assert!(same(&Container::from_bytes(&again).unwrap(), &small()));
}

#[test]
fn each_fault_has_its_error_message() {
    let bytes = small().to_bytes().unwrap();
    let changed = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
    let far = usize::MAX / 8;
    let spans = |n: usize| {
        let span = |i: usize| {
            format!(
                r#""{i}":{{"dtype":"U8","shape":[{far}],"data_offsets":[{},{}]}}"#,
                i * far,
                (i + 1) * far
            )
        };
        format!("{{{}}}", (0..n).map(span).collect::<Vec<_>>().join(","))
    };
    for (bytes, sentence) in [
        (b"hello".to_vec(), "invalid: it has 5 bytes"),
        (b"[run]\nsteps = 5\n".to_vec(), "invalid: its header does not begin with '{'"),
        (huge, "invalid: its header would have 18446744073709551615 bytes"),
        (file("[]", b""), "invalid: its header does not begin with '{'"),
        (file("{\"a\":1}", b""), "invalid: invalid type: integer `1`, "),
        (file(&spans(8), b""), "the file is cut short: it has fewer bytes than its header says"),
        (file("{}", b"abc"), "invalid: 3 bytes at its end are no tensor"),
        (file("{}", b""), "its metadata's format is '': expected 'acrl policy'"),
        (
            changed("acrl policy", "other thing"),
            "its metadata's format is 'other thing': expected 'acrl policy'",
        ),
        (
            changed("\"version\":\"1\"", "\"version\":\"2\""),
            "written by a newer acrl: this program reads version 1, and the file has version 2",
        ),
        (changed("\"version\":\"1\"", "\"version\":\"x\""), "its version is 'x': expected 1"),
        (changed("\"none\"", "\"nine\""), "the file is damaged: its checksum does not match its content"),
        (flipped, "the file is damaged: its checksum does not match its content"),
        (changed("F64", "I64"), "tensor 'mean' has numbers of type I64: expected F32, F64, U8 or U32"),
        (changed("[2,2]", "[2,3]"), "tensor 'w' has shape [2, 3], but its data are of another length"),
        (changed("[0,3]", "[9,3]"), "tensor 'none' has shape [9, 3], but its data are of another length"),
        (changed("[8,24]", "[9,24]"), "invalid: a tensor begins at byte 9, "),
        (changed("\"mean\"", "\"w\"   "), "invalid: 'w' is there twice"),
    ] {
        let sentence = sentence.replace("invalid: ", "it is no safetensors file, or a damaged one: ");
        let found = Container::from_bytes(&bytes).unwrap_err().to_string();
        assert!(found.starts_with(&sentence), "{found}");
    }
}

#[test]
fn invalid_containers_are_not_written() {
    let with = |name: &str, tensor| {
        let mut container = small();
        container.tensors.insert(name.to_owned(), tensor);
        container.to_bytes().unwrap_err().to_string()
    };
    assert_eq!(
        with("x", Tensor::f32([2], vec![0.0, f32::NAN])),
        "tensor 'x' holds NaN at position 1: expected finite numbers"
    );
    assert_eq!(
        with("x", Tensor::f64([1], vec![f64::NEG_INFINITY])),
        "tensor 'x' holds -inf at position 0: expected finite numbers"
    );
    assert_eq!(
        with("x", Tensor::f64([2], vec![])),
        "tensor 'x' has shape [2], but its data are of another length"
    );
    assert!(with("x", Tensor::f64([usize::MAX, usize::MAX, 0], vec![])).contains("another length"));
    assert_eq!(with("__metadata__", Tensor::f32([0], vec![])), "a tensor cannot be called '__metadata__'");
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    assert!(Container::new(deep).to_bytes().unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn take_checks_type_and_shape() {
    let mut container = small();
    assert_eq!(
        container.clone().take_f32("w", &[4]).unwrap_err().to_string(),
        "tensor 'w' has shape [2, 2]: expected [4]"
    );
    assert_eq!(
        container.clone().take_f64("w", &[2, 2]).unwrap_err().to_string(),
        "tensor 'w' has numbers of type F32: expected F64"
    );
    assert_eq!(container.take_f32("v", &[]).unwrap_err().to_string(), "tensor 'v' is missing");
    assert_eq!(container.take_f32("w", &[2, 2]).unwrap().len(), 4);
    assert_eq!(container.take_f64("mean", &[1]).unwrap(), [1.0 / 3.0]);
    assert_eq!(
        container.nothing_left().unwrap_err().to_string(),
        "tensor 'none' is unknown to this kind of policy"
    );
    container.take_f32("none", &[0, 3]).unwrap();
    container.nothing_left().unwrap();
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.safetensors");
    assert!(matches!(Container::load(&path), Err(Error::Io { action: "open", .. })));
    small().save(&path).unwrap();
    assert!(same(&Container::load(&path).unwrap(), &small()));
    std::fs::write(&path, b"").unwrap();
    let error = Container::load(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot use {} as a policy file", path.display()));
    if cfg!(target_os = "linux") {
        // Endless, and refused at once.
        for path in ["/dev/zero", "/dev/urandom"] {
            assert!(Container::load(path.as_ref()).is_err());
        }
    }
}

prop_compose! {
    fn tensor()(shape in vec(0_usize..4, 0..4), double: bool, words in vec(any::<u64>(), 27)) -> Tensor {
        let n = shape.iter().product();
        let words = words.into_iter().take(n);
        if double {
            let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
            Tensor::f64(shape, words.map(|w| finite(f64::from_bits(w))).collect())
        } else {
            let finite = |x: f32| if x.is_finite() { x } else { 0.0 };
            Tensor::f32(shape, words.map(|w| finite(f32::from_bits(w as u32))).collect())
        }
    }
}

proptest! {
    #[test]
    fn any_container_round_trips(
        tensors in btree_map(".{0,6}", tensor(), 0..5),
        names in vec(".{0,6}", 0..3),
        number in any::<f64>().prop_filter("JSON has no others", |x| x.is_finite()),
        integer: u64,
    ) {
        let container = Container { meta: json!({ "names": names, "x": number, "n": [integer, null] }), tensors };
        let bytes = container.to_bytes().unwrap();
        prop_assert!(same(&Container::from_bytes(&bytes).unwrap(), &container));
        prop_assert!(SafeTensors::deserialize(&bytes).is_ok());
    }

    #[test]
    fn random_bytes_are_rejected(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(Container::from_bytes(&bytes).is_err());
        let header = format!("{{{}", String::from_utf8_lossy(&bytes));
        prop_assert!(Container::from_bytes(&file(&header, &bytes)).is_err());
    }

    #[test]
    fn random_damage_is_rejected(damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = small().to_bytes().unwrap();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Ok(read) = Container::from_bytes(&bytes) {
            prop_assert!(same(&read, &small()));
        }
    }
}
