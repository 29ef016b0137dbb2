//! Finite models as arrays of NumPy and SciPy, `.npz`: [`read()`] and [`write()`].
//!
//! A zip archive of arrays, stored or deflated. The first five are what `scipy.sparse.save_npz` writes
//! for the transition matrix in CSR form, whose row s·A + a is the distribution of the successor of state
//! s under action a. S is the number of states, A that of actions, k that of rewards:
//!
//! | array | elements | content |
//! |---|---|---|
//! | `format` | text | `csr` |
//! | `shape` | whole, `[2]` | the number of rows, and S |
//! | `indptr` | whole, `[rows + 1]` | the first entry of each row, and the number of entries |
//! | `indices` | whole | successor state of each entry |
//! | `data` | numbers | probability of each entry |
//! | `rewards` | numbers, `[k, rows]` | r(s, a), in C's or Fortran's order |
//! | `names` | texts, `[k]` | the names of the rewards; default `r0`, `r1`, … |
//! | `first_choice` | whole, `[S + 1]` | the first row of each state, where states have different numbers of actions |
//! | `initial` | a whole number, or numbers `[S]` | initial state, or the probability of each state; default state 0 |
//! | `actions` | texts, `[A]` | the names of the actions; default their numbers. With `first_choice` as many as the state with the most actions has, or one for each row |
//!
//! ```python
//! np.savez("model.npz", format=b"csr", shape=p.shape, indptr=p.indptr, indices=p.indices, data=p.data,
//!          rewards=[throughput, power], names=["throughput", "power"])
//! ```
//!
//! Without `first_choice` every state has A = rows / S actions, and a row without entries is an action
//! that the state does not have; its rewards are ignored. Entries that are 0 are dropped. Entries of a
//! row may be in any order, and those for the same state are added up, as SciPy does. Whole numbers have
//! 8 to 64 bits, signed or unsigned; numbers are those or floats of 32 or 64 bits, of either byte order;
//! texts are Unicode or UTF-8. Other arrays are refused, as likely misspellings, unless their names begin
//! with `_`. States are named by their numbers.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{BufWriter, Cursor, Read, Seek, Write as _};

use acrl::{CsrModel, FiniteCmdp, ModelError, ModelFault};
use zip::result::ZipResult;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

mod archive;
mod array;
#[cfg(test)]
mod tests;

use super::{printable, shown};
use archive::Archive;
use array::Array;

const KNOWN: [&str; 10] = [
    "format",
    "shape",
    "indptr",
    "indices",
    "data",
    "rewards",
    "names",
    "first_choice",
    "initial",
    "actions",
];

/// Fault in an `.npz` file: `array 'data': state '3', action '0': the probabilities add up to 0.9, expected 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpzError {
    /// Array that holds the fault, if any.
    pub array: Option<String>,
    /// Description of the fault, with the state and the action where they are known.
    pub message: String,
}

impl Display for NpzError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.array {
            Some(array) => write!(f, "array '{array}': {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for NpzError {}

/// Error, perhaps of an array.
fn error(array: Option<&str>, message: impl Display) -> NpzError {
    NpzError { array: array.map(|name| printable(shown(name))), message: printable(message) }
}

/// Reads a model in the format that the [module](self) describes. The arrays are unpacked one after the
/// other into those of the model, so reading takes little more memory than the model.
pub fn read(reader: impl Read + Seek) -> Result<FiniteCmdp, NpzError> {
    let mut file = File(Archive::open(reader).map_err(|message| error(None, message))?);
    file.check_names()?;
    let format = file.required("format", "text ()", |array| array.shape.is_empty(), Array::texts)?.concat();
    if format != "csr" {
        let fault = format!("the format is '{}', expected 'csr'", shown(&format));
        return Err(error(Some("format"), format!("{fault}: convert the matrix with .tocsr()")));
    }
    let shape = file.required("shape", "(2,)", |array| array.shape == [2], Array::integers)?;
    let (rows, states) = (shape[0] as usize, shape[1] as usize);
    if rows == 0 || states == 0 {
        let fault = format!("the matrix is {rows} × {states}, expected states and actions");
        return Err(error(Some("shape"), fault));
    }
    let expected = format!("({},), one more than the {rows} rows of the matrix", rows as u64 + 1);
    let first_entry =
        file.required("indptr", &expected, |array| array.shape == [rows + 1], Array::integers)?;
    let expected = format!("({},), one more than the {states} states", states as u64 + 1);
    let right = |array: &Array<'_, _>| array.shape == [states + 1];
    let first_row = file.optional("first_choice", &expected, right, |array| {
        let first = array.integers()?;
        let decreasing = || "its elements decrease, expected the first row of each state".to_owned();
        first.is_sorted().then_some(first).ok_or_else(decreasing)
    })?;
    if first_row.is_none() && !rows.is_multiple_of(states) {
        let fault = format!("{rows} rows are no multiple of {states} states");
        let need = "states with different numbers of actions need the array 'first_choice'";
        return Err(error(Some("shape"), format!("{fault}: {need}")));
    }

    // SciPy allows more entries than the rows have, which do not count.
    let entries = first_entry.last().map_or(0, |last| *last as usize);
    let expected = format!("({entries},), as many as 'indptr' states");
    let enough = |shape: &[usize]| shape.len() == 1 && shape[0] >= entries;
    let mut targets = file.required("indices", &expected, |array| enough(&array.shape), Array::integers)?;
    targets.truncate(entries);
    let mut probabilities = file.required("data", &expected, |array| enough(&array.shape), Array::floats)?;
    probabilities.truncate(entries);

    let expected = format!("(rewards, {rows})");
    let right = |array: &Array<'_, _>| array.shape.len() == 2 && array.shape[1] == rows;
    let (rewards, count) = file.required("rewards", &expected, right, Array::by_column)?;
    let expected = format!("({count},), a name for each reward");
    let names = file.optional("names", &expected, |array| array.shape == [count], Array::texts)?;
    let initial = file.initial(states)?;
    let (action_names, row_actions) = file.actions(rows, states, first_row.as_deref())?;
    let model = CsrModel {
        states,
        reward_names: names.unwrap_or_else(|| (0..count).map(|i| format!("r{i}")).collect()),
        first_row,
        action_names,
        row_actions,
        first_entry,
        targets,
        probabilities,
        rewards,
        initial,
    };
    FiniteCmdp::from_csr(model).map_err(model_error)
}

/// Error of the array that holds a fault of a model.
fn model_error(e: ModelError) -> NpzError {
    let array = match e.fault {
        ModelFault::Target { .. } | ModelFault::DuplicateTarget { .. } => "indices",
        ModelFault::Reward { .. } | ModelFault::RewardCount { .. } => "rewards",
        ModelFault::DuplicateReward(_) => "names",
        ModelFault::Initial { .. }
        | ModelFault::InitialProbability { .. }
        | ModelFault::InitialSum { .. } => "initial",
        ModelFault::DuplicateAction | ModelFault::DuplicateActionName(_) => "actions",
        ModelFault::Offsets { what, .. } | ModelFault::LastOffset { what, .. } => {
            if what.ends_with("states") { "first_choice" } else { "indptr" }
        }
        ModelFault::NoAction => "indptr",
        _ => "data",
    };
    error(Some(array), e)
}

struct File<R>(Archive<R>);

impl<R: Read + Seek> File<R> {
    /// Refuses unknown arrays: they may be misspelt.
    fn check_names(&self) -> Result<(), NpzError> {
        let of_array = |name: &String| KNOWN.iter().any(|known| name.strip_suffix(".npy") == Some(known));
        match self.0.names().find(|name| !name.starts_with('_') && !of_array(name)) {
            None => Ok(()),
            Some(name) => {
                let name = name.strip_suffix(".npy").unwrap_or(&name);
                Err(error(Some(name), format!("no such array is known, expected {}", KNOWN.join(", "))))
            }
        }
    }

    /// Content of an optional array, if it has the right shape.
    fn optional<'s, T>(
        &'s mut self,
        name: &str,
        expected: &str,
        right: impl Fn(&Array<'s, R>) -> bool,
        convert: impl FnOnce(Array<'s, R>) -> Result<T, String>,
    ) -> Result<Option<T>, NpzError> {
        let Some(content) = self.0.content(&format!("{name}.npy")) else { return Ok(None) };
        let checked = |array: Array<'s, R>| match right(&array) {
            true => convert(array),
            false => Err(format!("the shape is {}, expected {expected}", array::shown(&array.shape))),
        };
        let read = content.and_then(Array::open).and_then(checked);
        read.map(Some).map_err(|message| error(Some(name), message))
    }

    /// Content of a required array, if it has the right shape.
    fn required<'s, T>(
        &'s mut self,
        name: &str,
        expected: &str,
        right: impl Fn(&Array<'s, R>) -> bool,
        convert: impl FnOnce(Array<'s, R>) -> Result<T, String>,
    ) -> Result<T, NpzError> {
        let missing = || format!("the array is missing, expected one of shape {expected}");
        let found = self.optional(name, expected, right, convert)?;
        found.ok_or_else(|| error(Some(name), missing()))
    }

    fn initial(&mut self, states: usize) -> Result<Vec<(usize, f64)>, NpzError> {
        let expected = format!("({states},), the probability of each state, or a whole number: a state");
        let right = |array: &Array<'_, R>| match array.shape[..] {
            [] => array.is_integer(),
            _ => array.shape == [states],
        };
        let initial = self.optional("initial", &expected, right, |array| {
            if array.shape.is_empty() {
                return Ok(vec![(array.integers()?[0] as usize, 1.0)]);
            }
            let mut initial = Vec::new();
            // Not `p > 0`, so that NaN is refused.
            array.each_float(|state, p| initial.extend((p != 0.0).then_some((state, p))))?;
            let missing = || "the initial probabilities add up to 0, expected 1".to_owned();
            (!initial.is_empty()).then_some(initial).ok_or_else(missing)
        })?;
        Ok(initial.unwrap_or_default())
    }

    /// Names of the actions, and the action of each row where its position does not determine it.
    #[expect(clippy::type_complexity, reason = "two fields of a CsrModel")]
    fn actions(
        &mut self,
        rows: usize,
        states: usize,
        first_row: Option<&[u32]>,
    ) -> Result<(Option<Vec<String>>, Option<Vec<u32>>), NpzError> {
        let (most, or_rows) = match first_row {
            Some(first) => {
                let most = first.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
                (most as usize, format!(", or ({rows},), one for each row"))
            }
            None => (rows / states, String::new()),
        };
        let expected = format!("({most},), a name for each action{or_rows}");
        let right =
            |array: &Array<'_, R>| array.shape == [most] || first_row.is_some() && array.shape == [rows];
        let Some(names) = self.optional("actions", &expected, right, Array::texts)? else {
            return Ok((None, None));
        };
        if names.len() == most {
            return Ok((Some(names), None));
        }
        let (mut distinct, mut numbers) = (Vec::new(), HashMap::new());
        let number = |name: String| {
            *numbers.entry(name).or_insert_with_key(|name| {
                distinct.push(name.clone());
                distinct.len() as u32 - 1
            })
        };
        let of = names.into_iter().map(number).collect();
        Ok((Some(distinct), Some(of)))
    }
}

/// Writes a model as an `.npz` file, from which [`read`] restores it, except for the names of states. In
/// Python, `scipy.sparse.load_npz` reads its transitions and `numpy.load` all of it.
pub fn write(model: &FiniteCmdp) -> Vec<u8> {
    // Writing to memory does not fail for these names.
    archive(model).map(Cursor::into_inner).unwrap_or_default()
}

fn archive(model: &FiniteCmdp) -> ZipResult<Cursor<Vec<u8>>> {
    let columns = columns(model);
    let states = model.states();
    let rows = columns.map_or(model.choice_count(), |columns| columns * states);
    // The choice of every row, if the row is not empty.
    let each_row = || {
        (0..states).flat_map(move |s| {
            let mut choices = model.choices(s).zip(model.action_numbers(s)).peekable();
            let actions = columns.unwrap_or(model.choices(s).len());
            (0..actions).map(move |a| {
                choices.next_if(|(_, number)| columns.is_none() || *number == a).map(|(c, _)| c)
            })
        })
    };
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    write_array(&mut zip, "format", "|S3", &[], [*b"csr"].into_iter())?;
    write_integers(&mut zip, "shape", &[2], rows.max(states), [rows, states].into_iter())?;
    let mut end = 0;
    let ends = each_row().map(|choice| {
        end += choice.map_or(0, |c| model.choice(c).targets.len());
        end
    });
    let starts = std::iter::once(0).chain(ends);
    write_integers(&mut zip, "indptr", &[rows + 1], model.transitions(), starts)?;
    let choices = || (0..model.choice_count()).map(|c| model.choice(c));
    let targets = choices().flat_map(|choice| choice.targets.iter().map(|&t| t as usize));
    write_integers(&mut zip, "indices", &[model.transitions()], states, targets)?;
    let probabilities = choices().flat_map(|choice| choice.probabilities.iter().copied());
    write_floats(&mut zip, "data", &[model.transitions()], probabilities)?;
    let names = model.reward_names();
    let none = vec![0.0; names.len()];
    let rewards =
        each_row().flat_map(|choice| choice.map_or(&*none, |c| model.choice(c).rewards).iter().copied());
    write_floats(&mut zip, "rewards", &[names.len(), rows], rewards)?;
    write_texts(&mut zip, "names", names, 0..names.len())?;
    if columns.is_none() {
        let first = std::iter::once(0).chain((0..states).map(|s| model.choices(s).end));
        write_integers(&mut zip, "first_choice", &[states + 1], model.choice_count(), first)?;
    }
    match model.initial() {
        [(state, _)] => write_integers(&mut zip, "initial", &[], usize::MAX, [*state].into_iter())?,
        several => {
            let mut probabilities = vec![0.0; states];
            several.iter().for_each(|(s, p)| probabilities[*s] += p);
            write_floats(&mut zip, "initial", &[states], probabilities.into_iter())?;
        }
    }
    if let Some(names) = model.action_names() {
        let numbers: Vec<usize> = match columns {
            Some(_) => (0..names.len()).collect(),
            None => (0..states).flat_map(|s| model.action_numbers(s)).collect(),
        };
        write_texts(&mut zip, "actions", names, numbers.into_iter())?;
    }
    zip.finish()
}

/// Number of rows per state, with empty ones for actions that a state does not have; `None` if the
/// actions of a state are not in the order of their numbers, or there would be too many empty rows.
fn columns(model: &FiniteCmdp) -> Option<usize> {
    let mut columns = 0;
    for s in 0..model.states() {
        let mut last = None;
        for number in model.action_numbers(s) {
            if last.is_some_and(|last| last >= number) {
                return None;
            }
            last = Some(number);
        }
        columns = columns.max(last.map_or(0, |last| last + 1));
    }
    let columns = model.action_names().map_or(columns, <[String]>::len);
    // Actions are numbered only where a model was built from that many rows.
    let affordable = model.states().saturating_mul(columns) <= 4 * model.choice_count() + 64;
    (affordable || model.action_names().is_none()).then_some(columns)
}

type Writer = ZipWriter<Cursor<Vec<u8>>>;

/// Writes an array as a deflated entry with 64-bit sizes. A matrix is in Fortran's order (the first index
/// runs fastest).
fn write_array<const N: usize>(
    zip: &mut Writer,
    name: &str,
    code: &str,
    shape: &[usize],
    mut elements: impl Iterator<Item = [u8; N]>,
) -> ZipResult<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(1))
        .large_file(true);
    zip.start_file(format!("{name}.npy"), options)?;
    let mut entry = BufWriter::with_capacity(1 << 16, zip);
    entry.write_all(&array::head(code, shape))?;
    elements.try_for_each(|element| entry.write_all(&element))?;
    Ok(entry.flush()?)
}

/// Writes whole numbers, in 32 bits where they suffice, as SciPy does.
fn write_integers(
    zip: &mut Writer,
    name: &str,
    shape: &[usize],
    most: usize,
    numbers: impl Iterator<Item = usize>,
) -> ZipResult<()> {
    if i32::try_from(most).is_ok() {
        write_array(zip, name, "<i4", shape, numbers.map(|n| (n as i32).to_le_bytes()))
    } else {
        write_array(zip, name, "<i8", shape, numbers.map(|n| (n as i64).to_le_bytes()))
    }
}

fn write_floats(
    zip: &mut Writer,
    name: &str,
    shape: &[usize],
    numbers: impl Iterator<Item = f64>,
) -> ZipResult<()> {
    write_array(zip, name, "<f8", shape, numbers.map(f64::to_le_bytes))
}

/// Writes the texts with these indices.
fn write_texts(
    zip: &mut Writer,
    name: &str,
    texts: &[String],
    indices: impl ExactSizeIterator<Item = usize>,
) -> ZipResult<()> {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let shape = [indices.len()];
    let padded = |i: usize| texts[i].chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
    let letters = indices.flat_map(padded).map(u32::to_le_bytes);
    write_array(zip, name, &format!("<U{width}"), &shape, letters)
}
