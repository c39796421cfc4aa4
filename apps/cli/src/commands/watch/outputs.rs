//! Writes lines to standard output, a recording, qlog and a diagram.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use hawser::interact::diagram::{Diagram, draw};
use hawser::interact::qlog::{Document, Exporter, Sequence};
use hawser::interact::record::{Header, LineContent, RecordLine, Sample};
use hawser::lang::Printable;
use serde_json::Value;

use crate::exit::Exit;
use crate::terminal::EscapedWriter;

/// The maximum number of flows whose states are tracked. Later ones are ignored.
const MAX_FLOWS: usize = 4096;
/// The record separator of RFC 7464.
const SEPARATOR: u8 = 0x1e;

/// A buffered output file.
struct Sink {
    path: PathBuf,
    writer: BufWriter<File>,
}

impl Sink {
    /// Opens the file. Its content stays until [`Sink::begin`].
    fn open(path: &Path) -> Result<Sink, Exit> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.map_err(|error| failed(path, &error))?;
        Ok(Sink { path: path.to_owned(), writer: BufWriter::new(file) })
    }

    /// Truncates the file. Devices and pipes cannot be truncated.
    fn begin(&self) -> Result<(), Exit> {
        let file = self.writer.get_ref();
        let is_file = file.metadata().is_ok_and(|known| known.is_file());
        if is_file {
            file.set_len(0).map_err(|error| failed(&self.path, &error))
        } else {
            Ok(())
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Exit> {
        self.writer
            .write_all(bytes)
            .map_err(|error| failed(&self.path, &error))
    }

    fn flush(&mut self) -> Result<(), Exit> {
        self.writer.flush().map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Exit {
    Exit::environment(format!("cannot write {}: {error}", path.display()))
}

/// The form of a qlog, which begins when a recording's header arrives.
enum Form {
    Sequence(Option<Sequence>),
    Document(Option<Document>),
}

struct Qlog {
    sink: Sink,
    exporter: Exporter,
    form: Form,
}

impl Qlog {
    /// A file whose name ends as qvis expects for JSON text sequences is written as one. All others are one
    /// JSON document.
    fn create(path: &Path) -> Result<Qlog, Exit> {
        let is_sequence = path
            .extension()
            .is_some_and(|end| end == "sqlog" || end == "qlogseq");
        let form = if is_sequence {
            Form::Sequence(None)
        } else {
            Form::Document(None)
        };
        Ok(Qlog { sink: Sink::open(path)?, exporter: Exporter::default(), form })
    }

    fn line(&mut self, line: &RecordLine) -> Result<(), Exit> {
        if let LineContent::Header(header) = &line.what {
            return self.begin(header);
        }
        for event in self.exporter.line(line) {
            match &mut self.form {
                Form::Document(document) => document.iter_mut().for_each(|all| all.push(event.clone())),
                Form::Sequence(sequence) => {
                    if let Some(record) = sequence.as_mut().map(|all| all.event(&event)) {
                        self.record(&record)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, header: &Header) -> Result<(), Exit> {
        match &mut self.form {
            Form::Document(document) => {
                *document = Some(Document::new(header.clone()));
                Ok(())
            }
            Form::Sequence(sequence) => {
                let first = sequence.insert(Sequence::new(header.clone())).first();
                self.record(&first)
            }
        }
    }

    fn record(&mut self, record: &Value) -> Result<(), Exit> {
        self.sink.write(&[SEPARATOR])?;
        self.sink.write(Printable(record).to_string().as_bytes())?;
        self.sink.write(b"\n")
    }

    fn finish(mut self) -> Result<(), Exit> {
        let mut dropped = self.exporter.dropped();
        if let Form::Document(Some(document)) = self.form {
            dropped += document.dropped();
            self.sink
                .write(Printable(document.finish()).to_string().as_bytes())?;
            self.sink.write(b"\n")?;
        }
        if dropped > 0 {
            eprintln!(
                "{}: {dropped} events were dropped, because the file has its maximum size",
                self.sink.path.display()
            );
        }
        self.sink.flush()
    }
}

/// The states of all flows, for the diagram.
struct Figure {
    path: PathBuf,
    flows: BTreeMap<String, Diagram>,
    title: String,
}

impl Figure {
    fn line(&mut self, line: &RecordLine) {
        match &line.what {
            LineContent::Header(header) => {
                self.title = format!("congestion control in process {}", header.process);
            }
            LineContent::Signal(signal) => {
                if let Some(diagram) = self.flow(&signal.flow) {
                    diagram.event(&signal.event, &signal.fields);
                }
            }
            LineContent::Sample(sample) => self.place(sample),
            _ => {}
        }
    }

    fn flow(&mut self, name: &str) -> Option<&mut Diagram> {
        if !self.flows.contains_key(name) && self.flows.len() < MAX_FLOWS {
            self.flows.insert(name.to_owned(), Diagram::default());
        }
        self.flows.get_mut(name)
    }

    /// Places a flow that existed before, by the values of its variables.
    fn place(&mut self, sample: &Sample) {
        let value = |end: &str| {
            sample
                .values
                .iter()
                .find(|(name, _)| name.ends_with(end))
                .map(|(_, v)| *v)
        };
        let (Some(cwnd), Some(ssthresh)) = (value(".cwnd"), value(".ssthresh")) else {
            return;
        };
        if value(".state").is_none_or(|state| state >= ESTABLISHED)
            && let Some(diagram) = self.flow(&sample.flow)
        {
            diagram.place(cwnd, ssthresh);
        }
    }

    fn finish(self) -> Result<(), Exit> {
        let mut sum = Diagram::default();
        self.flows.values().for_each(|diagram| sum.add(diagram));
        let taking_part = self.flows.values().filter(|diagram| !diagram.counts().is_empty());
        let title = match taking_part.map(|_| ()).count() {
            1 => format!("{}, one flow", self.title),
            count => format!("{}, {count} flows", self.title),
        };
        std::fs::write(&self.path, draw(&sum, &title)).map_err(|error| failed(&self.path, &error))
    }
}

/// The number of `ESTABLISHED` in `conn.state`, common to all providers of TCP.
const ESTABLISHED: u64 = 3;

/// All outputs of the command.
#[derive(Default)]
pub(super) struct Outputs {
    is_json: bool,
    recording: Option<Sink>,
    qlog: Option<Qlog>,
    figure: Option<Figure>,
}

impl Outputs {
    /// Creates the files. An existing file is truncated only after all of them could be opened.
    pub(super) fn create(
        is_json: bool,
        recording: Option<&Path>,
        qlog: Option<&Path>,
        figure: Option<&Path>,
    ) -> Result<Outputs, Exit> {
        let figure = match figure {
            // The diagram is written at the end, but an unwritable path should fail now.
            Some(path) => {
                Sink::open(path)?;
                Some(Figure { path: path.to_owned(), flows: BTreeMap::new(), title: String::new() })
            }
            None => None,
        };
        let recording = recording.map(Sink::open).transpose()?;
        let qlog = qlog.map(Qlog::create).transpose()?;
        recording
            .iter()
            .chain(qlog.as_ref().map(|qlog| &qlog.sink))
            .try_for_each(Sink::begin)?;
        Ok(Outputs { is_json, recording, qlog, figure })
    }

    /// Writes a line. Returns true when the reader of standard output has gone.
    pub(super) fn line(&mut self, line: &RecordLine) -> Result<bool, Exit> {
        if self.is_json || self.recording.is_some() {
            let text = serde_json::to_string(line).map_err(Exit::environment)?;
            let text = format!("{}\n", Printable(text));
            if let Some(recording) = &mut self.recording {
                recording.write(text.as_bytes())?;
            }
            if self.is_json {
                match EscapedWriter(std::io::stdout()).write_all(text.as_bytes()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(true),
                    other => other.map_err(Exit::environment)?,
                }
            }
        }
        if let Some(qlog) = &mut self.qlog {
            qlog.line(line)?;
        }
        if let Some(figure) = &mut self.figure {
            figure.line(line);
        }
        Ok(false)
    }

    /// Completes all outputs.
    pub(super) fn finish(mut self) -> Result<(), Exit> {
        if let Some(recording) = &mut self.recording {
            recording.flush()?;
        }
        if let Some(qlog) = self.qlog {
            qlog.finish()?;
        }
        self.figure.map_or(Ok(()), Figure::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_survives_a_failure_to_open_another_file() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let recording = folder.join("recording");
        std::fs::write(&recording, "what was received").expect("a file");
        let missing = folder.join("no/such/folder.qlog");
        assert!(Outputs::create(false, Some(&recording), Some(&missing), None).is_err());
        assert_eq!(
            std::fs::read_to_string(&recording).expect("it is there"),
            "what was received"
        );
        assert!(
            Outputs::create(false, Some(&recording), None, Some(&folder)).is_err(),
            "a folder is no file"
        );
        assert_eq!(
            std::fs::read_to_string(&recording).expect("it is there"),
            "what was received"
        );
        Outputs::create(false, Some(&recording), None, None)
            .map(drop)
            .expect("all can be opened");
        assert_eq!(
            std::fs::read_to_string(&recording).expect("it is there"),
            "",
            "a new recording"
        );
    }
}
