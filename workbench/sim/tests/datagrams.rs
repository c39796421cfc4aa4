//! Programs whose packets are carried in UDP.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::path::Path;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::{Options, ResolveError, Scenario, run};

/// The example program, changed to carry its packets in UDP, transfers a stream over a bad link, on both
/// engines.
#[test]
fn a_stream_in_udp_survives_a_bad_link_on_both_engines() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp");
    let text = std::fs::read_to_string(example).expect("the example");
    let in_udp = text.replace("ip(253)", "udp(4791)");
    assert_ne!(text, in_udp);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("in-udp.mtp");
    std::fs::write(&path, in_udp).expect("a file");
    for family in [4, 6] {
        let scenario = format!(
            "program = '{}'\nduration = '10min'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
             link = [{{ between = ['a', 'b'], both = {{ rate = '10Mbit/s', delay = '2ms', loss = '2%', \
             corrupt = '5%', duplicate = '2%', reorder = '2%', hold = '5ms' }} }}]\n\
             flow = [{{ from = 'a', to = 'b', family = {family}, bulk = {{ bytes = '200KiB' }} }}]\n",
            path.display()
        );
        let scenario = Scenario::parse(&scenario).expect("a scenario");
        let reports = [Engine::Interp, Engine::Native].map(|engine| {
            let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
                Ok(resolve_with_on(Some(engine), name, settings)?)
            };
            run(&scenario, &resolve, Options::default()).expect("a run")
        });
        for report in &reports {
            assert!(report.ok, "{report}");
        }
        assert_eq!(reports[0].trace_hash, reports[1].trace_hash, "the same packets");
    }
}
