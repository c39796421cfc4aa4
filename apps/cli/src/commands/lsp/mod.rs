//! `hawser lsp`: the language server, for editors.

mod convert;
mod files;
mod frames;
mod names;
mod outlines;
mod requests;
mod server;

use std::sync::mpsc;

use crate::exit::{Exit, Outcome};

/// Serve an editor by the Language Server Protocol
///
/// An editor starts this command and speaks to it over its standard input and output: diagnostics as one
/// types, hovers, definitions, references, renaming, completion, formatting and more. docs/editors.md says how
/// VS Code, Neovim and Helix are set up.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Speak over standard input and output, the only transport; editors pass this option
    #[arg(long)]
    stdio: bool,
}

/// The maximum number of messages queued between the reader and the server. A faster editor blocks.
const WAITING: usize = 64;

pub(crate) fn run(args: &Args) -> Outcome {
    let Args { stdio: _ } = args;
    let (incoming, messages) = mpsc::sync_channel(WAITING);
    // The thread ends only with the process, because a read cannot be interrupted.
    std::thread::spawn(move || frames::read_all(&mut std::io::stdin().lock(), &incoming));
    let mut out = std::io::stdout().lock();
    server::Server::new(&mut |message| frames::write(&mut out, message)).serve(&messages)
}

/// The connection to the editor ended, or the editor violated the protocol.
fn broken(why: impl std::fmt::Display) -> Exit {
    Exit::network(format!("the connection to the editor ended: {why}"))
}
