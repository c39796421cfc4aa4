//! The kind of link behind an interface.

/// An interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's index.
    pub index: u32,
    /// True if it is up and has a carrier.
    pub is_up: bool,
    /// The kind of link, as far as the name shows it.
    pub kind: LinkKind,
}

/// The kind of link behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Ethernet.
    Ethernet,
    /// Wireless LAN.
    Wifi,
    /// A mobile network.
    Cellular,
    /// The machine's own loopback.
    Loopback,
    /// Another kind, such as a tunnel or a bridge.
    Other,
}

impl LinkKind {
    /// Derives the kind from the names that systemd and the kernel give (systemd.net-naming-scheme(7)).
    pub fn of_name(name: &str) -> Self {
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if name == "lo" {
            Self::Loopback
        } else if begins(&["wl", "wifi", "ath", "ra"]) {
            Self::Wifi
        } else if begins(&["ww", "rmnet", "ppp", "cellular", "mobile", "lte"]) {
            Self::Cellular
        } else if begins(&["eth", "en", "em", "lan"]) {
            Self::Ethernet
        } else {
            Self::Other
        }
    }

    /// Returns the kind that a document's word stands for (MULTI, Figure 2).
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "eth" | "ethernet" => Some(Self::Ethernet),
            "wifi" => Some(Self::Wifi),
            "cellular" | "5g" | "lte" => Some(Self::Cellular),
            _ => None,
        }
    }
}
