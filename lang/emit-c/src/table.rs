//! Tables of constants: a function for each that is read, around an array.

use hawser_ir::TableId;

use crate::emitter::Emitter;
use crate::names::identifier;
use crate::number::bare;
use crate::types::scalar;

impl Emitter<'_> {
    /// The function that gives a table's value by its index, printed when it is first asked for.
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
