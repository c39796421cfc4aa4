//! `hawser policy knowledge list|put|delete|watch`: reads and changes the knowledge of a running Hawser
//! (docs/knowledge.md).

mod show;

use std::io::Read;
use std::path::{Path, PathBuf};

use hawser::connect::policy::document::{self, Format, node_json};
use hawser::connect::policy::{FileError, NameTable, format_of};
use hawser::interact::local::LINE;
use hawser::interact::{Client, ClientError, ServerMessage};
use hawser::runs::files;
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};
use crate::interact::{ClientArgs, exit, lines, list as nodes_of, text};

/// Read and change what a running Hawser knows of networks, paths and peers (docs/knowledge.md)
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    List(List),
    Put(Put),
    Delete(Delete),
    Watch(Watch),
}

/// The conditions that select nodes, all of which must hold.
#[derive(clap::Args)]
struct Filter {
    /// Only nodes from this source: file, interface, race, session, controller
    #[arg(long, value_name = "SOURCE", value_parser = ["file", "interface", "race", "session", "controller"])]
    source: Option<String>,
    /// Only nodes whose names begin with this
    #[arg(long, value_name = "PREFIX")]
    uid: Option<String>,
    /// Only nodes about this interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

/// List nodes
#[derive(clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    client: ClientArgs,
}

/// Add or replace the nodes of a file, all of them or none
///
/// A node without `expire` ends after ten minutes. With -1 it stays until it is deleted, across restarts. A
/// node replaces an earlier one of the same name.
#[derive(clap::Args)]
pub(crate) struct Put {
    /// A file with nodes as JSON or (by its ending) TOML; - reads JSON from standard input
    file: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
}

/// Delete a node
#[derive(clap::Args)]
pub(crate) struct Delete {
    /// The name of the node
    uid: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// Print changes of nodes until interrupted
#[derive(clap::Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::List(args) => list(args),
        Command::Put(args) => put(args),
        Command::Delete(args) => delete(args),
        Command::Watch(args) => watch(args),
    }
}

/// The name under which others see this client, in the log and among the subscribers.
const NAME: &str = "cib";

impl Filter {
    fn to_json(&self) -> Value {
        let all = [
            ("source", &self.source),
            ("uid", &self.uid),
            ("interface", &self.interface),
        ];
        let shown = all
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?))));
        Value::Object(shown.collect())
    }
}

fn connect(args: &ClientArgs) -> Result<Client, Exit> {
    args.connect(NAME, 0)
}

fn list(args: &List) -> Outcome {
    let request = json!({ "list": args.filter.to_json() });
    let answer = connect(&args.client)?.ask(&request).map_err(exit)?;
    for node in nodes_of(&answer, "nodes") {
        match args.client.json {
            true => println!("{node}"),
            false => print!("{}", show::node(node)),
        }
    }
    Ok(())
}

fn put(args: &Put) -> Outcome {
    let nodes = read(&args.file)?;
    let mut client = connect(&args.client)?;
    let request = json!({ "put": nodes });
    if request.to_string().len() > LINE {
        return Err(Exit::input(format!(
            "the nodes take more than {LINE} bytes: put fewer at once"
        )));
    }
    let answer = client.ask(&request).map_err(|error| match error {
        // The refusal concerns the file.
        ClientError::Wrong(diagnostics) => Exit::input(lines(&diagnostics)),
        error => exit(error),
    })?;
    if args.client.json {
        println!("{answer}");
        return Ok(());
    }
    for node in nodes_of(&answer, "nodes") {
        println!("{} {}", text(node, "uid"), show::until(&node["until"]));
    }
    Ok(())
}

/// Reads the nodes of a file, each as JSON. Diagnostics name the file.
fn read(file: &Path) -> Result<Vec<Value>, Exit> {
    let is_input = file == Path::new("-");
    let name = file.display().to_string();
    let text = if is_input {
        let mut text = String::new();
        // Input beyond the length of a line is refused below.
        let read = std::io::stdin().take(1 << 20).read_to_string(&mut text);
        read.map(|_| text)
    } else {
        files::given(file, files::DOCUMENT_MAX)
    };
    let text = text.map_err(|error| Exit::input(format!("cannot read {name}: {error}")))?;
    let format = if is_input { Format::Json } else { format_of(file) };
    let stem = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = if is_input {
        "input"
    } else {
        stem.split('.').next().unwrap_or_default()
    };
    let mut names = NameTable::default();
    let reported = |diagnostic| FileError { file: file.into(), diagnostic }.to_string();
    let read = document::nodes(&text, format, stem, &mut names).map_err(|diagnostics| {
        Exit::input(
            diagnostics
                .into_iter()
                .map(reported)
                .collect::<Vec<_>>()
                .join("\nhawser: "),
        )
    })?;
    read.warnings
        .into_iter()
        .map(reported)
        .for_each(|warning| eprintln!("hawser: doubtful: {warning}"));
    Ok(read.value.iter().map(|node| node_json(node, &names)).collect())
}

fn delete(args: &Delete) -> Outcome {
    let request = json!({ "delete": args.uid });
    let answer = connect(&args.client)?.ask(&request).map_err(exit)?;
    match args.client.json {
        true => println!("{answer}"),
        false => println!("{}: deleted", args.uid),
    }
    Ok(())
}

fn watch(args: &Watch) -> Outcome {
    let mut client = connect(&args.client)?;
    let answer = client
        .ask(&json!({ "watch": args.filter.to_json() }))
        .map_err(exit)?;
    if args.client.json {
        println!("{answer}");
    }
    loop {
        let ServerMessage::Event(event) = client.receive(None).map_err(exit)? else {
            continue;
        };
        match args.client.json {
            true => println!("{event}"),
            false => print!("{}", show::event(&event)),
        }
    }
}

#[cfg(test)]
mod tests;
