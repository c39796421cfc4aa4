//! A running lab.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hawser_host::netns::{Namespace, Netlink};
use hawser_sim::scenario::OperationalState;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::forward::{CellSetup, Forwarder, RuleChange};
use crate::host::{Host, HostNamespaces};
use crate::link::Link;
use crate::link_state::{Listener, Present};
use crate::names::{self, NameServer, View, Zone};
use crate::network::{self, Network};
use crate::plan::LabPlan;
use crate::rules::trace::{TraceError, TraceTimes};
use crate::shaper::Shaper;
use crate::spec::{Rules, Spec};
use crate::{LabError, sys, timeline};

/// A running lab. When it is dropped, its links stop. Its namespaces disappear with the last process in them.
///
/// No part of it has a name outside this process, so the end of the process removes all of it, for whatever
/// reason it ends.
pub struct Lab {
    pub(crate) plan: LabPlan,
    // It is declared before the namespaces, so that it ends first.
    forwarder: Option<Forwarder>,
    pub(crate) stations: Vec<RunningHost>,
    pub(crate) core_netlink: Mutex<Netlink>,
    /// For each link, the index of the forwarder's cell that carries it.
    pub(crate) cells: Vec<Option<usize>>,
    /// For each link and direction, its shaper, which is idle if a cell carries the link.
    pub(crate) shapers: Mutex<Vec<[Shaper; 2]>>,
    /// The time at which the lab came up.
    pub(crate) start: Instant,
    /// The present state of each link.
    pub(crate) present: Mutex<Vec<Present>>,
    pub(crate) listeners: Mutex<Vec<Listener>>,
    /// The lock that a thread holds while it changes a link and notes the change, so that links and notes
    /// agree.
    pub(crate) changing: Mutex<()>,
    changes: Vec<timeline::TimelineEntry>,
    warnings: Vec<String>,
    _names: Option<NameServer>,
    _core: Namespace,
}

pub(crate) struct RunningHost {
    pub(crate) inside: HostNamespaces,
    pub(crate) netlink: Mutex<Netlink>,
}

impl Lab {
    /// Builds a lab.
    ///
    /// The process needs the right to make network namespaces: as root, or after
    /// [`hawser_host::netns::enter_user_namespace`], which must be called before any thread is started.
    ///
    /// # Errors
    /// The kernel rejected an operation, or a trace is invalid.
    pub fn up(spec: &Spec) -> Result<Lab, LabError> {
        spec.check()?;
        let plan = LabPlan::new(spec)?;
        let changes = timeline::entries(spec)?;
        let setups = setups(spec, &plan)?;
        let Network { core, core_netlink, stations } = Network::build(&plan)?;
        let mut cells = Vec::new();
        let mut count = 0;
        for link in &plan.links {
            cells.push(link.is_cell.then_some(count));
            count += usize::from(link.is_cell);
        }
        let forwarder = match setups {
            setups if setups.is_empty() => None,
            setups => Some(Forwarder::start(&core, setups).map_err(LabError::io("start the forwarder"))?),
        };
        let shapers = plan
            .links
            .iter()
            .map(|link| [0, 1].map(|end| Shaper::new(&link.rules[end])));
        let shapers = Mutex::new(shapers.collect());
        let mut warnings = Vec::new();
        let (views, names) = name_hosts(spec, &plan, &stations, &mut warnings)?;
        let stations = stations
            .into_iter()
            .zip(views)
            .map(|(station, view)| RunningHost {
                inside: HostNamespaces { namespace: Arc::new(station.namespace), view: view.map(Arc::new) },
                netlink: Mutex::new(station.netlink),
            });
        let lab = Lab {
            stations: stations.collect(),
            warnings,
            _names: names,
            core_netlink: Mutex::new(core_netlink),
            present: Mutex::new(plan.links.iter().map(Present::new).collect()),
            listeners: Mutex::default(),
            changing: Mutex::default(),
            plan,
            forwarder,
            cells,
            shapers,
            start: sys::monotonic(),
            changes,
            _core: core,
        };
        tracing::debug!(
            hosts = lab.plan.hosts.len(),
            links = lab.plan.links.len(),
            "a lab is up"
        );
        for (number, link) in spec.link.iter().enumerate() {
            if link.state == Some(OperationalState::Down) {
                Link { lab: &lab, number }.down()?;
            }
        }
        Ok(lab)
    }

    /// Returns a host by its name.
    ///
    /// # Errors
    /// There is no host of that name.
    pub fn host(&self, name: &str) -> Result<Host<'_>, LabError> {
        let number = self.plan.hosts.iter().position(|host| host.name == name);
        let number = number.ok_or_else(|| LabError::Unknown {
            kind: "host",
            name: name.to_owned(),
            known: self.plan.hosts.iter().map(|host| host.name.clone()).collect(),
        })?;
        Ok(self.host_numbered(number))
    }

    /// Returns all hosts, in the order of the file.
    pub fn hosts(&self) -> impl Iterator<Item = Host<'_>> {
        (0..self.plan.hosts.len()).map(|number| self.host_numbered(number))
    }

    fn host_numbered(&self, number: usize) -> Host<'_> {
        let plan = &self.plan.hosts[number];
        Host {
            name: &plan.name,
            known_by: &plan.known_by,
            inside: &self.stations[number].inside,
        }
    }

    /// Returns a link by its name.
    ///
    /// # Errors
    /// There is no link of that name.
    pub fn link(&self, name: &str) -> Result<Link<'_>, LabError> {
        let number = self.plan.links.iter().position(|link| link.name == name);
        let number = number.ok_or_else(|| LabError::Unknown {
            kind: "link",
            name: name.to_owned(),
            known: self.plan.links.iter().map(|link| link.name.clone()).collect(),
        })?;
        Ok(Link { lab: self, number })
    }

    /// Returns all links, in the order of the file.
    pub fn links(&self) -> impl Iterator<Item = Link<'_>> {
        (0..self.plan.links.len()).map(|number| Link { lab: self, number })
    }

    /// Returns the changes of the file's timeline, in the order of time.
    #[must_use]
    pub fn timeline(&self) -> &[timeline::TimelineEntry] {
        &self.changes
    }

    /// Returns warnings about operations that this machine does not support and the file does not require.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the time since the lab came up.
    #[must_use]
    pub fn age(&self) -> Duration {
        sys::monotonic() - self.start
    }

    pub(crate) fn forwarder(&self) -> Result<&Forwarder, LabError> {
        self.forwarder.as_ref().ok_or(LabError::Stopped)
    }
}

/// Gives the hosts files and a resolver of their own. If the system permits no mount namespaces, a file
/// without scripted names works without them.
fn name_hosts(
    spec: &Spec,
    plan: &LabPlan,
    stations: &[network::HostNetns],
    warnings: &mut Vec<String>,
) -> Result<(Vec<Option<View>>, Option<NameServer>), LabError> {
    let zone = Zone::new(spec, plan);
    let hosts = names::hosts_file(plan, &zone);
    let views = stations
        .iter()
        .map(|station| View::make(&station.namespace, &hosts));
    let views = match views.collect::<Result<Vec<_>, _>>() {
        Ok(views) => views.into_iter().map(Some).collect(),
        Err(error) if spec.names.is_empty() => {
            warnings.push(format!(
                "hosts see the names of the machine, not those of the lab: {error}"
            ));
            return Ok((stations.iter().map(|_| None).collect(), None));
        }
        Err(error) => return Err(error),
    };
    let sockets = stations
        .iter()
        .map(|station| station.namespace.run(names::listen));
    let sockets = sockets.collect::<Result<Result<Vec<_>, _>, _>>()?;
    let sockets = sockets.map_err(LabError::io("open the resolver's port"))?;
    let server = NameServer::start(zone, sockets).map_err(LabError::io("start the resolver"))?;
    Ok((views, Some(server)))
}

/// Returns the configuration of each cell, in the order of the links.
fn setups(spec: &Spec, plan: &LabPlan) -> Result<Vec<CellSetup>, LabError> {
    let mut setups = Vec::new();
    for (number, link) in plan.links.iter().enumerate().filter(|(_, link)| link.is_cell) {
        setups.push(CellSetup {
            name: link.name.clone(),
            seed: spec.seed,
            interfaces: [0, 1].map(|end| network::near_end(number, end)),
            mtu: link.mtu,
            rules: [read_trace(&link.rules[0])?, read_trace(&link.rules[1])?],
            nat: link.nat,
        });
    }
    Ok(setups)
}

/// Reads the trace of the rules, if they have one.
pub(crate) fn read_trace(rules: &Rules) -> Result<RuleChange, LabError> {
    let read = |path: &Path| {
        let wrong = |error| LabError::Trace { path: path.to_owned(), error };
        let text = hawser_documents::files::named(path, hawser_documents::files::DATA_MAX);
        let text = text.map_err(|error| wrong(TraceError::System(error)))?;
        TraceTimes::parse(&text).map(Arc::new).map_err(wrong)
    };
    let trace = rules.trace.as_deref().map(read).transpose()?;
    Ok(RuleChange { rules: rules.clone(), trace })
}
