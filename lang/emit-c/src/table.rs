//! Tables of constants: an array, and a function around it for each table that is read.

use hawser_ir::TableId;

use crate::emitter::Emitter;
use crate::names::identifier;
use crate::number::bare;
use crate::types::scalar;

impl Emitter<'_> {
    /// Returns the function that reads a table's value by index; it is printed on first use.
    pub(crate) fn table_function(&mut self, id: TableId) -> String {
        let table = &self.module.tables[id.0 as usize];
        let name = format!(
            "hw_table{}_{}",
            id.0,
            identifier(&table.name).trim_end_matches('_')
        );
        if self.helper_names.insert(name.clone()) {
            let (ty, len) = (scalar(&table.ty), table.values.len());
            let values: Vec<String> = table.values.iter().map(|value| bare(*value, &table.ty)).collect();
            let rows: Vec<String> = values.chunks(8).map(|row| row.join(", ")).collect();
            self.helpers += &format!(
                "HW_INLINE {ty} {name}(uint64_t i) {{\n    static const {ty} values[{len}] HW_CONSTANT = {{\n        {},\n    }};\n    \
                 return i < {len} ? HW_ITEM(values, i, {len}) : 0;\n}}\n\n",
                rows.join(",\n        ")
            );
        }
        name
    }
}
