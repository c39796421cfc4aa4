//! The configuration of name resolution: the system's, or another one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

use hickory_resolver::Hosts;
use hickory_resolver::config::{ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::system_conf::parse_resolv_conf;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// The server that the C library asks if the file names none (resolv.conf(5)).
const NOBODY_NAMED: &str = "\nnameserver 127.0.0.1\n";
/// The number of answers that are cached.
const KEPT: u64 = 256;

/// The times of the last changes of the system's files; equal as long as the files are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([Option<(SystemTime, u64, u64)>; 2]);

/// The name servers, and the options of queries.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) servers: ResolverConfig,
    pub(crate) options: ResolverOpts,
    pub(crate) hosts: String,
}

/// The errors of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file of the system cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The path of the file.
        path: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// A text could not be parsed.
    #[error("{what}: {why}")]
    Text {
        /// The name of the file: `resolv.conf` or `hosts`.
        what: &'static str,
        /// The fault of the text.
        why: String,
    },
    /// None of the name servers can be asked from this address.
    #[error(
        "no name server has the address family of the source address {source_address}; the name servers are \
         {servers}"
    )]
    NoServer {
        /// The local address of queries.
        source_address: IpAddr,
        /// The servers, separated by commas.
        servers: String,
    },
}

impl Config {
    /// Reads the system's configuration: `/etc/resolv.conf`, `/etc/hosts`. It is read once: after a change of
    /// the network, make another [`crate::resolve::Resolver`].
    ///
    /// # Errors
    /// When a file cannot be read or parsed. A missing file counts as empty.
    pub fn system() -> Result<Config, ConfigError> {
        Config::parse(&read(RESOLV_CONF)?, &read(HOSTS)?)
    }

    /// Returns a stamp that shows whether the system's files have changed since they were read.
    #[must_use]
    pub fn stamp() -> Stamp {
        let seen = |path| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.modified().ok()?, file.len(), file.ino()))
        };
        Stamp([RESOLV_CONF, HOSTS].map(seen))
    }

    /// Parses these texts, in the forms of resolv.conf(5) and hosts(5).
    ///
    /// # Errors
    /// When a text cannot be parsed.
    pub fn parse(resolv_conf: &str, hosts: &str) -> Result<Config, ConfigError> {
        let names_servers = resolv_conf
            .lines()
            .any(|line| line.trim_start().starts_with("nameserver"));
        let resolv_conf = format!("{resolv_conf}{}", if names_servers { "" } else { NOBODY_NAMED });
        let (mut servers, mut options) = parse_resolv_conf(resolv_conf)
            .map_err(|error| ConfigError::Text { what: "resolv.conf", why: error.to_string() })?;
        if !servers.search.is_empty() {
            // The host's own domain is searched only when no list is given.
            servers.domain = None;
        }
        for server in &mut servers.name_servers {
            // A resolver of the system covers the whole tree, so its negative answers are final.
            server.trust_negative_responses = true;
        }
        // The file counts all attempts, the library those after the first.
        options.attempts = options.attempts.saturating_sub(1);
        options.cache_size = KEPT;
        options.use_hosts_file = ResolveHosts::Never;
        let config = Config { servers, options, hosts: hosts.to_owned() };
        config.hosts_table()?;
        Ok(config)
    }

    /// Sends queries from this address, so that the answers are those of its network. Only servers of its
    /// family are asked.
    ///
    /// # Errors
    /// When there is no such server.
    pub fn from_source(mut self, source: IpAddr) -> Result<Config, ConfigError> {
        let all: Vec<String> = self
            .servers
            .name_servers
            .iter()
            .map(|server| server.ip.to_string())
            .collect();
        self.servers
            .name_servers
            .retain(|server| server.ip.is_ipv4() == source.is_ipv4());
        if self.servers.name_servers.is_empty() {
            return Err(ConfigError::NoServer { source_address: source, servers: all.join(", ") });
        }
        for connection in self
            .servers
            .name_servers
            .iter_mut()
            .flat_map(|server| &mut server.connections)
        {
            connection.bind_addr = Some(SocketAddr::new(source, 0));
        }
        Ok(self)
    }

    /// Returns the name servers, in order.
    pub fn servers(&self) -> impl Iterator<Item = IpAddr> {
        self.servers.name_servers.iter().map(|server| server.ip)
    }

    pub(crate) fn hosts_table(&self) -> Result<Hosts, ConfigError> {
        let mut hosts = Hosts::default();
        hosts
            .read_hosts_conf(self.hosts.as_bytes())
            .map_err(|error| ConfigError::Text { what: "hosts", why: error.to_string() })?;
        Ok(hosts)
    }
}

fn read(path: &'static str) -> Result<String, ConfigError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(ConfigError::File { path, error }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_system_configuration_is_honoured() {
        let text = "search a.example b.example\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n\
                    options ndots:2 timeout:3 attempts:4\n";
        let config = Config::parse(text, "").expect("a configuration");
        let servers: Vec<String> = config.servers().map(|ip| ip.to_string()).collect();
        assert_eq!(servers, ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(
            config
                .servers
                .search
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["a.example", "b.example"]
        );
        assert_eq!(
            (config.options.ndots, config.options.attempts),
            (2, 3),
            "three after the first"
        );
        assert_eq!(config.options.timeout, Duration::from_secs(3));
    }

    /// resolv.conf(5): "If no nameserver entries are present, the default is to use the name server on the
    /// local machine."
    #[test]
    fn a_file_without_servers_names_this_host() {
        let config = Config::parse("# nothing\n", "").expect("a configuration");
        assert_eq!(
            config.servers().collect::<Vec<_>>(),
            [IpAddr::from([127, 0, 0, 1])]
        );
    }

    #[test]
    fn questions_are_asked_from_an_address_of_the_same_family() {
        let config = Config::parse("nameserver 192.0.2.1\nnameserver 2001:db8::1\n", "").expect("one");
        let from = config
            .from_source(IpAddr::from([198, 51, 100, 7]))
            .expect("a server");
        assert_eq!(from.servers().collect::<Vec<_>>(), [IpAddr::from([192, 0, 2, 1])]);
        let none = from
            .from_source("2001:db8::7".parse().expect("an address"))
            .expect_err("no server");
        assert!(
            none.to_string().contains("the name servers are 192.0.2.1"),
            "{none}"
        );
    }
}
