//! The complete state for rankings in one place, and a cache of recent rankings.
//!
//! A ranking stays valid while neither PIB nor CIB changes and no node expires. A request that was ranked in
//! that time is answered from the cache.

use std::sync::Arc;

use crate::cib::{Cib, Node, Rows};
use crate::limits::Limit;
use crate::names::NameTable;
use crate::pib::Pib;
use crate::rank::{Options, Ranking, rank};
use crate::request::Request;

/// The number of cached rankings.
const REMEMBERED: usize = 256;

/// The PIB, the CIB, and a cache of the rankings that follow from them.
///
/// A change that would make too many rows of the CIB is rejected without effect. `now` is in seconds since
/// 1970, and must not go back.
#[derive(Debug, Default)]
pub struct Manager {
    names: NameTable,
    pib: Pib,
    cib: Cib,
    rows: Rows,
    options: Options,
    /// The names of the nodes that came by [`Manager::replace`].
    given: Vec<Arc<str>>,
    remembered: Vec<(Request, Arc<Ranking>)>,
    /// The index of the cached ranking that is overwritten next.
    oldest: usize,
}

impl Manager {
    /// Makes a manager without policies and nodes.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Returns the names with which its documents are read.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns the names for reading documents.
    pub fn names_mut(&mut self) -> &mut NameTable {
        &mut self.names
    }

    /// Returns the profiles and policies.
    pub fn pib(&self) -> &Pib {
        &self.pib
    }

    /// Returns the nodes.
    pub fn cib(&self) -> &Cib {
        &self.cib
    }

    /// Replaces the policies and nodes of the last call of this function. Nodes from other sources stay,
    /// unless one of the new nodes has the same name. `names` are [`Manager::names`], extended by later
    /// reading. Each node comes with the time at which it became known.
    ///
    /// # Errors
    /// There are too many nodes or rows. The manager is unchanged.
    pub fn replace(
        &mut self,
        names: NameTable,
        pib: Pib,
        nodes: Vec<(Node, f64)>,
        now: f64,
    ) -> Result<(), Limit> {
        let mut cib = self.cib.clone();
        self.given.iter().for_each(|uid| {
            cib.remove(uid);
        });
        let given = nodes.iter().map(|(node, _)| node.uid.clone()).collect();
        for (node, learnt) in nodes {
            cib.insert(node, learnt)?;
        }
        cib.forget(now);
        let rows = cib.rows(now)?;
        (self.names, self.pib, self.cib, self.given) = (names, pib, cib, given);
        self.change(rows);
        Ok(())
    }

    /// Changes the policies.
    ///
    /// # Errors
    /// The error of `change`. The manager is unchanged.
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

    /// Makes several changes at once, so that rows are computed only once: added and removed nodes, and
    /// policies.
    ///
    /// # Errors
    /// The error of `change`, or there are too many nodes or rows. The manager is unchanged.
    pub fn revise<T>(
        &mut self,
        now: f64,
        change: impl FnOnce(&mut Cib, &mut Pib) -> Result<T, Limit>,
    ) -> Result<T, Limit> {
        let (mut cib, mut pib) = (self.cib.clone(), self.pib.clone());
        let result = change(&mut cib, &mut pib)?;
        let rows = cib.rows(now)?;
        (self.cib, self.pib) = (cib, pib);
        self.change(rows);
        Ok(result)
    }

    /// Adds a node, and returns the one that it replaces.
    ///
    /// # Errors
    /// There are too many nodes or rows. The manager is unchanged.
    pub fn learn(&mut self, node: Node, now: f64) -> Result<Option<Arc<Node>>, Limit> {
        let mut cib = self.cib.clone();
        let old = cib.insert(node, now)?;
        let rows = cib.rows(now)?;
        self.cib = cib;
        self.change(rows);
        Ok(old)
    }

    /// Removes a node by its name, and returns it.
    ///
    /// # Errors
    /// None is known: fewer nodes do not make more rows.
    pub fn forget(&mut self, uid: &str, now: f64) -> Result<Option<Arc<Node>>, Limit> {
        let mut cib = self.cib.clone();
        let old = cib.remove(uid);
        let rows = cib.rows(now)?;
        self.cib = cib;
        self.change(rows);
        Ok(old)
    }

    /// Ranks the candidates for a request, or returns the cached ranking.
    ///
    /// # Errors
    /// The policies exceed a limit for this request.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{self, Format};
    use crate::pib::PolicyStage;

    const REQUEST: &str = r#"{ "transport": { "value": "TCP" } }"#;

    fn manager() -> Manager {
        Manager::new(Options::default())
    }

    fn node(manager: &mut Manager, text: &str) -> Node {
        let nodes = document::nodes(text, Format::Json, "node", manager.names_mut());
        nodes.expect("a node").value.remove(0)
    }

    fn request(manager: &mut Manager) -> Request {
        document::request(REQUEST, Format::Json, manager.names_mut())
            .expect("a request")
            .value
    }

    fn interface(uid: &str, expire: &str) -> String {
        format!(
            r#"{{ "uid": "{uid}", "root": true{expire}, "properties": {{ "interface": {{ "value": "{uid}" }} }} }}"#
        )
    }

    /// NEAT's manager keeps expired nodes in memory forever.
    #[test]
    fn a_remembered_ranking_ends_with_the_node_that_it_rests_on() {
        let mut manager = manager();
        let request = request(&mut manager);
        for (uid, expire) in [
            ("eth0", r#", "expire": 1100"#),
            ("wlan0", ""),
            ("lo", r#", "expire": -1"#),
        ] {
            let node = node(&mut manager, &interface(uid, expire));
            manager.learn(node, 1000.0).expect("there is room");
        }
        // The candidates are the bare request, and a row for each node that is valid at that time. The
        // default lifetime is 600 s.
        let cases = [
            (1000.0, 4),
            (1100.0, 4),
            (1100.5, 3),
            (1600.0, 3),
            (1600.5, 2),
            (1e9, 2),
        ];
        for (now, candidates) in cases {
            let ranking = manager.select(&request, now).expect("few candidates");
            assert_eq!(ranking.candidates.len(), candidates, "at {now}");
            let again = manager.select(&request, now).expect("few candidates");
            assert!(Arc::ptr_eq(&ranking, &again), "it is remembered at {now}");
        }
    }

    #[test]
    fn a_changed_base_is_ranked_again() {
        let mut manager = manager();
        let request = request(&mut manager);
        let before = manager.select(&request, 0.0).expect("few");
        let text = r#"{ "uid": "p", "properties": { "rtt": { "value": 1, "score": 3 } } }"#;
        let read = document::policies(text, Format::Json, "p", None, manager.names_mut()).expect("one");
        manager
            .change_policies(|pib| pib.insert(read.value[0].clone()))
            .expect("there is room");
        let after = manager.select(&request, 0.0).expect("few");
        assert_eq!(
            (before.candidates[0].score.rest, after.candidates[0].score.rest),
            (0.0, 3.0)
        );
        manager
            .change_policies(|pib| Ok(pib.remove(PolicyStage::Policy, "P")))
            .expect("there is room");
        assert_eq!(
            manager.select(&request, 0.0).expect("few").candidates[0]
                .score
                .rest,
            0.0
        );
    }

    #[test]
    fn a_batch_of_changes_is_atomic() {
        let mut manager = manager();
        let nodes = ["a", "b"].map(|uid| node(&mut manager, &interface(uid, "")));
        let all = |cib: &mut Cib, _: &mut Pib| {
            nodes
                .clone()
                .into_iter()
                .try_for_each(|node| cib.insert(node, 0.0).map(drop))
        };
        manager.revise(0.0, all).expect("there is room");
        assert_eq!(manager.cib().iter(0.0).count(), 2);
        let refused = manager.revise(0.0, |cib, _| {
            cib.remove("a");
            Err::<(), _>(Limit::new("reasons", 0, ""))
        });
        assert_eq!((refused.is_err(), manager.cib().iter(0.0).count()), (true, 2));
        let request = request(&mut manager);
        assert_eq!(manager.select(&request, 0.0).expect("few").candidates.len(), 3);
        manager.revise(0.0, |cib, _| Ok(cib.remove("a"))).expect("less");
        assert_eq!(
            manager.select(&request, 0.0).expect("few").candidates.len(),
            2,
            "it is ranked anew"
        );
    }

    #[test]
    fn given_nodes_are_replaced_and_learnt_ones_stay() {
        let mut manager = manager();
        let learnt = node(&mut manager, &interface("learnt", ""));
        manager.learn(learnt, 0.0).expect("there is room");
        for round in ["a", "b"] {
            let given = node(&mut manager, &interface(round, ""));
            let names = manager.names().clone();
            manager
                .replace(names, Pib::default(), vec![(given, 0.0)], 0.0)
                .expect("there is room");
            let uids: Vec<&str> = manager.cib().iter(0.0).map(|(node, _)| &*node.uid).collect();
            assert_eq!(uids, ["learnt", round]);
        }
    }

    #[test]
    fn a_change_beyond_a_limit_has_no_effect() {
        let mut manager = manager();
        let request = request(&mut manager);
        let root = node(&mut manager, &interface("root", r#", "expire": -1"#));
        manager.learn(root, 0.0).expect("there is room");
        // Each node links to all others, so there are too many paths through twelve of them.
        let mut refused = None;
        for n in 0..12 {
            let text = format!(
                r#"{{ "uid": "n{n}", "link": true, "expire": -1, "match": [{{}}], "properties": {{}} }}"#
            );
            let node = node(&mut manager, &text);
            let before = manager.cib().iter(0.0).count();
            if let Err(limit) = manager.learn(node, 0.0) {
                assert_eq!(manager.cib().iter(0.0).count(), before);
                refused = Some(limit);
                break;
            }
        }
        assert_eq!(refused.expect("a limit").what, "rows of the CIB");
        assert!(!manager.select(&request, 0.0).expect("few").candidates.is_empty());
    }
}
