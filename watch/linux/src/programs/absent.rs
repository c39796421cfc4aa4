//! Replaces the programs if the feature `ebpf` is off: loading fails, so no other function can be called.

use std::convert::Infallible;
use std::os::fd::BorrowedFd;

use rustix::event::Timespec;

use crate::abi::{RawAdoption, RawLease, RawRecord, RawRequest, RawSettings, RawStanding, SUBSCRIPTIONS};
use crate::hook::Hooks;
use crate::{KernelError, Missing, Options};

/// Reports that loading is impossible and that the kernel was not examined.
pub(crate) fn survey(_: &Options) -> Result<(Option<Missing>, Option<Hooks>), KernelError> {
    Ok((Some(Missing::Feature), None))
}

/// A type without values.
pub(crate) struct Programs(Infallible);

impl Programs {
    pub(crate) fn load(_: &Options) -> Result<Self, KernelError> {
        Err(Missing::Feature.into())
    }

    pub(crate) fn available(&self) -> Hooks {
        match self.0 {}
    }

    pub(crate) fn attach_only(&mut self, _: Hooks) -> Result<bool, KernelError> {
        match self.0 {}
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }

    pub(crate) fn wait(&self, _: Option<&Timespec>) -> rustix::io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn wake_by(&self, _: BorrowedFd<'_>) -> Result<(), KernelError> {
        match self.0 {}
    }

    pub(crate) fn take(&self, _: impl FnMut(&RawRecord)) -> Result<bool, KernelError> {
        match self.0 {}
    }

    pub(crate) fn write_settings(&self, _: &RawSettings) -> Result<(), KernelError> {
        match self.0 {}
    }

    pub(crate) fn lost(&self) -> Result<[u64; SUBSCRIPTIONS], KernelError> {
        match self.0 {}
    }

    pub(crate) fn was_late(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn lost_of(&self, _: u64, _: u16) -> Result<u64, KernelError> {
        match self.0 {}
    }

    pub(crate) fn write_lease(&self, _: &RawLease) -> Result<(), KernelError> {
        match self.0 {}
    }

    pub(crate) fn drop_lease(&self, _: u64) -> Result<(), KernelError> {
        match self.0 {}
    }

    pub(crate) fn standing(&self, _: u64) -> Result<RawStanding, KernelError> {
        match self.0 {}
    }

    pub(crate) fn adopt(&mut self, _: &[u64]) -> Result<Vec<RawAdoption>, KernelError> {
        match self.0 {}
    }

    pub(crate) fn carry_out(&mut self, _: &RawRequest) -> Result<RawRequest, KernelError> {
        match self.0 {}
    }
}
