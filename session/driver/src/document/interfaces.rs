//! What kind of link an interface is.

/// An interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Whether it is up and has a carrier.
    pub is_up: bool,
    /// What it is, as far as its name shows.
    pub kind: Kind,
}

/// What kind of link an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet.
    Ethernet,
    /// Wireless LAN.
    Wifi,
    /// A mobile network.
    Cellular,
    /// The machine itself.
    Loopback,
    /// Something else: a tunnel, a bridge.
    Other,
}

impl Kind {
    /// By the names that systemd and the kernel give (systemd.net-naming-scheme(7)).
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

    /// What a document's word for a kind stands for (MULTI, Figure 2).
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "eth" | "ethernet" => Some(Self::Ethernet),
            "wifi" => Some(Self::Wifi),
            "cellular" | "5g" | "lte" => Some(Self::Cellular),
            _ => None,
        }
    }
}
