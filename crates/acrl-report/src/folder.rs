//! The report's folder: the page, the report as data, and for each figure its pictures and its numbers.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use acrl_files::write_atomically;
use rayon::prelude::*;

use crate::{Block, Error, Figure, Report};

impl Report {
    /// Writes `report.html`, `report.json`, and for each figure `figures/NAME.svg`, `figures/NAME.png` and
    /// `data/NAME.csv`. Each file is replaced as a whole or not at all; other files in the folder are left alone.
    ///
    /// Fails before anything is written if a figure's name is not small letters, digits and hyphens, or is there twice.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let figures = self.figures()?;
        for part in ["figures", "data"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(|source| Error::Folder { path, source })?;
        }
        figures.par_iter().try_for_each(|figure| write_figure(figure, folder))?;
        let mut json = serde_json::to_vec(self)?;
        json.push(b'\n');
        write_atomically(&folder.join("report.json"), &json)?;
        // Last, because it links to the others.
        #[cfg(feature = "html")]
        write_atomically(&folder.join("report.html"), self.to_html().as_bytes())?;
        Ok(())
    }

    fn figures(&self) -> Result<Vec<&Figure>, Error> {
        let (mut figures, mut names) = (vec![], HashSet::new());
        for block in &self.blocks {
            let Block::Figure(figure) = block else { continue };
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if figure.name.is_empty() || !figure.name.chars().all(fits) {
                return Err(Error::Name(figure.name.clone()));
            }
            if !names.insert(figure.name.as_str()) {
                return Err(Error::Twice(figure.name.clone()));
            }
            figures.push(figure);
        }
        Ok(figures)
    }
}

fn write_figure(figure: &Figure, folder: &Path) -> Result<(), Error> {
    #[cfg(feature = "static-figures")]
    {
        let pictures = folder.join("figures");
        write_atomically(&pictures.join(format!("{}.svg", figure.name)), figure.to_svg().as_bytes())?;
        write_atomically(&pictures.join(format!("{}.png", figure.name)), &figure.to_png()?)?;
    }
    write_atomically(&folder.join("data").join(format!("{}.csv", figure.name)), figure.to_csv().as_bytes())?;
    Ok(())
}
