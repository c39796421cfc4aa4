//! Full-screen use of the terminal: raw mode while in use, restored however the command ends.

use std::io::{self, Stdout, stdout};

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::Show;
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::exit::Exit;

/// The styles that the terminal may show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) colour: bool,
}

impl Palette {
    /// Returns the style with this colour, or the default style if colours are off.
    pub(crate) fn tint(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// The style of the important part of a line.
pub(crate) fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The style of secondary text.
pub(crate) fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Takes over the terminal. The caller must release it with [`restore`].
pub(crate) fn open() -> Result<Terminal<CrosstermBackend<Stdout>>, Exit> {
    let open = || -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
        let mut terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        terminal.hide_cursor()?;
        Ok(terminal)
    };
    let terminal = open().map_err(|error| {
        restore();
        Exit::environment(format!(
            "the terminal cannot be used: {error}; --json needs no terminal"
        ))
    })?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |information| {
        restore();
        before(information);
    }));
    Ok(terminal)
}

/// Best effort: at this point an error cannot be reported.
pub(crate) fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}
