//! The options of a gateway.

use std::path::PathBuf;

use hawser::session::Congestion;
use hawser::session::document::Document;
use hawser::session::relay::{Gateway, Token};

use super::args::{govern, parse_congestion, parse_pin, read};
use crate::exit::Exit;

/// The options of a gateway, for commands that can do without one.
#[derive(clap::Args)]
#[command(next_help_heading = "Session")]
pub(crate) struct GatewayArgs {
    /// The gateway that connects onwards: HOST[:PORT], or a session document that names it
    #[arg(long, value_name = "GATEWAY", requires = "gateway_token")]
    gateway: Option<String>,
    /// The file with the token for that gateway
    #[arg(long, value_name = "FILE", requires = "gateway")]
    gateway_token: Option<PathBuf>,
    /// Trust only the certificate of the gateway with this SHA-256
    #[arg(long, value_name = "HEX", requires = "gateway", value_parser = parse_pin)]
    gateway_pin: Option<[u8; 32]>,
    /// The congestion controller for what is sent to the gateway: tolerant, cubic, bbr
    #[arg(long, value_name = "NAME", requires = "gateway", value_parser = parse_congestion)]
    gateway_congestion: Option<Congestion>,
}

impl GatewayArgs {
    /// Returns the gateway, if one was named. Its session is opened on first use.
    pub(crate) fn gateway(&self) -> Result<Option<Gateway>, Exit> {
        let (Some(gateway), Some(token)) = (&self.gateway, &self.gateway_token) else {
            return Ok(None);
        };
        let mut document = match gateway.ends_with(".toml") || gateway.ends_with(".json") {
            true => read(gateway.as_ref())?,
            false => Document::new(gateway).map_err(Exit::usage)?,
        };
        if let Some(congestion) = self.gateway_congestion {
            govern(congestion, &mut document.tcp, &mut document.quic);
        }
        if self.gateway_pin.is_some() {
            (document.tls.pin, document.tls.certificate) = (self.gateway_pin, None);
        }
        if !document.is_secure() {
            return Err(Exit::input(format!("{gateway}: a token is sent only over TLS")));
        }
        Ok(Some(Gateway::new(
            document,
            Token::read(token).map_err(Exit::input)?,
        )))
    }
}
