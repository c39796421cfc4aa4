//! Reading of variables that a program declared `observable`, by name.

use hawser_ir::{ContextId, Module, StructId, Ty};

use super::Stack;
use crate::scalar;
use crate::state::Handle;

/// The location of an observable scalar in the contexts of one type: a resolved name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observable {
    kind: ContextId,
    offset: usize,
    len: usize,
}

impl Stack {
    /// Returns the type and memory of a handle's context, for tests and debuggers; `None` if it has ended.
    #[must_use]
    pub fn context(&self, handle: Handle) -> Option<(ContextId, &[u8])> {
        let slot = self.context_of(handle).ok()?;
        let contexts = &self.chains.state.contexts;
        Some((contexts.entry(slot).kind, contexts.bytes(slot)))
    }

    /// Returns the value of an observable scalar of a handle's context. `field` is the path through nested
    /// structures, joined by dots: `cwnd`, `cc.ssthresh`. Returns `None` if the context has ended, or if the
    /// field does not exist or is not observable.
    #[must_use]
    pub fn observe(&self, handle: Handle, field: &str) -> Option<u64> {
        self.read_observable(handle, self.observable(handle, field)?)
    }

    /// Resolves the name of an observable scalar of a handle's context, for [`Stack::read_observable`].
    #[must_use]
    pub fn observable(&self, handle: Handle, field: &str) -> Option<Observable> {
        let slot = self.context_of(handle).ok()?;
        let module = self.module();
        let kind = self.chains.state.contexts.entry(slot).kind;
        let (offset, len) = find(module, module.contexts[kind.0 as usize].body, field)?;
        Some(Observable { kind, offset, len })
    }

    /// Returns the value of an observable scalar; `None` if the context has ended or has another type.
    #[must_use]
    pub fn read_observable(&self, handle: Handle, observable: Observable) -> Option<u64> {
        let Observable { kind, offset, len } = observable;
        let slot = self.context_of(handle).ok()?;
        let contexts = &self.chains.state.contexts;
        let is_of_kind = contexts.entry(slot).kind == kind;
        is_of_kind.then(|| scalar::load(&contexts.bytes(slot)[offset..offset + len]))
    }
}

/// Returns the offset and size of an observable scalar.
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
