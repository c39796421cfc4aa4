//! The debugger on a terminal: it reads keys and draws the view.

use std::io::{self, Stdout};
use std::time::Duration;

use hawser::runs::debug::{Answer, BreakCondition, Command, Debugger, Move, Stop};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view::{self, ViewState};
use crate::exit::{Exit, Outcome};
use crate::screen::{Palette, open, restore};

/// The maximum length of a command.
const MAX_INPUT: usize = 1024;

/// The terminal and the state shown on it.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    palette: Palette,
    debugger: Debugger,
    stop: Stop,
    answer: String,
    input: String,
    /// The command that an empty line repeats.
    last: Option<Command>,
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Debugs until the user quits.
pub(super) fn run(mut debugger: Debugger) -> Outcome {
    let _ = debugger.add(BreakCondition::Assert, None, None);
    let stop = debugger.entry();
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut screen = Screen {
        terminal: open()?,
        palette: Palette { colour },
        debugger,
        stop,
        answer: String::new(),
        input: String::new(),
        last: None,
    };
    let failed = |error: io::Error| Exit::environment(format!("the terminal: {error}"));
    loop {
        screen.draw().map_err(failed)?;
        if let Event::Key(key) = event::read().map_err(failed)?
            && key.kind != KeyEventKind::Release
            && !screen.key(key)
        {
            return Ok(());
        }
    }
}

impl Screen {
    fn draw(&mut self) -> io::Result<()> {
        let (debugger, palette) = (&self.debugger, self.palette);
        let shown = ViewState { stop: &self.stop, answer: &self.answer, input: &self.input };
        self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(debugger, &shown, palette, area, frame.buffer_mut());
        })?;
        Ok(())
    }

    /// Handles a key. Returns false when the debugger should quit.
    fn key(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_empty = self.input.is_empty();
        let to = match key.code {
            KeyCode::Char('c' | 'd') if is_control => return false,
            KeyCode::Right if is_empty => Move::Step,
            KeyCode::Left if is_empty => Move::Back,
            KeyCode::PageDown => Move::Event,
            KeyCode::PageUp => Move::BackEvent,
            KeyCode::F(5) => Move::Continue,
            KeyCode::F(6) => Move::Reverse,
            KeyCode::F(10) => Move::Next,
            KeyCode::F(11) => Move::Step,
            KeyCode::F(12) => Move::Out,
            KeyCode::Char(letter) if !is_control && self.input.len() < MAX_INPUT => {
                self.input.push(letter);
                return true;
            }
            KeyCode::Backspace => {
                self.input.pop();
                return true;
            }
            KeyCode::Esc => {
                self.input.clear();
                self.answer.clear();
                return true;
            }
            KeyCode::Enter => return self.enter(),
            _ => return true,
        };
        self.obey(&Command::Go(to))
    }

    fn enter(&mut self) -> bool {
        let text = std::mem::take(&mut self.input);
        match Command::parse(&text) {
            Ok(Some(command)) => {
                self.last = Some(command.clone());
                self.obey(&command)
            }
            Ok(None) => match self.last.clone() {
                Some(command) => self.obey(&command),
                None => true,
            },
            Err(error) => {
                self.answer = error.to_string();
                true
            }
        }
    }

    /// Executes a command. Returns false when the debugger should quit. Any key interrupts a long command.
    fn obey(&mut self, command: &Command) -> bool {
        let mut pause = || event::poll(Duration::ZERO).unwrap_or(true) && event::read().is_ok();
        self.answer.clear();
        match self.debugger.obey(command, &mut pause) {
            Ok(Answer::Quit) => return false,
            Ok(Answer::Stop(stop)) => {
                self.answer = stop.problems.join("\n");
                if stop.end.is_some() {
                    self.answer = stop.to_string();
                }
                self.stop = *stop;
            }
            Ok(answer) => self.answer = answer.to_string(),
            Err(error) => self.answer = error.to_string(),
        }
        true
    }
}
