//! `hawser lsp`: the language server, for editors.
//!
//! [`hawser::lang::ide::lsp::Server`] is the machine. Here are its streams and its files ([`files`]).

mod files;

use std::sync::mpsc;

use hawser::lang::Disk;
use hawser::lang::ide::lsp::{Message, Server, WAITING, read_all};

use crate::exit::{Exit, Outcome};

/// Serve an editor by the Language Server Protocol
///
/// An editor starts this command and speaks to it over its standard input and output. The server gives
/// diagnostics as one types, hovers, definitions, references, renaming, completion, formatting and more.
/// docs/editors.md describes how to set up VS Code, Neovim and Helix.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Speak over standard input and output, the only transport; editors pass this option
    #[arg(long)]
    stdio: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Args { stdio: _ } = args;
    let (incoming, messages) = mpsc::sync_channel(WAITING);
    // The thread ends only with the process, because a read cannot be interrupted.
    std::thread::spawn(move || read_all(&mut std::io::stdin().lock(), &incoming));
    let mut out = std::io::stdout().lock();
    let files = files::Local::default();
    let mut send = |message: Message| message.write(&mut out);
    Server::new(Box::new(Disk), &files, &mut send)
        .serve(&messages)
        .map_err(Exit::network)
}
