//! The terminal as a whole screen: raw while it is used, and restored however the command ends.

use std::io::{self, Stdout, stdout};

use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::Show;
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::exit::Exit;

/// Takes the terminal. Whoever does gives it back by [`restore`].
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
            "the terminal cannot be used: {error}; --json does without"
        ))
    })?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |information| {
        restore();
        before(information);
    }));
    Ok(terminal)
}

/// Best effort: nobody is left to receive an error.
pub(crate) fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}
