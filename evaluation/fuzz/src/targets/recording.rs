//! Lines of a recording: any line is parsed or rejected. Parsed lines become qlog and counts, within bounds.

use hawser::interact::diagram::{Diagram, draw};
use hawser::interact::qlog::{Document, Exporter, Sequence};
use hawser::interact::record::{Header, LineContent, parse, parse_header};

pub(crate) fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (mut exporter, mut diagram) = (Exporter::default(), Diagram::default());
    let mut document = Document::new(Header::default());
    let mut sequence = Sequence::new(Header::default());
    let _ = sequence.first();
    for line in text.lines() {
        let _ = parse_header(line);
        let Ok(line) = parse(line) else { continue };
        if let LineContent::Signal(signal) = &line.what {
            diagram.event(&signal.event, &signal.fields);
        }
        for event in exporter.line(&line) {
            sequence.event(&event);
            document.push(event);
        }
    }
    let _ = document.finish();
    let _ = draw(&diagram, text);
}
