//! Reads what a program declared `observable`, by name.

use hawser_ir::{Module, StructId, Ty};

use super::Stack;
use crate::scalar;
use crate::state::Handle;

impl Stack {
    /// The value of an observable scalar of a handle's context, its path through parts joined by
    /// dots: `cwnd`, `cc.ssthresh`. Nothing when the context is gone, or when there is no such
    /// field, or it was not declared.
    #[must_use]
    pub fn observe(&self, handle: Handle, field: &str) -> Option<u64> {
        let slot = self.context_of(handle).ok()?;
        let module = self.module();
        let contexts = &self.chains.state.contexts;
        let context = &module.contexts[contexts.entry(slot).kind.0 as usize];
        let (offset, len) = find(module, context.body, field)?;
        Some(scalar::load(&contexts.bytes(slot)[offset..offset + len]))
    }
}

/// Offset and size of an observable scalar.
fn find(module: &Module, body: StructId, path: &str) -> Option<(usize, usize)> {
    let (mut body, mut base) = (body, 0);
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let field = module.structure(body).fields.iter().find(|f| f.name == name)?;
        base += field.offset as usize;
        match &field.ty {
            Ty::Struct(inner) if names.peek().is_some() => body = *inner,
            ty if names.peek().is_none() && field.access.observable => {
                return Some((base, scalar::size(ty)?));
            }
            _ => return None,
        }
    }
    None
}
