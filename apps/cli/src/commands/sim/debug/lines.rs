//! Reads commands as lines of standard input and answers with text or JSON, for pipes and tests.

use std::io::{BufRead, Read, stdin};

use hawser::runs::debug::{Answer, BreakCondition, Command, Debugger};
use serde_json::json;

use crate::exit::{Exit, Outcome};

/// The maximum length of an input line, in bytes.
const MAX_LINE: u64 = 64 * 1024;

/// Reads commands until `quit` or the end of the input.
pub(super) fn run(mut debugger: Debugger, is_json: bool) -> Outcome {
    let print = |answer: &Answer| {
        if is_json {
            println!("{}", json!(answer));
        } else {
            print!("{answer}\n");
        }
    };
    // Enabled by default, because no user wants to run past a failed assertion.
    let _ = debugger.add(BreakCondition::Assert, None, None);
    print(&Answer::Stop(Box::new(debugger.entry())));
    let mut input = stdin().lock();
    let (mut line, mut wrong) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        match read.map_err(|error| Exit::environment(format!("standard input: {error}")))? {
            0 => break,
            read if read as u64 == MAX_LINE => {
                return Err(Exit::usage(format!("a command has more than {MAX_LINE} bytes")));
            }
            _ => {}
        }
        let text = String::from_utf8_lossy(&line);
        let answer = Command::parse(&text).map_err(|error| error.to_string());
        let answer = answer.and_then(|command| {
            let obeyed = command.map(|command| debugger.obey(&command, &mut || false));
            obeyed.transpose().map_err(|error| error.to_string())
        });
        match answer {
            Ok(None) => {}
            Ok(Some(Answer::Quit)) => break,
            Ok(Some(answer)) => print(&answer),
            Err(error) => {
                wrong += 1;
                if is_json {
                    println!("{}", json!({ "error": error }));
                } else {
                    print!("error: {error}\n");
                }
            }
        }
    }
    match wrong {
        0 => Ok(()),
        _ => Err(Exit::reported(2)),
    }
}
