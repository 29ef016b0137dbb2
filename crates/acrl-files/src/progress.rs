//! `progress.csv`: one row of metrics per iteration, for spreadsheets and data frames.

use std::borrow::Cow;

use acrl::Named;

use crate::Error;
use crate::tail::Tail;

const COLUMNS: [&str; 3] = ["iteration", "steps", "seconds"];

/// The table. Its columns are those of the first row: a metric that appears later is left out, and a missing one leaves
/// its cell empty.
#[derive(Debug)]
pub(crate) struct Progress {
    file: Tail,
    columns: Option<Vec<String>>,
    steps: u64,
}

impl Progress {
    /// An empty table.
    pub(crate) fn create(mut file: Tail) -> Result<Self, Error> {
        file.clear()?;
        Ok(Self { file, columns: None, steps: 0 })
    }

    /// The existing table, cut back behind the row of an iteration.
    pub(crate) fn resume(mut file: Tail, iteration: u64) -> Result<Self, Error> {
        if let Some(found) =
            file.first_line()?.filter(|line| !fields(line).starts_with(&COLUMNS.map(String::from)))
        {
            return Err(Error::NotProgress { path: file.path().to_owned(), found: shorten(found) });
        }
        let last = std::cell::Cell::new((0, 0));
        file.cut(iteration, |line| {
            let mut cells = std::str::from_utf8(line).ok()?.split(',');
            let found = cells.next()?.parse().ok()?;
            if (last.get().0 + 1..=iteration).contains(&found) {
                last.set((found, cells.next().and_then(|steps| steps.parse().ok()).unwrap_or(0)));
            }
            Some(found)
        })?;
        let columns = file.first_line()?.map(|line| fields(&line).split_off(COLUMNS.len()));
        // Reading has moved the position of the next write.
        file.end()?;
        Ok(Self { file, columns, steps: last.get().1 })
    }

    /// Environment steps of the last row; 0 if there is none.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn row(
        &mut self,
        iteration: u64,
        steps: u64,
        seconds: f64,
        metrics: &Named<f64>,
    ) -> Result<(), Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        if self.columns.is_none() {
            let columns: Vec<String> = metrics.iter().map(|(name, _)| plain(name).into_owned()).collect();
            let header = COLUMNS.into_iter().chain(columns.iter().map(String::as_str));
            writer.write_record(header).map_err(|error| self.failed(error.into()))?;
            self.columns = Some(columns);
        }
        let cells = self.columns.iter().flatten().map(|column| {
            let metric = metrics.iter().find(|(name, _)| plain(name) == *column);
            metric.map_or_else(String::new, |(_, x)| format!("{x:?}"))
        });
        let row = [iteration.to_string(), steps.to_string(), format!("{seconds:?}")].into_iter().chain(cells);
        writer.write_record(row).map_err(|error| self.failed(error.into()))?;
        let text = writer.into_inner().map_err(|error| self.failed(error.into_error()))?;
        self.steps = steps;
        self.file.write(&text)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("write", self.file.path())(error)
    }

    pub(crate) fn file(&mut self) -> &mut Tail {
        &mut self.file
    }
}

fn shorten(mut line: String) -> String {
    if let Some((end, _)) = line.char_indices().nth(60) {
        line.replace_range(end.., "...");
    }
    line
}

/// A name without control characters, so that it stays on one line.
fn plain(name: &str) -> Cow<'_, str> {
    if name.contains(char::is_control) { name.replace(char::is_control, " ").into() } else { name.into() }
}

/// The fields of a line, without their quotes.
fn fields(line: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let record = reader.records().next().and_then(Result::ok).unwrap_or_default();
    record.iter().map(str::to_owned).collect()
}
