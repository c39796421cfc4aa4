//! The simulator: hosts, links and faults under virtual time.
