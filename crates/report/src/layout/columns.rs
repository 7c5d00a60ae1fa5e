//! Layouts of a row a cell, beside those of a row a run.

use bytecost_spec::table::TableError;
use bytecost_spec::{Cell, Imported, Published, Sample, Study};

use super::runs::RUNS;
use super::{ColumnLayout, LAYOUTS, TableLayout, export, import};

/// Every layout, in the order of the documentation.
pub fn layouts() -> impl Iterator<Item = &'static dyn TableLayout> {
    let cells = LAYOUTS.iter().map(|layout| layout as &dyn TableLayout);
    cells.chain(RUNS.iter().map(|runs| runs as &dyn TableLayout))
}

impl TableLayout for ColumnLayout {
    fn name(&self) -> &'static str {
        self.name
    }

    fn csv(
        &self,
        cells: &[Cell],
        samples: &[Sample],
        as_published: bool,
    ) -> Result<String, String> {
        export::csv(self, cells, samples, as_published)
    }

    fn csv_of_imported(&self, imported: &Imported) -> String {
        export::csv_of_imported(self, imported)
    }

    fn import(&self, text: &str) -> Result<Imported, TableError> {
        import::import(self, text)
    }

    fn study(&self, published: &Published) -> Study {
        import::study(self, published)
    }
}
