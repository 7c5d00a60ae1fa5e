//! A layout of any kind, as the command line names it.

use bytecost_spec::table::TableError;
use bytecost_spec::{Cell, Imported, Manifest, Published, Sample, Study};

use super::{ColumnLayout, LAYOUTS, RUNS, Runs};

/// A layout: of cells in rows, or of single runs of programs.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A row a cell.
    Cells(&'static ColumnLayout),
    /// A row a run of a program.
    Runs(&'static Runs),
}

impl Form {
    /// The layout of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Form> {
        Form::all().find(|f| f.name() == name)
    }

    /// Every layout, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Form> {
        let cells = LAYOUTS.iter().map(Form::Cells);
        cells.chain(RUNS.iter().map(Form::Runs))
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Form::Cells(layout) => layout.name,
            Form::Runs(runs) => runs.name,
        }
    }

    /// Renders a run in the layout.
    ///
    /// # Errors
    /// That the run has no cell that the layout has a row for, and which those would be.
    pub fn csv(
        self,
        manifest: &Manifest,
        cells: &[Cell],
        samples: &[Sample],
    ) -> Result<String, String> {
        match self {
            Form::Cells(layout) => super::csv(layout, manifest, cells, samples),
            Form::Runs(runs) => runs.csv(cells, samples),
        }
    }

    /// Renders a table as it was read.
    #[must_use]
    pub fn csv_of_imported(self, imported: &Imported) -> String {
        match self {
            Form::Cells(layout) => super::csv_of_imported(layout, imported),
            Form::Runs(runs) => runs.csv_of_imported(imported),
        }
    }

    /// Reads a table in the layout.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn import(self, text: &str) -> Result<Imported, TableError> {
        match self {
            Form::Cells(layout) => super::import(layout, text),
            Form::Runs(runs) => runs.import(text),
        }
    }

    /// The study that a table would be a run of.
    #[must_use]
    pub fn study(self, published: &Published) -> Study {
        match self {
            Form::Cells(layout) => super::study(layout, published),
            Form::Runs(runs) => runs.study(published),
        }
    }
}
