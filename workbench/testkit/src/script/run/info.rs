//! TCP_INFO: its fields as functions of the program's observable variables.

use std::collections::BTreeMap;

use hawser_engine::{Handle, Stack};

use super::symbols;
use super::table::Table;
use crate::script::python::{NameError, NamedValues, Value, evaluate};

/// The names that a script's code may use for one connection.
pub(crate) struct Info<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) table: &'a Table,
    pub(crate) handle: Option<Handle>,
    /// The last variables of a connection.
    pub(crate) last: &'a (Option<Handle>, BTreeMap<String, u64>),
}

/// The names that expressions of the table may use: observable variables and constants.
struct TableNames<'a>(&'a Info<'a>);

impl Info<'_> {
    /// Returns a field as a number.
    pub(crate) fn number(&self, field: &str) -> Option<i64> {
        match self.value(field) {
            Ok(Value::Integer(value)) => i64::try_from(value).ok(),
            Ok(Value::Bool(value)) => Some(i64::from(value)),
            Ok(Value::None | Value::Float(_) | Value::Text(_) | Value::List(_)) | Err(_) => None,
        }
    }

    /// Returns a variable's value when the connection ended.
    fn last_value(&self, name: &str) -> Option<u64> {
        let (handle, values) = self.last;
        values.get(name).copied().filter(|_| *handle == self.handle)
    }

    /// Returns whether the connection has ended. Its context is gone, and only earlier values are known.
    fn is_over(&self) -> bool {
        let (handle, values) = self.last;
        let Some(current) = self.handle.filter(|current| *handle == Some(*current)) else {
            return false;
        };
        !values.is_empty()
            && values
                .keys()
                .all(|name| self.stack.observe(current, name).is_none())
    }

    fn constant(&self, name: &str) -> Option<Value> {
        let value = self.table.constant(name).or_else(|| symbols::constant(name))?;
        Some(Value::Integer(value.into()))
    }
}

impl NamedValues for Info<'_> {
    fn value(&self, name: &str) -> Result<Value, NameError> {
        if name == "tcpi_state" && self.is_over() {
            return Ok(Value::Integer(symbols::constant("TCP_CLOSE").unwrap_or(0).into()));
        }
        if let Some(node) = self.table.info(name) {
            return evaluate(node, &TableNames(self))
                .map_err(|why| NameError::Field { field: name.to_owned(), why: Box::new(why) });
        }
        if let Some(value) = self.constant(name) {
            return Ok(value);
        }
        Err(match name.starts_with("tcpi_") {
            true => NameError::Unmapped(name.to_owned()),
            false => NameError::Unknown(name.to_owned()),
        })
    }
}

impl NamedValues for TableNames<'_> {
    fn value(&self, name: &str) -> Result<Value, NameError> {
        let Info { stack, handle, .. } = self.0;
        if let Some(value) = self.0.constant(name) {
            return Ok(value);
        }
        let handle = handle.ok_or(NameError::NoConnection)?;
        let last = || self.0.last_value(name);
        match stack.observe(handle, name).or_else(last) {
            Some(value) => Ok(Value::Integer(value.into())),
            None => Err(NameError::Unobservable(name.to_owned())),
        }
    }
}
