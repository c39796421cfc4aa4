//! Compares two implementations of FAST, `tcp/fast.mtp` and `hawser_bus::twares::Fast`. Given the same
//! observations they must compute the same windows, to the byte, on the interpreter and as machine code.

use std::sync::Arc;

use fastrand::Rng;
use hawser_bus::twares::{Acked, Controller, Fast, FastParams};
use hawser_engine::program::Program;
use hawser_ir::abi::EventHeader;
use hawser_ir::buf::{RecordBuf, Regions, event_header, set_event_header};
use hawser_ir::{ContextId, EventId, Module};
use hawser_load::{Engine, LoadedProgram};
use hawser_time::Instant;

const MS: u64 = 1_000_000;

/// `cc_news` of `congestion.mtp`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Opened = 1,
    Acked,
    Lost,
    TimedOut = 5,
}

/// The controller's observations.
#[derive(Clone, Copy)]
struct Observed {
    news: News,
    again: bool,
    smss: u64,
    acked: u64,
    flight: u64,
    timed: u64,
    now: u64,
    /// True if a recovery ended before.
    ended: bool,
}

/// The controller as a program with a single context.
struct Harness {
    program: Arc<dyn Program>,
    globals: Vec<Vec<u8>>,
    scratch: Vec<u8>,
}

/// Returns the controller's main file. `HAWSER_TCP` names the main file of another TCP, such as a mutant
/// (`cargo xtask mutants`). In that case, the function returns a copy with the `fast.mtp` of that TCP.
fn controller() -> (Option<hawser_documents::temporary::Folder>, String) {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fast/controller.mtp");
    let Some(other) = std::env::var_os("HAWSER_TCP").map(std::path::PathBuf::from) else {
        return (None, own.to_owned());
    };
    let copy = hawser_documents::temporary::Folder::new().expect("a folder");
    for file in std::fs::read_dir(other.parent().expect("a folder")).expect("a folder") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "mtp") {
            std::fs::copy(&path, copy.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    let text = std::fs::read_to_string(own).expect("a text");
    let main = copy.join("controller.mtp");
    std::fs::write(
        &main,
        text.replace("../../../../transports/tcp/fast.mtp", "fast.mtp"),
    )
    .expect("a copy");
    let main = main.to_str().expect("a plain path").to_owned();
    (Some(copy), main)
}

/// Returns a field's offset and size in bytes.
fn place(module: &Module, structure: hawser_ir::StructId, name: &str) -> (usize, usize) {
    let field = module
        .structure(structure)
        .fields
        .iter()
        .find(|field| field.name == name);
    let field = field.unwrap_or_else(|| panic!("no field {name}"));
    let bytes = field
        .ty
        .width()
        .map_or(8, |(bits, _)| usize::from(bits).div_ceil(8));
    (
        field.offset as usize,
        if field.ty == hawser_ir::Ty::Bool { 1 } else { bytes },
    )
}

fn write(bytes: &mut [u8], (at, size): (usize, usize), value: u64) {
    bytes[at..at + size].copy_from_slice(&value.to_ne_bytes()[..size]);
}

fn read(bytes: &[u8], (at, size): (usize, usize)) -> u64 {
    let mut value = [0; 8];
    value[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_ne_bytes(value)
}

impl Harness {
    fn new(engine: Engine, params: FastParams) -> Harness {
        let (_folder, main) = controller();
        let loaded = LoadedProgram::open(&main, Some(engine)).unwrap_or_else(|error| panic!("{error}"));
        let values = [
            ("FAST_ALPHA", u64::from(params.alpha)),
            ("FAST_GAMMA", u64::from(params.gamma)),
        ];
        let program = loaded
            .with(&values.map(|(name, value)| (name.to_owned(), value)))
            .expect("its params");
        let module = program.module();
        let context = vec![0; module.context_size(ContextId(0))];
        let scratch = vec![0; module.scratch.map_or(0, |id| module.structure(id).size as usize)];
        Harness { program, globals: vec![context], scratch }
    }

    /// Returns the place of a field of `cc_t` in the context.
    fn cc(&self, name: &str) -> (usize, usize) {
        let module = self.program.module();
        let context = module.structure(module.contexts[0].body);
        let part = context
            .fields
            .iter()
            .find(|field| field.name == "cc")
            .expect("cc");
        let hawser_ir::Ty::Struct(id) = part.ty else {
            panic!("cc is a structure")
        };
        let (at, size) = place(module, id, name);
        (part.offset as usize + at, size)
    }

    /// Reads a field of `cc_t`.
    fn field(&self, name: &str) -> u64 {
        read(&self.globals[0], self.cc(name))
    }

    /// Notifies the program and returns the window.
    fn notify(&mut self, observed: Observed) -> u64 {
        let module = self.program.module();
        let mut event = vec![0; module.event_size(EventId(0))];
        let header = EventHeader { event: 0, now: observed.now, ..event_header(&event) };
        set_event_header(&mut event, &header);
        let body = module.events[0].body;
        for (name, value) in [
            ("news", observed.news as u64),
            ("again", u64::from(observed.again)),
            ("smss", observed.smss),
            ("acked", observed.acked),
            ("flight", observed.flight),
            ("timed", observed.timed),
            ("ended", u64::from(observed.ended)),
        ] {
            write(&mut event, place(module, body, name), value);
        }
        self.scratch.fill(0);
        let (globals, scratch) = (&mut self.globals, &mut self.scratch);
        let mut regions = Regions { keyed: None, fresh: None, globals, scratch };
        self.program
            .react(&mut event, &mut regions, &mut RecordBuf::default());
        self.field("cwnd")
    }
}

/// Simulates a connection for both implementations: acknowledgements whose round trips grow with the window,
/// and an occasional loss or timeout. Some acknowledgements are untimed, or belong to a window that is not in
/// use.
fn compare(engine: Engine, seed: u64, params: FastParams) -> (u64, u64) {
    let mut rng = Rng::with_seed(seed);
    let mut program = Harness::new(engine, params);
    let mut controller = Fast::new(params);
    let smss = 500 + rng.u64(..9000);
    let (base, rate) = (MS * (1 + rng.u64(..400)), 10_000 + rng.u64(..50_000_000));
    let opened = Observed {
        news: News::Opened,
        again: seed.is_multiple_of(5),
        smss,
        acked: 0,
        flight: 0,
        timed: 0,
        now: 1,
        ended: false,
    };
    let mut window = controller.established(0, opened.again, smss).window;
    assert_eq!(program.notify(opened), window);
    let (mut now, mut recovering, mut settled, mut largest) = (MS, false, 0, 0);
    for step in 0..6_000 {
        let acked =
            (smss * (1 + rng.u64(..if seed.is_multiple_of(3) { 40 } else { 2 }))).min(window.max(smss));
        now += acked * 1_000_000_000 / window * base / 1_000_000_000 + 1;
        let rtt = base.max(window * 1_000_000_000 / rate) + rng.u64(..MS);
        let timed = if rng.u64(..20) == 0 { 0 } else { rtt };
        let flight = if rng.u64(..20) == 0 { window / 4 } else { window };
        let mut observed = Observed {
            news: News::Acked,
            again: false,
            smss,
            acked,
            flight,
            timed,
            now,
            ended: false,
        };
        match rng.u64(..3_000) {
            0 if !recovering => {
                observed.news = News::Lost;
                controller.recovery_began(flight, smss);
                program.notify(observed);
                recovering = true;
                continue;
            }
            1 => {
                observed.news = News::TimedOut;
                observed.again = rng.u64(..2) == 0;
                window = controller.timeout(flight, observed.again, smss).window;
                recovering = false;
                assert_eq!(
                    program.notify(observed),
                    window,
                    "seed {seed}, step {step}: timeout"
                );
                continue;
            }
            _ => {}
        }
        if recovering {
            controller.recovery_ended();
            observed.ended = true;
            window = program.field("ssthresh");
            recovering = false;
        }
        if rng.u64(..4_000) == 0 {
            window = window / 2 + smss; // set from outside
            let place = program.cc("cwnd");
            write(&mut program.globals[0], place, window);
        }
        let want = controller
            .acked(Acked {
                now: Instant::from_nanos(now),
                rtt: timed,
                bytes: acked,
                flight,
                window,
                mss: smss,
            })
            .window;
        assert_eq!(program.notify(observed), want, "seed {seed}, step {step}");
        window = want;
        largest = largest.max(window);
        settled += u64::from(!controller.is_starting());
        assert_eq!(
            program.field("settled") == 1,
            !controller.is_starting(),
            "seed {seed}, step {step}"
        );
        let measured = (program.field("base"), program.field("average"));
        assert_eq!(measured, controller.round_trips(), "seed {seed}, step {step}");
    }
    (settled, largest)
}

fn all(engine: Engine, seeds: u64) {
    let (mut settled, mut largest) = (0, 0);
    for seed in 0..seeds {
        let params = match seed % 2 {
            0 => FastParams::default(),
            _ => FastParams { alpha: 1 + seed as u16 * 7, gamma: (1 + seed * 13 % 100) as u8 },
        };
        let (more, window) = compare(engine, seed, params);
        settled += more;
        largest = largest.max(window);
    }
    assert!(settled > seeds * 1_000, "equation 3 ruled {settled} times only");
    assert!(largest > 1 << 20, "no window was larger than {largest} bytes");
}

#[test]
fn mtp_and_rust_give_the_same_windows_as_machine_code() {
    all(Engine::Native, 12);
}

#[test]
fn mtp_and_rust_give_the_same_windows_interpreted() {
    all(Engine::Interp, 4);
}
