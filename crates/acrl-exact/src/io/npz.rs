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
use std::io::{Read, Seek};

use acrl::{CsrModel, FiniteCmdp, ModelError, ModelFault};

mod archive;
mod array;
#[cfg(test)]
mod tests;

use super::shown;
use archive::{Archive, ArchiveWriter};
use array::{Array, Kind, write_head};

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
    /// Description of the fault, with the state and the action, or the row, where they are known.
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

/// Error, perhaps of an array. Names in the file may hold control characters.
fn error(array: Option<&str>, message: impl Display) -> NpzError {
    let printed = |text: String| text.replace(char::is_control, "\u{fffd}");
    NpzError {
        array: array.map(|name| printed(shown(name).into_owned())),
        message: printed(message.to_string()),
    }
}

/// Reads a model in the format that the [module](self) describes. The arrays are unpacked one after the
/// other into those of the model, so reading takes little more memory than the model.
pub fn read(reader: impl Read + Seek) -> Result<FiniteCmdp, NpzError> {
    let mut file = File { archive: Archive::open(reader).map_err(|message| error(None, message))? };
    file.check_names()?;
    let format = file.array("format", "text ()", |shape| shape.is_empty())?.texts();
    let format = format.map_err(|message| error(Some("format"), message))?.concat();
    if format != "csr" {
        let message =
            format!("the format is '{}', expected 'csr': convert the matrix with .tocsr()", shown(&format));
        return Err(error(Some("format"), message));
    }
    let shape = file.wholes("shape", "(2,)", |shape| shape == [2])?;
    let (rows, states) = (shape[0] as usize, shape[1] as usize);
    if rows == 0 || states == 0 {
        return Err(error(
            Some("shape"),
            format!("the matrix is {rows} × {states}, expected states and actions"),
        ));
    }
    let expected = format!("({},), one more than the {rows} rows of the matrix", rows as u64 + 1);
    let first_entry = file.wholes("indptr", &expected, |shape| shape == [rows + 1])?;
    check_offsets("indptr", &first_entry)?;
    let first_row = file.first_row(rows, states)?;
    let place = |row: usize| place(row, states, rows, first_row.as_deref());

    let entries = first_entry.last().map_or(0, |last| *last as usize);
    let expected = format!("({entries},), as many as 'indptr' states");
    // SciPy allows more, which do not count.
    let mut targets = file.wholes("indices", &expected, |shape| shape.len() == 1 && shape[0] >= entries)?;
    targets.truncate(entries);
    if let Some(at) = targets.iter().position(|target| *target as usize >= states) {
        let row = first_entry.partition_point(|first| *first as usize <= at) - 1;
        let (place, target) = (place(row), targets[at]);
        let message = format!("{place} leads to state {target}, expected 0 to {}", states - 1);
        return Err(error(Some("indices"), message));
    }
    let mut probabilities =
        file.floats("data", &expected, |shape| shape.len() == 1 && shape[0] >= entries)?;
    probabilities.truncate(entries);

    let (rewards, count) = file.rewards(rows)?;
    let reward_names =
        match file.texts("names", &format!("({count},), a name for each reward"), |n| n == count)? {
            Some(names) => names,
            None => (0..count).map(|i| format!("r{i}")).collect(),
        };
    let initial = file.initial(states)?;
    let (action_names, row_actions) = file.actions(rows, states, first_row.as_deref())?;
    let model = CsrModel {
        states,
        reward_names,
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
        ModelFault::NoAction => "indptr",
        _ => "data",
    };
    error(Some(array), e)
}

/// `row 7 (state 3, action 1)`.
fn place(row: usize, states: usize, rows: usize, first_row: Option<&[u32]>) -> String {
    let (state, action) = match first_row {
        Some(first) => {
            let state = first.partition_point(|first| *first as usize <= row) - 1;
            (state, row - first[state] as usize)
        }
        None => (row / (rows / states), row % (rows / states)),
    };
    format!("row {row} (state {state}, action {action})")
}

fn check_offsets(name: &str, offsets: &[u32]) -> Result<(), NpzError> {
    if offsets[0] != 0 {
        return Err(error(Some(name), format!("element 0 is {}, expected 0", offsets[0])));
    }
    match offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        None => Ok(()),
        Some(i) => {
            let (before, after) = (offsets[i], offsets[i + 1]);
            let message = format!("element {} is {after} after {before}, expected at least as much", i + 1);
            Err(error(Some(name), message))
        }
    }
}

struct File<R> {
    archive: Archive<R>,
}

impl<R: Read + Seek> File<R> {
    /// Refuses unknown arrays: they may be misspelt.
    fn check_names(&self) -> Result<(), NpzError> {
        let of_array = |name: &String| KNOWN.iter().any(|known| name.strip_suffix(".npy") == Some(known));
        match self.archive.names().find(|name| !name.starts_with('_') && !of_array(name)) {
            None => Ok(()),
            Some(name) => {
                let name = name.strip_suffix(".npy").unwrap_or(&name);
                Err(error(Some(name), format!("no such array is known, expected {}", KNOWN.join(", "))))
            }
        }
    }

    /// Optional array.
    fn find(&mut self, name: &str) -> Result<Option<Array<'_, R>>, NpzError> {
        let content = self.archive.content(&format!("{name}.npy"));
        let array = content.map(|content| content.and_then(Array::open)).transpose();
        array.map_err(|message| error(Some(name), message))
    }

    /// Required array of the right shape.
    fn array(
        &mut self,
        name: &str,
        expected: &str,
        right: impl Fn(&[usize]) -> bool,
    ) -> Result<Array<'_, R>, NpzError> {
        let array = self.find(name)?.ok_or_else(|| {
            error(Some(name), format!("the array is missing, expected one of shape {expected}"))
        })?;
        checked(name, array, expected, right)
    }

    fn wholes(
        &mut self,
        name: &str,
        expected: &str,
        right: impl Fn(&[usize]) -> bool,
    ) -> Result<Vec<u32>, NpzError> {
        let array = self.array(name, expected, right)?;
        wholes(array).map_err(|message| error(Some(name), message))
    }

    fn floats(
        &mut self,
        name: &str,
        expected: &str,
        right: impl Fn(&[usize]) -> bool,
    ) -> Result<Vec<f64>, NpzError> {
        let array = self.array(name, expected, right)?;
        let mut numbers = room(array.len).map_err(|message| error(Some(name), message))?;
        let read = array.floats(|_, x| numbers.push(x));
        read.map(|()| numbers).map_err(|message| error(Some(name), message))
    }

    fn texts(
        &mut self,
        name: &str,
        expected: &str,
        right: impl Fn(usize) -> bool,
    ) -> Result<Option<Vec<String>>, NpzError> {
        let Some(array) = self.find(name)? else { return Ok(None) };
        let array = checked(name, array, expected, |shape| shape.len() == 1 && right(shape[0]))?;
        array.texts().map(Some).map_err(|message| error(Some(name), message))
    }

    fn first_row(&mut self, rows: usize, states: usize) -> Result<Option<Vec<u32>>, NpzError> {
        const NAME: &str = "first_choice";
        let Some(array) = self.find(NAME)? else {
            if !rows.is_multiple_of(states) {
                let message = format!(
                    "{rows} rows are no multiple of {states} states: states with different numbers of actions need the \
                     array '{NAME}'"
                );
                return Err(error(Some("shape"), message));
            }
            return Ok(None);
        };
        let expected = format!("({},), one more than the {states} states", states as u64 + 1);
        let array = checked(NAME, array, &expected, |shape| shape == [states + 1])?;
        let first = wholes(array).map_err(|message| error(Some(NAME), message))?;
        check_offsets(NAME, &first)?;
        match first[states] as usize == rows {
            true => Ok(Some(first)),
            false => {
                let message =
                    format!("the last element is {}, expected the {rows} rows of the matrix", first[states]);
                Err(error(Some(NAME), message))
            }
        }
    }

    /// Rewards row by row, and the number of rewards in a row.
    fn rewards(&mut self, rows: usize) -> Result<(Vec<f64>, usize), NpzError> {
        const NAME: &str = "rewards";
        let array =
            self.array(NAME, &format!("(rewards, {rows})"), |shape| shape.len() == 2 && shape[1] == rows)?;
        let count = array.shape[0];
        let mut rewards = room(array.len).map_err(|message| error(Some(NAME), message))?;
        let read = if array.fortran || count == 1 {
            array.floats(|_, x| rewards.push(x))
        } else {
            // Zeroed pages are not allocated before they are written to, as `resize` would do.
            rewards = vec![0.0; array.len];
            let mut at = 0;
            array.floats(|_, x| {
                rewards[at] = x;
                at += count;
                // Behind the last row of one reward: the first row of the next.
                at = if at >= rewards.len() { at - rewards.len() + 1 } else { at };
            })
        };
        read.map(|()| (rewards, count)).map_err(|message| error(Some(NAME), message))
    }

    fn initial(&mut self, states: usize) -> Result<Vec<(usize, f64)>, NpzError> {
        const NAME: &str = "initial";
        let Some(array) = self.find(NAME)? else { return Ok(Vec::new()) };
        let mut initial = Vec::new();
        let read = if array.shape.is_empty() && matches!(array.kind, Kind::Int | Kind::Uint) {
            array.wholes(|_, state| {
                let state = usize::try_from(state)
                    .ok()
                    .filter(|state| *state < states)
                    .ok_or_else(|| format!("the initial state is {state}, expected 0 to {}", states - 1))?;
                initial.push((state, 1.0));
                Ok(())
            })
        } else {
            let expected = format!("({states},), the probability of each state, or a whole number: a state");
            let array = checked(NAME, array, &expected, |shape| shape == [states])?;
            // Not `p > 0`, so that NaN is refused.
            array.floats(|state, p| initial.extend((p != 0.0).then_some((state, p))))
        };
        read.map_err(|message| error(Some(NAME), message))?;
        match initial.is_empty() {
            true => Err(error(Some(NAME), "the initial probabilities add up to 0, expected 1")),
            false => Ok(initial),
        }
    }

    /// Names of the actions, and the action of each row where its position does not determine it.
    #[expect(clippy::type_complexity, reason = "two fields of a CsrModel")]
    fn actions(
        &mut self,
        rows: usize,
        states: usize,
        first_row: Option<&[u32]>,
    ) -> Result<(Option<Vec<String>>, Option<Vec<u32>>), NpzError> {
        let most = match first_row {
            Some(first) => first.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as usize,
            None => rows / states,
        };
        let expected = match first_row {
            Some(_) => format!("({most},), a name for each action, or ({rows},), one for each row"),
            None => format!("({most},), a name for each action"),
        };
        let right = |n: usize| n == most || (first_row.is_some() && n == rows);
        let Some(names) = self.texts("actions", &expected, right)? else { return Ok((None, None)) };
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

fn checked<'a, R: Read>(
    name: &str,
    array: Array<'a, R>,
    expected: &str,
    right: impl Fn(&[usize]) -> bool,
) -> Result<Array<'a, R>, NpzError> {
    match right(&array.shape) {
        true => Ok(array),
        false => {
            let shape = array::shown(&array.shape);
            Err(error(Some(name), format!("the shape is {shape}, expected {expected}")))
        }
    }
}

/// Memory for a number of elements that is declared by the file, and so may be anything.
fn room<T>(len: usize) -> Result<Vec<T>, String> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| format!("its {len} elements do not fit into memory"))?;
    Ok(room)
}

fn wholes<R: Read + Seek>(array: Array<'_, R>) -> Result<Vec<u32>, String> {
    let mut numbers = room(array.len)?;
    array.wholes(|i, n| {
        let too_large = |_| format!("element {i} is {n}, expected at most {}", u32::MAX);
        numbers.push(u32::try_from(n).map_err(too_large)?);
        Ok(())
    })?;
    Ok(numbers)
}

/// Writes a model as an `.npz` file, from which [`read`] restores it, except for the names of states. In
/// Python, `scipy.sparse.load_npz` reads its transitions and `numpy.load` all of it.
pub fn write(model: &FiniteCmdp) -> Vec<u8> {
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
    let mut archive = ArchiveWriter::new();
    archive.add("format.npy", |entry| {
        write_head(entry, "|S3", false, &[]);
        entry.put(b"csr");
    });
    write_wholes(&mut archive, "shape", &[2], rows.max(states), [rows, states].into_iter());
    let mut end = 0;
    let ends = each_row().map(|choice| {
        end += choice.map_or(0, |c| model.choice(c).targets.len());
        end
    });
    let starts = std::iter::once(0).chain(ends);
    write_wholes(&mut archive, "indptr", &[rows + 1], model.transitions(), starts);
    let choices = || (0..model.choice_count()).map(|c| model.choice(c));
    let targets = choices().flat_map(|choice| choice.targets.iter().map(|&t| t as usize));
    write_wholes(&mut archive, "indices", &[model.transitions()], states, targets);
    let probabilities = choices().flat_map(|choice| choice.probabilities.iter().copied());
    write_floats(&mut archive, "data", &[model.transitions()], probabilities);
    let names = model.reward_names();
    let none = vec![0.0; names.len()];
    let rewards =
        each_row().flat_map(|choice| choice.map_or(&*none, |c| model.choice(c).rewards).iter().copied());
    write_floats(&mut archive, "rewards", &[names.len(), rows], rewards);
    write_texts(&mut archive, "names", names, 0..names.len());
    if columns.is_none() {
        let first = (0..states).map(|s| model.choices(s).end);
        let first = std::iter::once(0).chain(first);
        write_wholes(&mut archive, "first_choice", &[states + 1], model.choice_count(), first);
    }
    match model.initial() {
        [(state, _)] => write_wholes(&mut archive, "initial", &[], usize::MAX, [*state].into_iter()),
        several => {
            let mut probabilities = vec![0.0; states];
            several.iter().for_each(|(s, p)| probabilities[*s] += p);
            write_floats(&mut archive, "initial", &[states], probabilities.into_iter());
        }
    }
    if let Some(names) = model.action_names() {
        if columns.is_some() {
            write_texts(&mut archive, "actions", names, 0..names.len());
        } else {
            let numbers: Vec<usize> = (0..states).flat_map(|s| model.action_numbers(s)).collect();
            write_texts(&mut archive, "actions", names, numbers.into_iter());
        }
    }
    archive.finish()
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

/// Writes whole numbers, in 32 bits where they suffice, as SciPy does.
fn write_wholes(
    archive: &mut ArchiveWriter,
    name: &str,
    shape: &[usize],
    most: usize,
    numbers: impl Iterator<Item = usize>,
) {
    let short = i32::try_from(most).is_ok();
    archive.add(&format!("{name}.npy"), |entry| {
        write_head(entry, if short { "<i4" } else { "<i8" }, false, shape);
        numbers.for_each(|n| {
            if short { entry.put(&(n as i32).to_le_bytes()) } else { entry.put(&(n as i64).to_le_bytes()) }
        });
    });
}

/// Writes floats in Fortran's order (the first index runs fastest).
fn write_floats(
    archive: &mut ArchiveWriter,
    name: &str,
    shape: &[usize],
    numbers: impl Iterator<Item = f64>,
) {
    archive.add(&format!("{name}.npy"), |entry| {
        write_head(entry, "<f8", shape.len() > 1, shape);
        numbers.for_each(|x| entry.put(&x.to_le_bytes()));
    });
}

/// Writes the texts with these indices.
fn write_texts(
    archive: &mut ArchiveWriter,
    name: &str,
    texts: &[String],
    numbers: impl ExactSizeIterator<Item = usize>,
) {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    archive.add(&format!("{name}.npy"), |entry| {
        write_head(entry, &format!("<U{width}"), false, &[numbers.len()]);
        for number in numbers {
            let letters = texts[number].chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
            letters.for_each(|letter| entry.put(&letter.to_le_bytes()));
        }
    });
}
