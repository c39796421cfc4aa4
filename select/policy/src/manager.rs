//! Everything that a ranking needs in one place, and what was ranked lately.
//!
//! A ranking stays true while neither PIB nor CIB changes and no node expires: a request that was
//! ranked since then is answered from memory.

use std::sync::Arc;

use crate::cib::{Cib, Node, Rows};
use crate::limits::Limit;
use crate::names::Names;
use crate::pib::Pib;
use crate::rank::{Options, Ranking, rank};
use crate::request::Request;

/// Rankings that are remembered.
const REMEMBERED: usize = 256;

/// PIB, CIB, and the rankings that follow from them.
///
/// What would make the CIB's rows too many is refused, and changes nothing. `now` is in seconds since
/// 1970, and never goes back.
#[derive(Debug, Default)]
pub struct Manager {
    names: Names,
    pib: Pib,
    cib: Cib,
    rows: Rows,
    options: Options,
    remembered: Vec<(Request, Arc<Ranking>)>,
    /// Which of the remembered is overwritten next.
    oldest: usize,
}

impl Manager {
    /// Without policies and knowledge.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// The names that its documents are read with.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The same, to read documents.
    pub fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The policies.
    pub fn pib(&self) -> &Pib {
        &self.pib
    }

    /// What is known.
    pub fn cib(&self) -> &Cib {
        &self.cib
    }

    /// Puts all in the place of what was.
    ///
    /// # Errors
    /// The CIB makes too many rows; all is as it was.
    pub fn replace(&mut self, names: Names, pib: Pib, cib: Cib, now: f64) -> Result<(), Limit> {
        let rows = cib.rows(now)?;
        (self.names, self.pib, self.cib) = (names, pib, cib);
        self.change(rows);
        Ok(())
    }

    /// Changes the policies.
    ///
    /// # Errors
    /// What `change` gives; all is as it was.
    pub fn change_policies<T>(
        &mut self,
        change: impl FnOnce(&mut Pib) -> Result<T, Limit>,
    ) -> Result<T, Limit> {
        let mut pib = self.pib.clone();
        let result = change(&mut pib)?;
        self.pib = pib;
        self.remembered.clear();
        Ok(result)
    }

    /// Takes in something that became known.
    ///
    /// # Errors
    /// There is too much; all is as it was.
    pub fn learn(&mut self, node: Node, now: f64) -> Result<Option<Arc<Node>>, Limit> {
        let mut cib = self.cib.clone();
        let old = cib.insert(node, now)?;
        let rows = cib.rows(now)?;
        self.cib = cib;
        self.change(rows);
        Ok(old)
    }

    /// Forgets something.
    ///
    /// # Errors
    /// None that is known: less makes no more rows.
    pub fn forget(&mut self, uid: &str, now: f64) -> Result<Option<Arc<Node>>, Limit> {
        let mut cib = self.cib.clone();
        let old = cib.remove(uid);
        let rows = cib.rows(now)?;
        self.cib = cib;
        self.change(rows);
        Ok(old)
    }

    /// Ranks the candidates for a request, or remembers how they rank.
    ///
    /// # Errors
    /// Policies make more of it than there may be.
    pub fn select(&mut self, request: &Request, now: f64) -> Result<Arc<Ranking>, Limit> {
        if !self.rows.are_true(now) {
            self.cib.forget(now);
            let rows = self.cib.rows(now)?;
            self.change(rows);
        }
        let fits = |held: &&(Request, Arc<Ranking>)| {
            held.0.fingerprint() == request.fingerprint() && held.0 == *request
        };
        if let Some((_, ranking)) = self.remembered.iter().find(fits) {
            return Ok(ranking.clone());
        }
        let ranking = Arc::new(rank(request, &self.pib, &self.rows, &self.names, &self.options)?);
        let new = (request.clone(), ranking.clone());
        if self.remembered.len() < REMEMBERED {
            self.remembered.push(new);
        } else {
            self.remembered[self.oldest] = new;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
        Ok(ranking)
    }

    fn change(&mut self, rows: Rows) {
        self.rows = rows;
        self.remembered.clear();
        self.oldest = 0;
    }
}
