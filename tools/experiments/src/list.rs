//! Every experiment, by name.

use crate::experiment::Experiment;

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "multi-baseline",
        about: "MULTI, Figures 5 and 10: what a session costs over one link",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::baseline,
    },
    Experiment {
        name: "multi-three",
        about: "MULTI, Figures 6 and 11: three and two connections at once",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::three,
    },
    Experiment {
        name: "multi-aggregate",
        about: "MULTI, Figures 7 and 8: a second path comes while a download runs",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::aggregate,
    },
    Experiment {
        name: "multi-switch",
        about: "MULTI, Figure 9: from one path to the other and back",
        needs_lab: true,
        steers_kernel: false,
        run: crate::multi::switch,
    },
    Experiment {
        name: "multi-wsp",
        about: "De Coninck and Bonaventure 2017: many pairs of paths, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::multi::wsp,
    },
    Experiment {
        name: "neat-download",
        about: "NEAT, section 6: downloads by what the selection picks, and by TCP",
        needs_lab: true,
        steers_kernel: false,
        run: crate::neat::download,
    },
    Experiment {
        name: "neat-caching",
        about: "NEAT, section 5.2, and Papastergiou et al.: what remembering winners saves",
        needs_lab: true,
        steers_kernel: false,
        run: crate::neat::caching,
    },
    Experiment {
        name: "itcp-fast",
        about: "iTCP, Figures 9 and 10: FAST, CUBIC and Reno at 120 and 400 ms, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::itcp::fast,
    },
    Experiment {
        name: "itcp-fast-lab",
        about: "the same for a minute in a lab: our TCP and Linux's under FAST, iFAST and Reno",
        needs_lab: true,
        steers_kernel: true,
        run: crate::itcp::fast_lab,
    },
    Experiment {
        name: "itcp-overhead",
        about: "iTCP, Tables 3 and 4: what signals, probes and modifications cost",
        needs_lab: true,
        steers_kernel: true,
        run: crate::itcp::overhead,
    },
    Experiment {
        name: "itcp-filters",
        about: "iTCP, section 2.4: signals delivered against interval and frequency, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::itcp::filters,
    },
    Experiment {
        name: "itcp-video",
        about: "iTCP: live video that receives the events of its transport, in virtual time",
        needs_lab: false,
        steers_kernel: false,
        run: crate::video::video,
    },
    Experiment {
        name: "mtp-loc",
        about: "MTP, Table 2: lines of the programs that come with Hawser, beside the paper's",
        needs_lab: false,
        steers_kernel: false,
        run: crate::mtp::lines,
    },
    Experiment {
        name: "mtp-rpc-latency",
        about: "MTP, section 7: calls by Homa, by TCP in MTP and by Linux's, alone and beside bulk traffic",
        needs_lab: true,
        steers_kernel: false,
        run: crate::mtp::latency,
    },
];
