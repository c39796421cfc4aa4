//! Connections of controllers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::super::base::{Base, now};
use super::super::event::{Event, Trouble};
use super::protocol::{Command, Filter, parse, refusal};
use hawser_socket::local::{Answers, End, Lines, Socket, peer};

/// Connections at once.
const MOST: usize = 32;
/// How long nobody is accepted after the system could not.
const REST: Duration = Duration::from_millis(200);

/// Serves whoever may connect, for as long as it is polled.
pub(in super::super) async fn serve(socket: Socket, base: Arc<Base>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match socket.listener().accept().await {
            Ok((stream, _)) => {
                let is_full = connections.len() >= MOST;
                let base = Arc::clone(&base);
                if is_full {
                    // Told without waiting: nobody's time is spent on it.
                    let line = json!({ "error": format!("{MOST} controllers are connected already") });
                    let _ = stream.try_write(format!("{line}\n").as_bytes());
                } else {
                    connections.spawn(async move { attend(stream, &base).await });
                }
            }
            Err(error) => {
                base.tell(Event::Trouble(Trouble::Control(error.to_string())));
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn attend(stream: UnixStream, base: &Base) {
    let peer = peer(&stream);
    let (reader, writer) = stream.into_split();
    let (mut lines, mut answers) = (Lines::new(reader), Answers::new(writer));
    let end = match peer {
        Ok(_) => converse(&mut lines, &mut answers, base).await,
        Err(end) => Err(end),
    };
    match end {
        // It ends in any case.
        Err(End::Told(why)) => drop(answers.say(&json!({ "error": why })).await),
        Err(End::Slow) => {
            let why = "a controller that does not read was dropped".to_owned();
            base.tell(Event::Trouble(Trouble::Control(why)));
        }
        Err(End::Gone) | Ok(()) => {}
    }
}

async fn converse(lines: &mut Lines, answers: &mut Answers, base: &Base) -> Result<(), End> {
    while let Some(line) = lines.next().await? {
        let command = match parse(&line) {
            Ok(command) => command,
            Err(findings) => {
                answers.say(&refusal("", &findings)).await?;
                continue;
            }
        };
        match command {
            Command::Put(document) => match base.put(&document, now()) {
                Ok(put) => {
                    let nodes: Vec<Value> = put
                        .nodes
                        .iter()
                        .map(|known| json!({ "uid": &*known.uid, "until": known.until }))
                        .collect();
                    let warnings: Vec<String> = put.warnings.iter().map(ToString::to_string).collect();
                    answers
                        .say(&json!({ "done": "put", "nodes": nodes, "warnings": warnings }))
                        .await?;
                }
                Err(findings) => answers.say(&refusal("put", &findings)).await?,
            },
            Command::List(filter) => {
                let all: Vec<_> = base
                    .list(now())
                    .into_iter()
                    .filter(|known| filter.takes(known))
                    .collect();
                for known in &all {
                    answers.say(&json!(known)).await?;
                }
                answers
                    .say(&json!({ "done": "list", "nodes": all.len() }))
                    .await?;
            }
            Command::Delete(uid) => match base.delete(&uid, now()) {
                Ok(origin) => {
                    answers
                        .say(&json!({ "done": "delete", "uid": uid, "source": origin }))
                        .await?
                }
                Err(finding) => answers.say(&refusal("delete", &[finding])).await?,
            },
            Command::Watch(filter) => return watch(lines, answers, base, &filter).await,
        }
    }
    Ok(())
}

/// Tells what becomes known, until the peer closes its side.
async fn watch(lines: &mut Lines, answers: &mut Answers, base: &Base, filter: &Filter) -> Result<(), End> {
    let mut events = base.subscribe();
    answers.say(&json!({ "done": "watch" })).await?;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            // A watcher has nothing more to say; its end is its end.
            more = lines.any() => match more? {
                true => return Err(End::Told("a connection that watches takes no more commands".into())),
                false => return Ok(()),
            },
        };
        match event {
            Ok(event) if is_wanted(&event, filter) => answers.say(&event.to_json()).await?,
            Ok(_) => {}
            Err(RecvError::Lagged(missed)) => {
                return Err(End::Told(format!(
                    "too slow: {missed} events were missed; list again"
                )));
            }
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

fn is_wanted(event: &Event, filter: &Filter) -> bool {
    match event {
        Event::Put(known) => filter.takes(known),
        Event::Deleted { uid, origin } | Event::Expired { uid, origin } => filter.takes_name(*origin, uid),
        Event::Loaded { .. } | Event::Refused(_) | Event::Trouble(_) => *filter == Filter::default(),
    }
}
