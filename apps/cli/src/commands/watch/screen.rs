//! The terminal: it reads keys and draws the view.

use std::io::{self, Stdout};
use std::time::{Duration, Instant};

use hawser::interact::overview::{Key, Overview};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view;
use crate::exit::Exit;
use crate::screen::{self, Palette};

/// The minimum interval between two drawings.
const FRAME: Duration = Duration::from_millis(100);

/// The terminal, in full-screen mode.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    palette: Palette,
    /// The state shown while paused.
    frozen: Option<Overview>,
    drawn: Option<Instant>,
}

impl Screen {
    pub(super) fn open() -> Result<Screen, Exit> {
        let terminal = screen::open()?;
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Screen { terminal, palette: Palette { colour }, frozen: None, drawn: None })
    }

    /// Handles pending keys, and draws if it is time to. Returns true when the user quits.
    pub(super) fn handle_input(&mut self, model: &mut Overview) -> Result<bool, Exit> {
        let failed = |error: io::Error| Exit::environment(format!("the terminal: {error}"));
        while event::poll(Duration::ZERO).map_err(failed)? {
            match event::read().map_err(failed)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if self.key(key, model) {
                        return Ok(true);
                    }
                    self.drawn = None;
                }
                Event::Resize(..) => self.drawn = None,
                _ => {}
            }
        }
        if self.drawn.is_none_or(|then| then.elapsed() >= FRAME) {
            self.draw(model).map_err(failed)?;
        }
        Ok(false)
    }

    /// Handles a key. Returns true when the user quits.
    fn key(&mut self, key: KeyEvent, model: &mut Overview) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let meaning = match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if is_control => return true,
            KeyCode::Char('p' | ' ') => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(model.clone()),
                };
                return false;
            }
            KeyCode::Up | KeyCode::Char('k') => Key::Up,
            KeyCode::Down | KeyCode::Char('j') => Key::Down,
            KeyCode::Char('s') => Key::Sort,
            _ => return false,
        };
        let shown = self.frozen.as_mut().unwrap_or(model);
        shown.key(meaning);
        false
    }

    fn draw(&mut self, model: &Overview) -> io::Result<()> {
        let (shown, is_paused) = (self.frozen.as_ref().unwrap_or(model), self.frozen.is_some());
        let palette = self.palette;
        self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(shown, is_paused, palette, area, frame.buffer_mut());
        })?;
        self.drawn = Some(Instant::now());
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        screen::restore();
    }
}
