//! `hawser cib list|put|delete|watch`: a controller of a running Hawser (docs/knowledge.md).

mod show;
mod talk;

use std::io::Read;
use std::path::{Path, PathBuf};

use hawser::policy::document::{self, Format, node_json};
use hawser::policy::{FileError, Names, format_of};
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};
use talk::Controller;

/// What a running Hawser knows of networks, paths and peers; put and delete nodes (docs/knowledge.md)
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    List(List),
    Put(Put),
    Delete(Delete),
    Watch(Watch),
}

/// Where, and in which form.
#[derive(clap::Args)]
struct Common {
    /// The control socket; without it, $XDG_RUNTIME_DIR/hawser/control.sock
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// JSON on standard output, an object a line
    #[arg(long)]
    json: bool,
}

/// Which nodes; all conditions have to hold.
#[derive(clap::Args)]
struct Filter {
    /// Only what comes from here: file, interface, race, session, controller
    #[arg(long, value_name = "SOURCE", value_parser = ["file", "interface", "race", "session", "controller"])]
    source: Option<String>,
    /// Only nodes whose names begin so
    #[arg(long, value_name = "PREFIX")]
    uid: Option<String>,
    /// Only what speaks of this interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

/// List what is known
#[derive(clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    common: Common,
}

/// Make nodes known, all of a file or none
///
/// A node without `expire` ends after ten minutes; with -1 it is kept until it is deleted, across
/// restarts. A node of the same name is replaced.
#[derive(clap::Args)]
pub(crate) struct Put {
    /// A document of the CIB, JSON or (by its ending) TOML; - reads JSON from standard input
    file: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Take a node away
#[derive(clap::Args)]
pub(crate) struct Delete {
    /// Its name
    uid: String,
    #[command(flatten)]
    common: Common,
}

/// Tell what becomes known and what ends, until interrupted
#[derive(clap::Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::List(args) => list(args),
        Command::Put(args) => put(args),
        Command::Delete(args) => delete(args),
        Command::Watch(args) => watch(args),
    }
}

impl Common {
    fn controller(&self) -> Result<Controller, Exit> {
        let path = self
            .socket
            .clone()
            .or_else(|| hawser::local::usual("control"))
            .ok_or_else(|| {
                Exit::usage("XDG_RUNTIME_DIR is not set, so there is no usual socket: add --socket PATH")
            })?;
        Controller::connect(&path)
    }
}

impl Filter {
    fn to_json(&self) -> Value {
        let all = [
            ("source", &self.source),
            ("uid", &self.uid),
            ("interface", &self.interface),
        ];
        let said = all
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?))));
        Value::Object(said.collect())
    }
}

fn list(args: &List) -> Outcome {
    let mut controller = args.common.controller()?;
    controller.say(&json!({ "list": args.filter.to_json() }))?;
    loop {
        let answer = controller.hear()?;
        if answer["done"] == "list" {
            return Ok(());
        }
        match args.common.json {
            true => println!("{answer}"),
            false => print!("{}", show::node(&answer)),
        }
    }
}

fn put(args: &Put) -> Outcome {
    let nodes = read(&args.file)?;
    let mut controller = args.common.controller()?;
    controller.say(&json!({ "put": nodes }))?;
    let answer = controller.hear().map_err(|exit| match exit.code() {
        // The file is what was refused.
        1 => Exit::input(exit),
        _ => exit,
    })?;
    if args.common.json {
        println!("{answer}");
        return Ok(());
    }
    for node in answer["nodes"].as_array().into_iter().flatten() {
        println!(
            "{} {}",
            node["uid"].as_str().unwrap_or_default(),
            show::until(&node["until"])
        );
    }
    Ok(())
}

/// The nodes of a file, each as JSON; what is wrong with them is told with the file's name.
fn read(file: &Path) -> Result<Vec<Value>, Exit> {
    let is_input = file == Path::new("-");
    let name = file.display().to_string();
    let text = if is_input {
        let mut text = String::new();
        // More than a line may hold is refused below.
        let read = std::io::stdin().take(1 << 20).read_to_string(&mut text);
        read.map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| Exit::input(format!("cannot read {name}: {error}")))?;
    let format = if is_input { Format::Json } else { format_of(file) };
    let stem = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = if is_input {
        "input"
    } else {
        stem.split('.').next().unwrap_or_default()
    };
    let mut names = Names::default();
    let told = |finding| {
        FileError {
            file: file.into(),
            finding,
        }
        .to_string()
    };
    let read = document::nodes(&text, format, stem, &mut names).map_err(|findings| {
        Exit::input(
            findings
                .into_iter()
                .map(told)
                .collect::<Vec<_>>()
                .join("\nhawser: "),
        )
    })?;
    read.warnings
        .into_iter()
        .map(told)
        .for_each(|warning| eprintln!("hawser: doubtful: {warning}"));
    Ok(read.value.iter().map(|node| node_json(node, &names)).collect())
}

fn delete(args: &Delete) -> Outcome {
    let mut controller = args.common.controller()?;
    controller.say(&json!({ "delete": args.uid }))?;
    let answer = controller.hear()?;
    match args.common.json {
        true => println!("{answer}"),
        false => println!("{}: deleted", args.uid),
    }
    Ok(())
}

fn watch(args: &Watch) -> Outcome {
    let mut controller = args.common.controller()?;
    controller.say(&json!({ "watch": args.filter.to_json() }))?;
    loop {
        let event = controller.hear()?;
        match args.common.json {
            true => println!("{event}"),
            false => print!("{}", show::event(&event)),
        }
    }
}

#[cfg(test)]
mod tests;
