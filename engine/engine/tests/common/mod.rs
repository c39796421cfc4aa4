//! A program whose reactions are closures, an in-memory wire, and two stacks on it.

#![allow(dead_code, unreachable_pub)] // Each test file uses only a part.

pub mod cable;
pub mod script;

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::{Handle, Notice, Stack, StackConfig};
use hawser_time::Instant;

use cable::{Cable, cable, caps};
use script::Script;

/// Two stacks on one cable, and virtual time.
pub struct Pair {
    pub now: Instant,
    pub stacks: [Stack; 2],
    pub ends: [Cable; 2],
}

/// Returns the address of stack 0 or 1, with a port.
pub fn address(stack: usize, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, stack as u8 + 1].into(), port)
}

pub fn config(stack: usize) -> StackConfig {
    let interface = InterfaceConfig {
        addresses: vec![(address(stack, 0).ip(), 24)],
        gateways: vec![],
        mtu: 1500,
    };
    StackConfig::new(interface, 7 + stack as u64)
}

pub fn stack(script: Script, config: StackConfig) -> Stack {
    Stack::new(Arc::new(script), config, &caps()).expect("a good configuration")
}

impl Pair {
    pub fn new(script: [Script; 2], loss_percent: u64, seed: u64) -> Pair {
        let [a, b] = script;
        Pair {
            now: Instant::from_nanos(1),
            stacks: [stack(a, config(0)), stack(b, config(1))],
            ends: cable(loss_percent, seed),
        }
    }

    /// Polls both stacks until neither has work that is due now.
    pub fn settle(&mut self) {
        let [a, b] = &mut self.ends;
        loop {
            let first = self.stacks[0].poll(self.now, a).expect("a cable does not fail");
            let second = self.stacks[1].poll(self.now, b).expect("a cable does not fail");
            if !(first || second) {
                return;
            }
        }
    }

    /// Advances time to the next deadline; returns false if there is no deadline.
    pub fn advance(&mut self) -> bool {
        let next = self.stacks.iter().filter_map(Stack::next_deadline).min();
        self.now = next.unwrap_or(self.now).max(self.now);
        next.is_some()
    }

    /// Takes all notices of a stack.
    pub fn notices(&mut self, stack: usize) -> Vec<(Handle, Notice)> {
        std::iter::from_fn(|| self.stacks[stack].next_notice()).collect()
    }
}
