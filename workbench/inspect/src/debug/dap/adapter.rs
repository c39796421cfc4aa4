//! Answers the client's requests.

use std::path::Path;

use serde_json::{Value, json};

use super::Files;
use super::variables::Shown;
use crate::debug::{Answer, BreakCondition, Command, Debugger, Move, Reason, Stop, TraceValue as Inner};

/// The first number of frames for hosts that are not processing an event.
const FIRST_IDLE_FRAME: u64 = 1000;

/// The debugger's next step after a request has been answered.
pub enum Goes {
    /// Stay at the current place.
    No,
    /// Move to another place.
    To(Move),
    /// End the session, because the client leaves.
    Away,
}

/// A debugger and the state of its client.
pub struct Adapter<'a> {
    files: &'a dyn Files,
    debugger: Option<Debugger>,
    /// Pending messages to the client.
    out: Vec<Value>,
    /// The number of the next message.
    sequence: u64,
    /// The number of the first line and column in the client's terms, 0 or 1.
    first_line: i64,
    stops_on_entry: bool,
    shown: Shown,
    /// Breakpoints by the list that contained them: a file, `functions`, `data` or `exceptions`.
    set: Vec<(String, u32)>,
}

/// The response to a request: a body, or an error for the user.
type Reply = Result<Value, String>;

impl<'a> Adapter<'a> {
    /// Returns an adapter that has launched no scenario.
    pub fn new(files: &'a dyn Files) -> Adapter<'a> {
        Adapter {
            files,
            debugger: None,
            out: Vec::new(),
            sequence: 0,
            first_line: 1,
            stops_on_entry: true,
            shown: Shown::default(),
            set: Vec::new(),
        }
    }

    /// Takes the pending messages, in order.
    pub fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.out)
    }

    /// Answers a request, and returns the move that it asks for.
    pub fn handle(&mut self, request: &Value) -> Goes {
        let command = request["command"].as_str().unwrap_or_default();
        let arguments = &request["arguments"];
        let (reply, goes) = match command {
            "continue" => (
                Ok(json!({ "allThreadsContinued": true })),
                Goes::To(Move::Continue),
            ),
            "reverseContinue" => (Ok(Value::Null), Goes::To(Move::Reverse)),
            "next" => (Ok(Value::Null), Goes::To(Move::Next)),
            "stepIn" => (Ok(Value::Null), Goes::To(Move::Step)),
            "stepOut" => (Ok(Value::Null), Goes::To(Move::Out)),
            "stepBack" => (Ok(Value::Null), Goes::To(Move::Back)),
            "disconnect" | "terminate" => (Ok(Value::Null), Goes::Away),
            "configurationDone" if !self.stops_on_entry => (Ok(Value::Null), Goes::To(Move::Continue)),
            _ => (self.reply(command, arguments), Goes::No),
        };
        let ready = self.debugger.is_some() || matches!(goes, Goes::Away);
        let (reply, goes) = match goes {
            Goes::To(_) if !ready => (Err("the client has not launched a scenario".to_owned()), Goes::No),
            goes => (reply, goes),
        };
        let is_ok = reply.is_ok();
        self.respond(request, reply);
        match command {
            "launch" if is_ok => self.event("initialized", Value::Null),
            "terminate" => self.event("terminated", json!({})),
            "configurationDone" if self.stops_on_entry => {
                if let Some(stop) = self.debugger.as_mut().map(Debugger::entry) {
                    self.stopped(&stop);
                }
            }
            _ => {}
        }
        goes
    }

    /// Moves the debugger and reports where it stopped.
    pub fn go(&mut self, to: &Move, pause: &mut dyn FnMut() -> bool) {
        let Some(debugger) = &mut self.debugger else {
            return;
        };
        let was_over = debugger.place().is_none();
        let is_forwards = !matches!(to, Move::Reverse | Move::Back | Move::BackEvent);
        if was_over && is_forwards {
            self.event("terminated", json!({}));
            return;
        }
        match debugger.go(to, pause) {
            Ok(stop) => self.stopped(&stop),
            Err(error) => {
                self.say("stderr", &error.to_string());
                self.event("terminated", json!({}));
            }
        }
    }

    fn stopped(&mut self, stop: &Stop) {
        self.shown.clear();
        let reason = match stop.reason {
            Reason::Entry | Reason::Beginning => "entry",
            Reason::Step | Reason::End => "step",
            Reason::Breakpoint => "breakpoint",
            Reason::Assert => "exception",
            Reason::Pause => "pause",
        };
        let hosts: Vec<&str> = self
            .debugger
            .as_ref()
            .map_or_else(Vec::new, |d| d.hosts().collect());
        let host = stop.place.as_ref().map(|place| place.host.as_str());
        let thread = hosts.iter().position(|known| Some(*known) == host).unwrap_or(0) + 1;
        let text = stop.to_string();
        let description = text.lines().next().unwrap_or_default().to_owned();
        self.say("console", &text);
        self.event(
            "stopped",
            json!({
                "reason": reason,
                "description": description,
                "threadId": thread,
                "allThreadsStopped": true,
                "hitBreakpointIds": stop.breakpoints,
            }),
        );
    }

    fn reply(&mut self, command: &str, arguments: &Value) -> Reply {
        match command {
            "initialize" => {
                self.first_line = i64::from(arguments["linesStartAt1"].as_bool().unwrap_or(true));
                return Ok(capabilities());
            }
            "launch" => return self.launch(arguments),
            _ => {}
        }
        let Some(debugger) = &mut self.debugger else {
            return Err(format!("`{command}` came before the launch of a scenario"));
        };
        match command {
            "configurationDone" | "pause" => Ok(Value::Null),
            "setBreakpoints" => self.set_breakpoints(arguments),
            "setFunctionBreakpoints" => {
                let event = |item: &Value| Some(BreakCondition::Event(item["name"].as_str()?.to_owned()));
                Ok(self.set_list("functions", &arguments["breakpoints"], event))
            }
            "setDataBreakpoints" => {
                let field = |item: &Value| Some(BreakCondition::Field(item["dataId"].as_str()?.to_owned()));
                Ok(self.set_list("data", &arguments["breakpoints"], field))
            }
            "setExceptionBreakpoints" => {
                let assert = |item: &Value| (item == "assert").then_some(BreakCondition::Assert);
                Ok(self.set_list("exceptions", &arguments["filters"], assert))
            }
            "dataBreakpointInfo" => Ok(self.data_breakpoint(arguments)),
            "threads" => {
                let hosts = debugger.hosts().zip(1..);
                let threads =
                    hosts.map(|(host, number)| json!({ "id": number, "name": format!("host {host}") }));
                Ok(json!({ "threads": threads.collect::<Vec<_>>() }))
            }
            "stackTrace" => Ok(self.stack(arguments["threadId"].as_u64().unwrap_or(0))),
            "scopes" => Ok(self.scopes(arguments["frameId"].as_u64().unwrap_or(0))),
            "variables" => {
                let number = arguments["variablesReference"].as_u64().unwrap_or(0);
                Ok(json!({ "variables": self.shown.variables(number as usize) }))
            }
            "evaluate" => self.evaluate(arguments),
            "source" => {
                let number = arguments["source"]["sourceReference"].as_u64();
                let number = number.or(arguments["sourceReference"].as_u64()).unwrap_or(0) as usize;
                let files = debugger.files();
                let file = number.checked_sub(1).and_then(|index| files.get(index));
                let (_, text) = file.ok_or_else(|| "no program of this run contains this file".to_owned())?;
                Ok(json!({ "content": text, "mimeType": "text/x-mtp" }))
            }
            other => Err(format!("`{other}` is not supported")),
        }
    }

    /// Launches the debugging of a scenario.
    fn launch(&mut self, arguments: &Value) -> Reply {
        let scenario = arguments["scenario"].as_str().map(Path::new);
        let seed = arguments["seed"].as_u64();
        self.stops_on_entry = arguments["stopOnEntry"].as_bool().unwrap_or(true);
        self.debugger = Some(self.files.launch(scenario, seed)?);
        Ok(Value::Null)
    }

    fn set_breakpoints(&mut self, arguments: &Value) -> Reply {
        let source = &arguments["source"];
        let path = source["path"].as_str().or(source["name"].as_str());
        let path = path
            .ok_or_else(|| "expected `source.path`".to_owned())?
            .to_owned();
        let known = self.file(&path).unwrap_or_else(|| path.clone());
        let first_line = self.first_line;
        let line = move |item: &Value| {
            Some(BreakCondition::Line {
                file: Some(known.clone()),
                line: u32::try_from(item["line"].as_i64()? + 1 - first_line).ok()?,
            })
        };
        Ok(self.set_list(&path, &arguments["breakpoints"], line))
    }

    /// Returns the name by which the programs know a file.
    fn file(&self, path: &str) -> Option<String> {
        let files = self.debugger.as_ref()?.files();
        let wanted = self.files.canonical(Path::new(path));
        let is_meant = |known: &str| {
            known == path || wanted.is_some() && self.files.canonical(Path::new(known)) == wanted
        };
        let found = files.iter().find(|(known, _)| is_meant(known));
        // Built-in programs have no path: their name is the end of the client's path.
        let found = found.or_else(|| {
            files
                .iter()
                .find(|(known, _)| path.ends_with(&format!("/{known}")))
        });
        found.map(|(known, _)| (*known).to_owned())
    }

    /// Replaces the breakpoints of a list.
    fn set_list(
        &mut self,
        list: &str,
        items: &Value,
        what: impl Fn(&Value) -> Option<BreakCondition>,
    ) -> Value {
        let Some(debugger) = &mut self.debugger else {
            return Value::Null;
        };
        for (_, number) in self.set.extract_if(.., |(of, _)| of == list) {
            debugger.clear(number);
        }
        let mut shown = Vec::new();
        for item in items.as_array().into_iter().flatten() {
            let condition = item["condition"].as_str().filter(|text| !text.trim().is_empty());
            let added = match what(item) {
                Some(what) => debugger
                    .add(what, None, condition.map(str::to_owned))
                    .map_err(|error| error.to_string()),
                None => Err("the breakpoint has no place".to_owned()),
            };
            shown.push(match added {
                Ok(breakpoint) => {
                    self.set.push((list.to_owned(), breakpoint.number));
                    let mut shown = json!({ "id": breakpoint.number, "verified": true });
                    if let BreakCondition::Line { line, .. } = breakpoint.what {
                        shown["line"] = json!(i64::from(line) - 1 + self.first_line);
                    }
                    shown
                }
                Err(message) => json!({ "verified": false, "message": message }),
            });
        }
        json!({ "breakpoints": shown })
    }

    /// Returns the name under which writes to a variable can be watched, if they can be.
    fn data_breakpoint(&self, arguments: &Value) -> Value {
        let name = arguments["name"].as_str().unwrap_or_default();
        let number = arguments["variablesReference"].as_u64().unwrap_or(0);
        let field = if number == 0 {
            Some(name.to_owned())
        } else {
            self.shown.field(number as usize, name)
        };
        match field {
            Some(field) => json!({ "dataId": field, "description": field, "accessTypes": ["write"] }),
            None => json!({ "dataId": null, "description": "a data breakpoint needs a field of a context" }),
        }
    }

    fn stack(&self, thread: u64) -> Value {
        let Some(debugger) = &self.debugger else {
            return Value::Null;
        };
        let host = (thread as usize)
            .checked_sub(1)
            .and_then(|index| debugger.hosts().nth(index));
        let place = debugger.place();
        let Some(place) = place.filter(|place| Some(place.host.as_str()) == host) else {
            let id = FIRST_IDLE_FRAME + thread;
            let frame = json!({ "id": id, "name": "no event here now", "line": 0, "column": 0, "presentationHint": "label" });
            return json!({ "stackFrames": [frame], "totalFrames": 1 });
        };
        let mut frames = Vec::new();
        for (number, frame) in debugger.frames().into_iter().enumerate() {
            frames.push(self.frame(number + 1, &frame.function, &frame.line.file, frame.line.line));
        }
        let chain = debugger.processors().join(" ");
        let name = format!("#{} {} {}: {chain}", place.event, place.source, place.name);
        frames.push(match (&place.line, frames.is_empty()) {
            // After the last statement there is no line to show.
            (Some(line), true) => self.frame(1, &name, &line.file, line.line),
            _ => json!({
                "id": frames.len() + 1, "name": name, "line": 0, "column": 0, "presentationHint": "label",
            }),
        });
        json!({ "totalFrames": frames.len(), "stackFrames": frames })
    }

    fn frame(&self, id: usize, name: &str, file: &str, line: u32) -> Value {
        let path = self.files.canonical(Path::new(file));
        let short = Path::new(file)
            .file_name()
            .map_or(file.into(), |name| name.to_string_lossy());
        let source = match path {
            Some(path) => json!({ "name": short, "path": path }),
            // A file of a built-in program: the client requests its text by reference.
            None => {
                let files = self.debugger.as_ref().map_or_else(Vec::new, Debugger::files);
                let number = files.iter().position(|(known, _)| *known == file);
                json!({ "name": file, "path": file, "sourceReference": number.map_or(0, |n| n + 1) })
            }
        };
        json!({
            "id": id,
            "name": name,
            "source": source,
            "line": i64::from(line) - 1 + self.first_line,
            "column": self.first_line,
        })
    }

    fn scopes(&mut self, frame: u64) -> Value {
        let Some(debugger) = &self.debugger else {
            return Value::Null;
        };
        let mut scopes: Vec<(String, Option<String>, Vec<_>)> = Vec::new();
        if frame >= FIRST_IDLE_FRAME {
            let host = (frame - FIRST_IDLE_FRAME).saturating_sub(1) as usize;
            for view in debugger
                .contexts()
                .into_iter()
                .nth(host)
                .into_iter()
                .flat_map(|host| host.contexts)
            {
                let context = view.context.context.to_string();
                scopes.push((view.context.to_string(), Some(context), view.fields));
            }
        } else {
            for scope in debugger.scopes(frame.saturating_sub(1) as usize) {
                scopes.push((scope.name, scope.context, scope.variables));
            }
        }
        let flying = debugger.flight().into_iter().map(|packet| {
            let text = format!("from {}, {} bytes: {}", packet.from, packet.bytes, packet.summary);
            (format!("packet {}", packet.number), Inner::Text(text))
        });
        scopes.push(("packets in flight".to_owned(), None, flying.collect()));
        let shown = scopes.into_iter().map(|(name, context, variables)| {
            let count = variables.len();
            json!({
                "name": name,
                "expensive": false,
                "namedVariables": count,
                "variablesReference": self.shown.keep(context, variables),
            })
        });
        json!({ "scopes": shown.collect::<Vec<_>>() })
    }

    /// Evaluates an expression. In the client's console it also runs commands.
    fn evaluate(&mut self, arguments: &Value) -> Reply {
        let text = arguments["expression"].as_str().unwrap_or_default();
        let Some(debugger) = &mut self.debugger else {
            return Ok(Value::Null);
        };
        let is_console = arguments["context"] == "repl";
        if let (true, Ok(Some(command))) = (is_console, Command::parse(text))
            && !matches!(command, Command::Go(_) | Command::Packet(_) | Command::Quit)
        {
            let answer = debugger
                .obey(&command, &mut || false)
                .map_err(|error| error.to_string())?;
            return Ok(match answer {
                Answer::Value(value) => self.value(value),
                other => json!({ "result": other.to_string(), "variablesReference": 0 }),
            });
        }
        match arguments["frameId"].as_u64() {
            Some(frame) if frame >= FIRST_IDLE_FRAME => {
                let host = (frame - FIRST_IDLE_FRAME).saturating_sub(1) as usize;
                let host = debugger.hosts().nth(host).map(str::to_owned).unwrap_or_default();
                debugger.select_host(&host).map_err(|error| error.to_string())?;
            }
            Some(frame) => {
                let is_function = debugger.select_frame(frame.saturating_sub(1) as usize);
                let _ = is_function || debugger.select_frame(0);
            }
            None => {}
        }
        let value = debugger.print(text).map_err(|error| error.to_string())?;
        Ok(self.value(value))
    }

    fn value(&mut self, value: Inner) -> Value {
        json!({ "result": value.to_string(), "variablesReference": self.shown.keep_inside(value) })
    }

    fn say(&mut self, category: &str, text: &str) {
        self.event(
            "output",
            json!({ "category": category, "output": format!("{text}\n") }),
        );
    }

    fn respond(&mut self, request: &Value, reply: Reply) {
        let mut response = json!({
            "type": "response",
            "request_seq": request["seq"],
            "command": request["command"],
            "success": reply.is_ok(),
        });
        match reply {
            Ok(Value::Null) => {}
            Ok(body) => response["body"] = body,
            Err(message) => {
                // `format` is a pattern in which braces name variables.
                let error = json!({ "id": 1, "format": "{message}", "variables": { "message": &message }, "showUser": true });
                response["body"] = json!({ "error": error });
                response["message"] = json!(message);
            }
        }
        self.push(response);
    }

    fn event(&mut self, event: &str, body: Value) {
        let mut message = json!({ "type": "event", "event": event });
        if !body.is_null() {
            message["body"] = body;
        }
        self.push(message);
    }

    fn push(&mut self, mut message: Value) {
        self.sequence += 1;
        message["seq"] = json!(self.sequence);
        self.out.push(message);
    }
}

fn capabilities() -> Value {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsConditionalBreakpoints": true,
        "supportsFunctionBreakpoints": true,
        "supportsDataBreakpoints": true,
        "supportsStepBack": true,
        "supportsEvaluateForHovers": true,
        "supportsTerminateRequest": true,
        "exceptionBreakpointFilters": [
            { "filter": "assert", "label": "False assertions and invariants", "default": true },
        ],
    })
}
